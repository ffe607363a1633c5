"""Workers: any number of them flush, maintain and run the jobs of a store or a fleet."""

import asyncio
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from core.fleet.conftest import said, say

from lance_context_core import ContextStore
from lance_context_core.errors import InvalidRequestError
from lance_context_core.fleet import StoreFleet, work

CLI = [sys.executable, "-m", "lance_context_cli"]


async def test_a_round_flushes_each_shard_and_runs_the_jobs(open_fleet):
    fleet = open_fleet()
    for n in range(6):
        store = fleet.scope(tenant=f"tenant-{n}", user_id="ada")
        await say(store, "My name is Ada and I live in Paris.", "Good morning!")
        await store.knowledge.schedule()
    jobs = await fleet.scope(tenant="tenant-0").knowledge.jobs.list()
    assert [one.state for one in jobs] == ["scheduled"]
    done = await work(fleet, once=True)
    assert (done.n_stores, done.n_jobs, done.errors) == (4, 6, ())
    for name in await fleet.shards():
        shard = fleet._shards.get(name).store
        assert await shard._resources.database.root.connection.journal.parts() == []
    for n in range(6):
        store = fleet.scope(tenant=f"tenant-{n}")
        assert [one.state for one in await store.knowledge.jobs.list()] == ["succeeded"]


async def test_two_workers_share_the_jobs(open_fleet):
    fleet, other = open_fleet(), open_fleet()
    for n in range(6):
        store = fleet.scope(tenant=f"tenant-{n}", user_id="ada")
        await say(store, "My name is Ada.")
        await store.knowledge.schedule()
    done = await asyncio.gather(work(fleet, once=True), work(other, once=True))
    assert sum(one.n_jobs for one in done) == 6


async def test_a_worker_ends_soon_when_it_is_to(open_fleet):
    fleet, rounds = open_fleet(), []
    began = time.monotonic()
    await work(
        fleet,
        every=timedelta(seconds=60),
        is_ending=lambda: bool(rounds) and time.monotonic() - began > 0.3,
        after_round=rounds.append,
    )
    assert len(rounds) == 1
    with pytest.raises(InvalidRequestError, match="every="):
        await work(fleet, every=timedelta(0))


async def test_an_error_of_one_shard_is_told_and_the_others_are_worked_on(open_fleet, tmp_path):
    fleet = open_fleet()
    for n in range(8):
        await say(fleet.scope(tenant=f"tenant-{n}"), "hello")
    await fleet.flush()
    await fleet.close()
    folder = tmp_path / "fleet" / "shards" / "2"
    for file in folder.glob("journal.sqlite*"):
        file.write_bytes(b"broken")
    done = await work(open_fleet(), once=True)
    assert done.n_stores == 3
    assert len(done.errors) == 1
    assert done.errors[0].startswith("shard 2: ")


@pytest.mark.process
def test_the_command_works_until_it_is_told_to_end(tmp_path):
    with StoreFleet.open(tmp_path / "fleet", shards=2, maintenance=None) as fleet:
        asyncio.run(say(fleet.aio.scope(tenant="acme"), "hello"))
        process = subprocess.Popen(
            [*CLI, "worker", str(tmp_path / "fleet"), "--every", "0.2"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until = time.monotonic() + 30
        shard = fleet.placement("acme").shard
        journal = fleet.aio._shards.get(shard).store._resources.database.root.connection.journal

        async def is_flushed():
            return await journal.parts() == []

        while not asyncio.run(is_flushed()) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=20)
        assert (process.returncode, error) == (0, "")
        assert "stores" in out
        assert asyncio.run(said(fleet.aio.scope(tenant="acme"))) == ["hello"]


@pytest.mark.process
def test_the_command_works_on_a_store_and_names_a_place_without_one(tmp_path):
    with ContextStore.open(tmp_path / "store", maintenance=None) as store:
        asyncio.run(say(store.aio, "hello"))
    ran = subprocess.run(
        [*CLI, "worker", str(tmp_path / "store"), "--once"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    ran = subprocess.run(
        [*CLI, "worker", str(tmp_path / "none"), "--once"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3
    assert "no store or fleet at" in ran.stderr
    assert not (tmp_path / "none").exists()

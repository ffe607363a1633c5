"""Leases: who holds one by which clock, who may take it over, and how it is renewed."""

import asyncio
import json
import logging
import time

import pytest

from lance_context_core.errors import StorageError, StoreClosedError
from lance_context_core.storage import leases
from lance_context_core.storage.leases import Lease, LeaseRenewer

LEASE_SECONDS = 90.0


@pytest.fixture
def boot(monkeypatch):
    """The time since the boot of this machine, which the test sets."""
    monkeypatch.setattr(leases, "ticks", lambda: boot.now)
    monkeypatch.setattr(leases, "_LONGEST_PAUSE_SECONDS", 0.001)
    boot.now = 1000.0
    return boot


def mine(**more):
    return Lease(token=1, process=leases.mine(), **more).renewed(LEASE_SECONDS, 0.0)


def process_with(*, boot_id=None, began=None):
    """This process, but for what is given."""
    known, namespace, pid, began_at = json.loads(leases.mine())
    return json.dumps([boot_id or known, namespace, pid, began_at if began is None else began])


class Shelf:
    """Where leases are kept: by name who holds one, and what writing it does."""

    def __init__(self, *failures):
        self.holders = {}
        self.failures = list(failures)
        self.n_writes = 0

    async def write(self, held):
        self.n_writes += 1
        if self.failures:
            raise self.failures.pop(0)
        return [key for key, value in held.items() if self.holders.get(key) == value]


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it is about another thread
            await asyncio.sleep(0.001)


# Two clocks


@pytest.mark.parametrize("jump", [-400 * 86_400, -1, 1, 400 * 86_400])
def test_a_clock_that_is_set_ends_no_lease_of_this_machine_and_prolongs_none(boot, jump):
    lease = mine()
    boot.now += LEASE_SECONDS - 1
    assert not lease.is_free(jump)
    assert lease.is_held_with(1, jump)
    boot.now += 1
    assert lease.is_free(jump)
    assert not lease.is_held_with(1, jump)


def test_of_another_machine_the_clock_of_the_store_is_asked(boot):
    lease = Lease(process=process_with(boot_id="another")).renewed(LEASE_SECONDS, 500.0)
    boot.now += 10 * LEASE_SECONDS
    assert not lease.is_free(500.0 + LEASE_SECONDS - 1)
    assert lease.is_free(500.0 + LEASE_SECONDS)


def test_a_lease_without_a_named_process_ends_by_the_clock_of_the_store_alone():
    lease = Lease(token=1).renewed(LEASE_SECONDS, 500.0)
    assert not lease.is_free(500.0 + LEASE_SECONDS - 1)
    assert lease.is_free(500.0 + LEASE_SECONDS)
    assert not Lease(token=1).is_free(1e12)


def test_a_holder_that_died_on_this_machine_is_taken_over_at_once():
    lease = Lease(token=1, process=process_with(began=1)).renewed(LEASE_SECONDS, 0.0)
    assert lease.is_free(0.0)
    assert not lease.has_lapsed(0.0)
    assert not mine().is_free(0.0)


def test_who_has_an_older_token_holds_it_no_more():
    assert mine().is_held_with(1, 0.0)
    assert not mine().is_held_with(0, 0.0)


def test_tokens_grow_also_where_the_clock_is_set_back(monkeypatch):
    tokens = [0]
    for now in (5_000_000, 9_000_000, 1_000_000, 1_000_000, 20_000_000):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        tokens.append(leases.next_token(tokens[-1]))
    assert tokens == [0, 5_000, 9_000, 9_001, 9_002, 20_000]


# Renewal


@pytest.mark.parametrize("n_failures", [1, 4])
async def test_a_lease_is_renewed_after_writes_that_failed(boot, n_failures):
    shelf = Shelf(*[StorageError("busy"), OSError("busy")] * n_failures)
    n_failed, shelf.holders = len(shelf.failures), {"table": "us"}
    renewer = LeaseRenewer(shelf.write, "a lease")
    renewer.keep("table", "us", LEASE_SECONDS)
    for n in range(n_failed + 1):
        # A third of the lease passes until the first attempt, a fifteenth until each other one.
        boot.now += LEASE_SECONDS / (15 if n else 3)
        await until(lambda n=n: shelf.n_writes > n)
    boot.now += LEASE_SECONDS * 0.9  # From the renewal on it is another whole lease.
    await until(lambda: shelf.n_writes == n_failed + 2)
    assert renewer.keeps("table")
    await renewer.end("table")


async def test_a_lease_that_ran_out_before_it_could_be_renewed_is_given_up_and_told(boot, caplog):
    shelf = Shelf(*[OSError("full")] * 100)
    shelf.holders = {"table": "us"}
    renewer = LeaseRenewer(shelf.write, "the leases of tables")
    with caplog.at_level(logging.WARNING, logger="lance_context"):
        renewer.keep("table", "us", LEASE_SECONDS)
        boot.now += LEASE_SECONDS / 2
        await until(lambda: shelf.n_writes)
        assert renewer.keeps("table")
        boot.now += LEASE_SECONDS / 2
        await until(lambda: not renewer.keeps("table"))
        await until(lambda: "ran out" in caplog.text)
    n_writes = shelf.n_writes
    boot.now += LEASE_SECONDS
    await renewer.renew()
    assert shelf.n_writes == n_writes
    assert "the leases of tables was not renewed, it is tried again: OSError" in caplog.text


async def test_a_lease_that_another_took_is_renewed_no_more_and_the_others_are(boot):
    shelf = Shelf()
    shelf.holders = {"ours": "us", "taken": "them"}
    renewer = LeaseRenewer(shelf.write, "a lease")
    renewer.keep("ours", "us", LEASE_SECONDS)
    renewer.keep("taken", "us", LEASE_SECONDS)
    boot.now += LEASE_SECONDS / 3
    await until(lambda: not renewer.keeps("taken"))
    assert renewer.keeps("ours")
    await renewer.end("ours")


async def test_no_lease_of_a_closed_store_is_renewed(boot):
    shelf = Shelf(StoreClosedError("closed"))
    renewer = LeaseRenewer(shelf.write, "a lease")
    renewer.keep("table", "us", LEASE_SECONDS)
    boot.now += LEASE_SECONDS / 3
    await until(lambda: not renewer.keeps("table"))
    assert shelf.n_writes == 1


@pytest.mark.usefixtures("boot")
async def test_who_ends_a_lease_waits_for_the_renewal_that_is_being_written():
    begun, go_on, done = asyncio.Event(), asyncio.Event(), []  # noqa: TID251 - of one loop

    async def write(held):
        begun.set()
        await go_on.wait()
        done.append("written")
        return held

    renewer = LeaseRenewer(write, "a lease")
    renewer.keep("table", "us", LEASE_SECONDS)
    renewing = asyncio.create_task(renewer.renew())
    await begun.wait()
    ending = asyncio.create_task(renewer.end("table"))
    ending.add_done_callback(lambda _: done.append("ended"))
    await asyncio.sleep(0.01)
    assert done == []
    go_on.set()
    await asyncio.gather(renewing, ending)
    await asyncio.sleep(0)
    assert done == ["written", "ended"]
    assert not renewer.keeps("table")


async def test_a_forked_child_renews_its_own_leases_and_none_of_its_parent(boot, monkeypatch):
    shelf = Shelf()
    shelf.holders = {"of the parent": "us", "of the child": "us"}
    renewer = LeaseRenewer(shelf.write, "a lease")
    renewer.keep("of the parent", "us", LEASE_SECONDS)
    parent = leases.os.getpid()
    monkeypatch.setattr(leases.os, "getpid", lambda: parent + 1)
    renewer.keep("of the child", "us", LEASE_SECONDS)
    assert not renewer.keeps("of the parent")
    boot.now += LEASE_SECONDS / 3
    await until(lambda: shelf.n_writes)
    await renewer.end("of the child")

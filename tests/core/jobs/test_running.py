"""Who runs jobs: within a budget, outside of quiet hours, in a thread, and as long as it takes."""

import asyncio
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from core.knowledge.living import (
    OSLO,
    DeathError,
    Scripted,
    aloud,
    dying,
    facts,
    opened,
    said,
)

from lance_context_core import AsyncContextStore, ContextStore, InvalidRequestError, Message
from lance_context_core.errors import ConflictError, StorageError
from lance_context_core.jobs import commits, queue
from lance_context_core.knowledge import JobBudget
from lance_context_core.settings import JournalPolicy


def test_a_run_stops_where_its_budget_of_calls_ends_and_the_rest_stays_scheduled(store, memory):
    model = Scripted(aloud, aloud, aloud)
    memory = memory.using(model=model)
    for n in range(3):
        memory.add(f"I have {n} dogs.", session_id=f"s{n}", infer="later")
    done = memory.jobs.run_due(budget=JobBudget(calls=2))
    assert [job.usage["calls"] for job in done] == [1, 1]
    assert len(model.asked) == 2
    (left,) = memory.jobs.list(state="scheduled")
    assert (left.attempts, left.error) == (0, None)
    memory.jobs.run_due()
    assert memory.jobs.list(state="scheduled") == []
    assert len(facts(store)) == 3


def test_a_budget_of_tokens_is_held_before_the_model_is_asked(memory):
    model = Scripted(aloud)
    memory = memory.using(model=model)
    memory.add("I have a dog.", session_id="s1", infer="later")
    memory.add(
        "I have a dog, " + "another dog, " * 20 + "and a cat.", session_id="s2", infer="later"
    )
    (job,) = memory.jobs.run_due(budget=JobBudget(tokens=20))
    assert job.usage == {"calls": 1, "characters": 13, "tokens": 4}
    assert len(model.asked) == 1
    assert memory.jobs.get(job.id).usage == job.usage


def test_without_a_model_a_budget_of_nothing_is_enough(store, memory):
    memory.add([OSLO], infer="later")
    memory.jobs.run_due(budget=JobBudget(calls=0, tokens=0))
    assert facts(store) == ["I live in Oslo."]


def test_nothing_runs_in_quiet_hours(store, memory):
    memory.add([OSLO], infer="later")
    noon = datetime(2100, 1, 1, 12, tzinfo=UTC).astimezone()
    quiet = [(noon.hour, noon.hour + 1)]
    assert memory.jobs.run_due(noon, quiet_hours=quiet) == []
    assert facts(store) == []
    assert len(memory.jobs.run_due(noon + timedelta(hours=1), quiet_hours=quiet)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"budget": 5}, id="a budget that is a number"),
        pytest.param({"budget": JobBudget(calls=-1)}, id="fewer calls than none"),
        pytest.param({"budget": JobBudget(tokens=True)}, id="tokens that are no count"),
        pytest.param({"quiet_hours": [(1, 99)]}, id="hours that no day has"),
        pytest.param({"quiet_hours": 22}, id="an hour that is no pair of two"),
        pytest.param({"quiet_hours": "22-6"}, id="hours as a text"),
        pytest.param({"now": "today"}, id="a moment as a text"),
        pytest.param({"now": datetime(2026, 1, 1)}, id="a moment that might be any"),  # noqa: DTZ001
        pytest.param({"limit": -1}, id="fewer jobs than none"),
    ],
)
def test_what_cannot_be_a_budget_hours_a_moment_or_a_limit_is_refused(memory, wrong):
    with pytest.raises(InvalidRequestError, match=min(wrong)):
        memory.jobs.run_due(**wrong)


def test_a_worker_runs_what_comes_until_its_block_ends(store, memory):
    with memory.jobs.worker(every=timedelta(milliseconds=5)) as worker:
        added = memory.add([OSLO], infer="later")
        while memory.jobs.get(added.job_id).state != "succeeded":
            assert worker.error is None
    assert facts(store) == ["I live in Oslo."]
    left = memory.add([said("I have a dog.")], infer="later")
    assert memory.jobs.get(left.job_id).state == "scheduled"


@pytest.mark.parametrize("name", ["every", "distill_every"])
def test_a_worker_that_never_rests_is_refused(memory, name):
    for wrong in (timedelta(0), 60):
        with pytest.raises(InvalidRequestError, match=f"^{name}="):
            memory.jobs.worker(**{name: wrong})


def _worked(memory, worker, text):
    """Until the worker has looked for jobs after this one was owed, and done it."""
    added = memory.add(text, session_id="owed", infer="later")
    while memory.jobs.get(added.job_id).state != "succeeded":
        assert worker.error is None
    return text


def test_a_worker_makes_knowledge_once_a_day_of_what_was_said_elsewhere(store, memory, clock):
    said_elsewhere = ["I have a dog.", "I have a cat."]
    store.history.append("", Message.user(said_elsewhere[0]), session_id="s")
    with memory.jobs.worker(every=timedelta(milliseconds=5)) as worker:
        owed = [_worked(memory, worker, "I like tea.")]
        store.history.append("", Message.user(said_elsewhere[1]), session_id="s")
        owed += [_worked(memory, worker, text) for text in ("I like rum.", "I like gin.")]
        assert sorted(facts(store)) == sorted([*owed, said_elsewhere[0]])
        clock.advance(days=1)
        owed += [_worked(memory, worker, text) for text in ("I like ale.", "I like mead.")]
        assert sorted(facts(store)) == sorted([*owed, *said_elsewhere])


def test_a_worker_may_leave_what_was_said_elsewhere_to_others(store, memory):
    store.history.append("", Message.user("I have a dog."), session_id="s")
    with memory.jobs.worker(every=timedelta(milliseconds=5), distill_every=None) as worker:
        owed = [_worked(memory, worker, text) for text in ("I like tea.", "I like rum.")]
    assert facts(store) == owed


async def test_who_is_at_a_job_for_long_keeps_it(tmp_path, clock, monkeypatch):
    """The clock goes on beyond the first lease while the model thinks; nobody else takes the job."""
    monkeypatch.setattr(queue, "RENEWAL", timedelta(milliseconds=1))
    async with AsyncContextStore.open(tmp_path / "store", clock=clock) as store:
        jobs = store.knowledge.jobs
        others = []

        async def slow(sentences):
            (job,) = await jobs.list(state="running")
            for _ in range(3):
                clock.advance(seconds=0.8 * queue.LEASE.total_seconds())
                before = job.lease_until
                while job.lease_until == before:
                    await asyncio.sleep(0.001)
                    job = await jobs.get(job.id)
                others.extend(await jobs.run_due())
            return sentences

        memory = store.knowledge.using(model=slow)
        added = await memory.add([OSLO], session_id="s")
        assert others == []
        assert (await jobs.get(added.job_id)).state == "succeeded"
        assert (await jobs.get(added.job_id)).attempts == 1


@pytest.mark.parametrize("error", [StorageError("busy"), OSError("busy"), ConflictError("busy")])
async def test_a_job_is_renewed_again_after_a_renewal_failed(tmp_path, clock, monkeypatch, error):
    """The model takes longer than the first lease; it is asked once, and its answer is kept."""
    monkeypatch.setattr(queue, "RENEWAL", timedelta(milliseconds=1))
    put, failed = queue.Queue._put, []

    async def flaky(self, before, job):
        if asked and job.state == "running":
            failed.append(job.id)
            if len(failed) <= 2:
                raise error
        return await put(self, before, job)

    monkeypatch.setattr(queue.Queue, "_put", flaky)
    async with AsyncContextStore.open(tmp_path / "store", clock=clock) as store:
        jobs, asked, others = store.knowledge.jobs, [], []

        async def slow(sentences):
            asked.append(sentences)
            (job,) = await jobs.list(state="running")
            clock.advance(seconds=0.8 * queue.LEASE.total_seconds())
            async with asyncio.timeout(60):
                before = job.lease_until
                while job.lease_until == before:
                    await asyncio.sleep(0.001)
                    job = await jobs.get(job.id)
            clock.advance(seconds=0.8 * queue.LEASE.total_seconds())
            others.extend(await jobs.run_due())
            return sentences

        added = await store.knowledge.using(model=slow).add([OSLO], session_id="s")
        assert (len(asked), others) == (1, [])
        assert (await jobs.get(added.job_id)).state == "succeeded"
    assert len(failed) > 2


async def test_a_model_that_blocks_the_loop_of_its_caller_keeps_its_job(
    tmp_path, clock, monkeypatch
):
    monkeypatch.setattr(queue, "RENEWAL", timedelta(milliseconds=1))
    path, was_renewed = tmp_path / "store", []
    with ContextStore.open(path, clock=clock) as seen:

        async def slow(sentences):
            (before,) = seen.knowledge.jobs.list(state="running")
            clock.advance(seconds=0.8 * queue.LEASE.total_seconds())
            until = time.monotonic() + 60
            while not was_renewed and time.monotonic() < until:
                time.sleep(0.001)  # noqa: ASYNC251 - it computes here
                if seen.knowledge.jobs.get(before.id).lease_until != before.lease_until:
                    was_renewed.append(True)
            return sentences

        async with AsyncContextStore.open(path, clock=clock) as store:
            await store.knowledge.using(model=slow).add([OSLO], session_id="s")
    assert was_renewed


async def test_a_worker_looks_for_jobs_again_after_whatever_failed(tmp_path, monkeypatch):
    run_due, failed = queue.Queue.run_due, []

    async def flaky(self, *args, **options):
        if not failed:
            failed.append(True)
            raise OSError("busy")
        return await run_due(self, *args, **options)

    monkeypatch.setattr(queue.Queue, "run_due", flaky)
    async with AsyncContextStore.open(tmp_path / "store") as store:
        added = await store.knowledge.add([OSLO], infer="later")
        async with (
            store.knowledge.jobs.worker(every=timedelta(milliseconds=5)),
            asyncio.timeout(60),
        ):
            job = await store.knowledge.jobs.get(added.job_id)
            while job.state != "succeeded":
                await asyncio.sleep(0.005)
                job = await store.knowledge.jobs.get(added.job_id)
    assert failed


async def test_who_has_lost_a_job_keeps_it_for_nobody(tmp_path, clock, monkeypatch):
    """Who took it over dies, while the first still thinks: it is anybody's when the second lease ends."""
    monkeypatch.setattr(queue, "RENEWAL", timedelta(milliseconds=1))
    lease = queue.LEASE.total_seconds()
    asleep, renewed = [True], queue.Queue._renewed

    async def after_a_sleep(self, taken):
        if asleep:
            raise OSError("the machine is asleep")
        return await renewed(self, taken)

    monkeypatch.setattr(queue.Queue, "_renewed", after_a_sleep)
    async with AsyncContextStore.open(tmp_path / "store", clock=clock) as store:
        jobs, third = store.knowledge.jobs, []

        async def slow(sentences):
            clock.advance(seconds=2 * lease)
            with pytest.raises(DeathError):
                await store.knowledge.using(model=dying).jobs.run_due()
            asleep.clear()
            clock.advance(seconds=0.5 * lease)
            await asyncio.sleep(0.1)  # So long it might renew what is another's.
            assert await jobs.run_due() == []
            clock.advance(seconds=0.6 * lease)
            third.extend(await jobs.run_due())
            return [f"Too late: {one}" for one in sentences]

        added = await store.knowledge.using(model=slow).add([OSLO], session_id="s")
        assert [(one.id, one.attempts) for one in third] == [(added.job_id, 3)]
        found = await store.context("knowledge").list(filters={"kind": "fact"})
        assert [one["text"] for one in found] == ["I live in Oslo."]


def test_all_that_no_job_is_about_is_scheduled_and_shared_by_whoever_runs_it(tmp_path, clock):
    with opened(tmp_path, clock) as store, opened(tmp_path, clock) as other:
        store.knowledge.add("I have a dog.", session_id="known")
        for n in range(3):
            store.history.append("", Message.user(f"I have {n} cats."), session_id=f"s{n}")
        planned = store.knowledge.schedule()
        assert [(job.state, job.session_id) for job in planned] == [
            ("scheduled", f"s{n}") for n in range(3)
        ]
        assert store.knowledge.schedule() == []
        one = store.knowledge.jobs.run_due(limit=1)
        rest = other.knowledge.jobs.run_due()
        assert [job.id for job in [*one, *rest]] == [job.id for job in planned]
        assert len(facts(store)) == 4
        assert [job.id for job in store.knowledge.schedule(session_id="s1")] == []


def test_a_job_whose_row_was_folded_at_that_moment_is_taken_all_the_same(
    tmp_path, clock, monkeypatch
):
    real, refused = commits.write, []

    async def write(*args, **kwargs):
        if not refused:  # As it is where a fold comes between reading and writing.
            refused.append(args)
            return False
        return await real(*args, **kwargs)

    with opened(tmp_path, clock) as store:
        store.knowledge.add([OSLO], session_id="s", infer="later")
        monkeypatch.setattr(commits, "write", write)
        assert [one.state for one in store.knowledge.jobs.run_due()] == ["succeeded"]
        assert refused


def test_of_many_jobs_each_is_done_in_one_run_however_often_is_folded(tmp_path, clock):
    with opened(tmp_path, clock, journal=JournalPolicy(rows=4)) as store:
        for n in range(14):
            turn = said(f"I have {n} dogs.", clock.now()) if n % 2 else f"I have {n} dogs."
            store.knowledge.add(turn, session_id=f"s{n % 4}", user_id="ada", infer="later")
        assert len(store.knowledge.jobs.run_due()) == 14


RUNNING = """
import sys
import time
from lance_context_core import ContextStore

with ContextStore.open(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    print(*[one.id for one in store.knowledge.jobs.run_due() if one.state == "succeeded"])
"""


@pytest.mark.process
def test_processes_that_run_jobs_at_once_do_each_of_them_once(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        owed = [
            store.knowledge.add(f"I have {n} cats.", session_id=f"s{n}", infer="later").job_id
            for n in range(12)
        ]
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", RUNNING, str(tmp_path / "store")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for one in workers:
        assert one.stdout.readline() == "ready\n"
    for one in workers:
        one.stdin.write("\n")
        one.stdin.flush()
    done = [id for one in workers for id in one.communicate()[0].split()]
    assert sorted(done) == sorted(owed)
    with ContextStore.open(tmp_path / "store") as store:
        assert {one.state for one in store.knowledge.jobs.list()} == {"succeeded"}
        assert sorted(facts(store)) == sorted(f"I have {n} cats." for n in range(12))


def test_threads_that_run_jobs_at_once_do_each_of_them_once(store, memory):
    owed = [
        memory.add(f"I have {n} cats.", session_id=f"s{n}", infer="later").job_id for n in range(8)
    ]
    with ThreadPoolExecutor(3) as pool:
        rounds = [*pool.map(lambda _: memory.jobs.run_due(), range(3))]
    done = [one.id for some in rounds for one in some if one.state == "succeeded"]
    assert sorted(done) == sorted(owed)
    assert len(facts(store)) == len(owed)

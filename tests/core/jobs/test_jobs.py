"""Jobs are rows: done once, taken over from whoever died, and told what became of them."""

import asyncio
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import pytest
from core.knowledge.living import (
    OSLO,
    DeathError,
    Scripted,
    aloud,
    day,
    dying,
    everything,
    facts,
    said,
)

from lance_context_core import InvalidRequestError
from lance_context_core.jobs.queue import LEASE


def test_while_the_model_is_away_the_turns_are_kept_and_the_job_waits(store, memory, clock):
    model = Scripted(TimeoutError("away"), aloud)
    spoken = memory.using(model=model)
    added = spoken.add([OSLO], session_id="s", user_id="ada")
    job = memory.jobs.get(added.job_id)
    assert (job.state, job.attempts, facts(store)) == ("scheduled", 1, [])
    assert "away" in job.error
    assert added.errors == (job.error,)
    assert spoken.add([OSLO], session_id="s", user_id="ada").errors == (job.error,)
    assert store.scope(user_id="ada").history.count("", session_id="s") == 1
    assert spoken.jobs.run_due() == []  # it is not due yet
    clock.advance(minutes=1)
    (done,) = spoken.jobs.run_due()
    assert (done.state, done.error) == ("succeeded", None)
    assert facts(store) == ["The user says: I live in Oslo."]


def test_each_failure_waits_longer_and_the_fifth_is_the_last(memory, clock):
    spoken = memory.using(model=Scripted(*[OSError("no network")] * 5))
    job = memory.jobs.get(spoken.add([OSLO]).job_id)
    waited = []
    while job.state == "scheduled":
        waited.append(job.scheduled_at - clock.now())
        clock.advance(seconds=waited[-1].total_seconds())
        (job,) = spoken.jobs.run_due()
    assert waited == sorted(set(waited))
    assert (job.state, job.attempts) == ("failed", 5)
    assert [one.id for one in memory.jobs.list(state="failed")] == [job.id]


def test_a_failed_job_can_be_tried_again(store, memory):
    spoken = memory.using(model=Scripted("not a list", aloud))
    job = memory.jobs.get(spoken.add([OSLO]).job_id)
    assert job.state == "failed"
    assert spoken.jobs.run_due() == []
    memory.jobs.retry(job.id)
    (done,) = spoken.jobs.run_due()
    assert done.state == "succeeded"
    assert len(facts(store)) == 1


def test_a_cancelled_job_never_runs_and_leaves_nothing(store, memory):
    added = memory.add([OSLO], infer="later")
    assert memory.jobs.cancel(added.job_id).state == "cancelled"
    assert memory.jobs.run_due() == []
    assert everything(store) == {}
    with pytest.raises(InvalidRequestError, match="succeeded"):
        memory.jobs.cancel(memory.add("I have a dog.").job_id)


def test_a_job_that_fails_does_not_stop_the_others(store, memory):
    memory.add([OSLO], session_id="s1", infer="later")
    memory.add([said("I have a dog.", day(2024))], session_id="s2", infer="later")
    done = memory.using(model=Scripted("nonsense", aloud)).jobs.run_due()
    assert [one.state for one in done] == ["failed", "succeeded"]
    assert len(facts(store)) == 1


def test_whose_worker_died_is_taken_over_when_its_lease_ends(store, memory, clock):
    added = memory.add([OSLO], infer="later")
    with pytest.raises(DeathError):
        memory.using(model=dying).jobs.run_due()
    assert memory.jobs.get(added.job_id).state == "running"
    assert memory.jobs.run_due() == []
    clock.advance(seconds=LEASE.total_seconds())
    (done,) = memory.jobs.run_due()
    assert (done.state, done.attempts, done.fence) == ("succeeded", 2, 2)
    assert facts(store) == ["I live in Oslo."]


def test_the_late_write_of_a_worker_that_lost_its_job_is_fenced_off(store, memory, clock):
    memory.add([OSLO], infer="later")

    def meanwhile(sentences):
        clock.advance(seconds=2 * LEASE.total_seconds())
        (done,) = store.knowledge.jobs.run_due()
        assert done.state == "succeeded"
        return ["something else" for _ in sentences]

    memory.using(model=meanwhile).jobs.run_due()
    assert facts(store) == ["I live in Oslo."]


def test_the_late_failure_of_a_worker_that_lost_its_job_leaves_it_to_who_is_at_it(
    store, memory, clock
):
    memory.add([OSLO], infer="later")
    has_begun, may_end = Event(), Event()

    def patient(sentences):
        has_begun.set()
        assert may_end.wait(30)
        return sentences

    with ThreadPoolExecutor(1) as other:

        def meanwhile(_):
            clock.advance(seconds=2 * LEASE.total_seconds())
            taken_over.append(other.submit(store.knowledge.using(model=patient).jobs.run_due))
            assert has_begun.wait(30)
            raise RuntimeError

        taken_over = []
        (lost,) = memory.using(model=meanwhile).jobs.run_due()
        assert (lost.state, lost.error, lost.fence) == ("running", None, 2)
        may_end.set()
        (done,) = taken_over[0].result()
    assert (done.state, done.attempts) == ("succeeded", 2)
    assert facts(store) == ["I live in Oslo."]


def test_what_is_cancelled_while_it_runs_writes_nothing(store, memory):
    added = memory.add([OSLO], infer="later")

    def meanwhile(sentences):
        store.knowledge.jobs.cancel(added.job_id)
        return sentences

    memory.using(model=meanwhile).jobs.run_due()
    assert everything(store) == {}
    assert memory.jobs.get(added.job_id).state == "cancelled"


def test_of_many_workers_at_once_one_does_the_job(store, memory):
    memory.add([OSLO], infer="later")
    models = [Scripted(aloud) for _ in range(4)]

    async def all_of_them():
        aio = store.aio.knowledge
        done = await asyncio.gather(*(aio.using(model=one).jobs.run_due() for one in models))
        return [job for some in done for job in some]

    done = asyncio.run(all_of_them())
    assert [one.state for one in done] == ["succeeded"]
    assert sum(len(one.asked) for one in models) == 1
    assert len(facts(store)) == 1


def test_only_as_many_run_as_are_asked_for_the_oldest_first(memory):
    ids = [memory.add(f"I have {n} dogs.", infer="later").job_id for n in range(3)]
    assert [one.id for one in memory.jobs.run_due(limit=2)] == ids[:2]
    assert [one.id for one in memory.jobs.list(state="scheduled")] == ids[2:]


def test_jobs_are_found_by_state_and_kind_and_a_wrong_state_is_refused(memory):
    memory.add(OSLO["content"])
    assert [one.kind for one in memory.jobs.list(state="succeeded", kind="extract")] == ["extract"]
    assert memory.jobs.list(kind="prune") == []
    with pytest.raises(InvalidRequestError, match="use one of scheduled"):
        memory.jobs.list(state="done")


def test_what_is_due_later_runs_when_it_is_told_that_it_is_later(memory, clock):
    spoken = memory.using(model=Scripted(OSError("away"), aloud))
    spoken.add([OSLO])
    (done,) = spoken.jobs.run_due(clock.now() + timedelta(hours=1))
    assert done.state == "succeeded"


@pytest.mark.parametrize("infer", ["auto", "later"])
@pytest.mark.parametrize("ids", [[None], [None] * 3, ['t"1', "t\\2"], ["ä", "b"]])
def test_the_id_of_a_job_is_in_all_releases_the_same_hash_of_what_it_is_about(memory, ids, infer):
    turns = [said(f"I have {n} dogs.", **({"id": id} if id else {})) for n, id in enumerate(ids)]
    added = memory.add(turns, session_id='s"1', user_id="ada", infer=infer)
    about = ["extract", None, "ada", None, 's"1', list(added.ids), memory.jobs.list()[0].producer]
    told = json.dumps(about, separators=(",", ":"), ensure_ascii=False)
    assert added.job_id == f"job-{hashlib.sha256(told.encode()).hexdigest()[:32]}"
    assert added.job_ids == (added.job_id,)

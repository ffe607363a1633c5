"""What a job costs beside its work: small writes, and no commit of its own."""

import asyncio

import pytest
from core.knowledge.living import OSLO, facts, opened, said

from lance_context_core.engine.journal.journal import Journal
from lance_context_core.jobs.queue import LEASE


@pytest.fixture
def acknowledged(monkeypatch):
    """How often something was written into the journal."""
    done, real = [], Journal.write

    async def write(self, part, decide):
        view = await real(self, part, decide)
        done.extend([part] if view is not None else [])
        return view

    monkeypatch.setattr(Journal, "write", write)
    return done


@pytest.mark.parametrize(
    ("infer", "n_writes"),
    [
        pytest.param("never", 1, id="the turn alone"),
        pytest.param("later", 1, id="the turn, and with it the job"),
        pytest.param("auto", 2, id="these, and then what was made with the end of the job"),
    ],
)
def test_a_turn_and_its_job_are_written_together(tmp_path, clock, acknowledged, infer, n_writes):
    with opened(tmp_path, clock) as store:
        store.knowledge.add("I have a dog.", session_id="s")
        before = store.version()
        acknowledged.clear()
        for n in range(4):
            store.knowledge.add(f"I have {n} cats.", session_id="s", infer=infer)
        assert len(acknowledged) == 4 * n_writes
        assert store.version() == before + 1  # one fold of all of it


def test_what_is_begun_with_its_turn_is_taken_over_like_any_other(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        asyncio.run(told_and_left(store, "I have a dog."))
    with opened(tmp_path, clock) as store:
        memory = store.knowledge
        assert [job.state for job in memory.jobs.list()] == ["running"]
        assert memory.jobs.run_due() == []
        clock.advance(seconds=LEASE.total_seconds())
        assert [job.state for job in memory.jobs.run_due()] == ["succeeded"]
        assert facts(store) == ["I have a dog."]


async def told_and_left(store, text):
    begun = asyncio.Event()  # noqa: TID251 - of this loop alone

    async def model(sentences):
        begun.set()
        await asyncio.sleep(3600)
        return sentences

    work = asyncio.ensure_future(store.aio.knowledge.using(model=model).add(text, session_id="s"))
    await begun.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


@pytest.mark.slow
def test_many_turns_of_one_call_are_several_jobs_that_all_run(tmp_path, clock):
    turns = [said(f"I have {n} dogs.") for n in range(401)]
    with opened(tmp_path, clock) as store:
        now = store.knowledge.add(turns, session_id="now")
        later = store.knowledge.add(turns, session_id="later", infer="later")
        assert len(now.job_ids) == len(later.job_ids) == 3
        assert sum(now.decisions.values()) == 401
        assert [job.id for job in store.knowledge.jobs.run_due()] == [*later.job_ids]
        assert len(facts(store)) == 802


def test_without_a_journal_jobs_are_the_same(tmp_path, clock):
    with opened(tmp_path, clock, journal=None) as store:
        memory = store.knowledge
        memory.add([OSLO], session_id="s1", user_id="ada")
        added = memory.add("I have a dog.", session_id="s2", user_id="ada", infer="later")
        assert [job.id for job in memory.jobs.run_due()] == [added.job_id]
        assert sorted(facts(store)) == ["I have a dog.", "I live in Oslo."]
        memory.undo(added.job_id)
        assert facts(store) == ["I live in Oslo."]

"""What a job costs beside its work: small writes, and no commit of its own."""

import pytest
from core.knowledge.living import OSLO, DeathError, dying, facts, opened, said

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
    with opened(tmp_path, clock) as store, pytest.raises(DeathError):
        store.knowledge.using(model=dying).add("I have a dog.", session_id="s")
    with opened(tmp_path, clock) as store:
        memory = store.knowledge
        assert [job.state for job in memory.jobs.list()] == ["running"]
        assert memory.jobs.run_due() == []
        clock.advance(seconds=LEASE.total_seconds())
        assert [job.state for job in memory.jobs.run_due()] == ["succeeded"]
        assert facts(store) == ["I have a dog."]


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


def test_what_a_turn_owes_is_a_job_before_it_is_a_row(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        memory = store.knowledge
        added = memory.add("I have a dog.", session_id="s", user_id="ada", infer="later")
        assert store.context("knowledge").list() == []
        (job,) = memory.jobs.list()
        assert (job.id, job.state, job.kind) == (added.job_id, "scheduled", "extract")
        assert (job.input_ids, job.user_id, job.session_id) == (added.ids, "ada", "s")
        assert memory.jobs.get(added.job_id) == job
        assert memory.jobs.list(state="running") == memory.jobs.list(kind="undo") == []
        assert [one.kind for one in memory.trace("s")] == ["turn", "job"]
        assert memory.distill().report == {"turns": 0}
        assert store.scope(user_id="bob").knowledge.jobs.list() == []
        (done,) = memory.jobs.run_due()
        assert (done.id, done.state, done.input_ids) == (job.id, "succeeded", job.input_ids)
        assert [one.id for one in memory.jobs.list()] == [job.id]


def test_what_is_owed_can_be_cancelled_tried_again_and_read_at_a_version(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        memory = store.knowledge
        added = memory.add("I have a dog.", session_id="s", infer="later")
        then = store.checkout(store.version()).knowledge
        assert memory.jobs.cancel(added.job_id).state == "cancelled"
        assert memory.jobs.run_due() == []
        assert [one.state for one in then.jobs.list()] == ["scheduled"]
        assert memory.jobs.retry(added.job_id).state == "scheduled"
        assert [one.state for one in memory.jobs.run_due()] == ["succeeded"]
        assert facts(store) == ["I have a dog."]


def test_what_an_erased_turn_owed_is_owed_no_more(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        memory = store.knowledge
        one = memory.add("I have a dog.", session_id="s", infer="later")
        two = memory.add("I have a cat.", session_id="s", infer="later")
        store.erase(ids=list(one.ids))
        assert [job.id for job in memory.jobs.run_due()] == [two.job_id]
        assert facts(store) == ["I have a cat."]


def test_turns_told_again_with_an_id_owe_one_job(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        memory = store.knowledge
        memory.add([OSLO], session_id="s", infer="never")
        first = memory.add([OSLO], session_id="s", infer="later")
        assert memory.add([OSLO], session_id="s", infer="later").job_id == first.job_id
        assert [job.id for job in memory.jobs.run_due()] == [first.job_id]

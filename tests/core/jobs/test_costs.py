"""What a job costs beside its work: small writes, and no commit of its own."""

import pytest
from core.knowledge.living import OSLO, DeathError, dying, facts, opened, said

from lance_context_core.jobs.queue import LEASE
from lance_context_core.storage.wal.table_log import TableLog
from lance_context_core.types import Relationship


@pytest.fixture
def acknowledged(monkeypatch):
    """How often something was written into the journal."""
    done, real = [], TableLog.write

    async def write(self, *arguments, **options):
        view = await real(self, *arguments, **options)
        done.extend([self.part] if view is not None else [])
        return view

    monkeypatch.setattr(TableLog, "write", write)
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


def _edited(store, directory, clock):
    history = store.scope(user_id="ada").history
    assert len(history.annotate("", {"mood": "good"}, session_id="s")) == 2
    return store


def _expiring(store, directory, clock):
    clock.advance(seconds=1)
    later = clock.now().replace(year=2100)
    assert store.scope(user_id="ada").history.touch("", session_id="s", expires_at=later) == 2
    return store


def _merged(store, directory, clock):
    branch = store.create_branch("night")
    owed = branch.knowledge.add("I have a cat.", session_id="t", infer="later")
    assert not store.merge("night").conflicts
    assert store.knowledge.jobs.get(owed.job_id).state == "scheduled"
    store.knowledge.jobs.cancel(owed.job_id)
    return store


def _as_lines(store, directory, clock):
    return _imported(store, directory, clock, "jsonl")


def _as_parquet(store, directory, clock):
    return _imported(store, directory, clock, "parquet")


def _imported(store, directory, clock, format):
    store.export(directory / "out", format=format)
    other = opened(directory / "other", clock)
    other.import_(directory / "out", format=format)
    return other


@pytest.mark.parametrize("journal", [{}, {"journal": None}], ids=["journal", "no journal"])
@pytest.mark.parametrize("moved", [_edited, _expiring, _merged, _as_lines, _as_parquet])
def test_what_turns_owe_goes_wherever_they_go(tmp_path, clock, moved, journal):
    with opened(tmp_path, clock, **journal) as store:
        dogs = ["I have a dog.", "I have another dog."]
        added = store.knowledge.add(dogs, user_id="ada", session_id="s", infer="later")
        with moved(store, tmp_path, clock) as there:
            (owed,) = there.knowledge.jobs.list(state="scheduled")
            assert (owed.id, owed.input_ids, owed.user_id) == (added.job_id, added.ids, "ada")
            assert [one.state for one in there.knowledge.jobs.run_due()] == ["succeeded"]
            assert facts(there) == dogs


def test_what_a_turn_owes_is_among_no_relationships_and_columns(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        store.knowledge.add("I have a dog.", session_id="s", infer="later")
        assert store.context().list()[0]["relationships"] == []
        assert store.tables.read("agent_relations").num_rows == 0
        assert "owes" not in store.sql("SELECT * FROM records").schema.names


def test_what_turns_of_an_older_release_owe_in_relationships_is_done_once(tmp_path, clock):
    with opened(tmp_path, clock) as store:
        now = store.knowledge.add("I have a cat.", session_id="s", infer="later")
        owed = Relationship(target_id="job-1", relation="owes:extract:rules/1:of yore")
        cites = Relationship(target_id="job-2", relation="cites")
        for n in range(2):
            text = f"I have {n} dogs."
            store.context().add("user", text, session_id="s", relationships=[cites, owed])
        now_owed, then_owed = store.knowledge.jobs.list()
        assert now_owed.id == now.job_id
        assert (then_owed.id, then_owed.kind) == ("job-1", "extract")
        assert (then_owed.producer, len(then_owed.input_ids)) == ("rules/1:of yore", 2)
        done = store.knowledge.jobs.run_due()
        assert [(one.id, one.state) for one in done] == [
            (now.job_id, "succeeded"),
            ("job-1", "succeeded"),
        ]
        assert facts(store) == ["I have a cat.", "I have 0 dogs.", "I have 1 dogs."]
        assert store.knowledge.jobs.run_due() == store.knowledge.schedule() == []

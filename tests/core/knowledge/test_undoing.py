"""One job can be undone, and nothing of what came after is lost."""

from datetime import timedelta

import pytest
from core.knowledge.living import BERGEN, OSLO, day, everything, facts, said
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_context_core import (
    AsyncContextStore,
    ConflictError,
    ContextStore,
    InvalidRequestError,
    Message,
)
from lance_context_core.knowledge import Prune
from lance_context_core.knowledge.undo_log import UndoLog

LIKES = said("I love skiing.", day(2024))


def test_undo_removes_what_a_job_did_and_revives_what_it_superseded(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    before = everything(store)
    added = memory.add([BERGEN], session_id="s2", user_id="ada")
    assert facts(store) == ["We moved to Bergen last week."]
    undone = memory.undo(added.job_id)
    assert facts(store) == ["I live in Oslo."]
    assert {id: one for id, one in everything(store).items() if id in before} == before
    assert len(undone.revived) == 1
    assert not undone.conflicts


def test_undo_after_many_later_writes_takes_back_exactly_the_jobs_part(store, memory):
    first = memory.add([OSLO, LIKES], session_id="s1", user_id="ada")
    for n in range(100):
        store.history.append("bot", Message.user(f"turn {n}"), session_id="other")
    memory.add([said("I have a dog.", day(2025))], session_id="s2", user_id="ada")
    memory.undo(first.job_id)
    assert facts(store) == ["I have a dog."]
    assert store.history.count("bot", session_id="other") == 100
    assert store.scope(user_id="ada").history.count("", session_id="s1") == 2


def test_what_later_turns_support_stays_by_them(store, memory):
    first = memory.add([OSLO], session_id="s1", user_id="ada")
    later = memory.add([said("I live in Oslo!", day(2025))], session_id="s2", user_id="ada")
    undone = memory.undo(first.job_id)
    assert facts(store) == ["I live in Oslo!"]
    (id,) = undone.reduced
    assert [quote.evidence.source_id for quote in memory.explain(id).quotes] == [*later.ids]


def test_undoing_an_undo_brings_all_of_it_back(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    added = memory.add([BERGEN], session_id="s2", user_id="ada")
    before = everything(store)
    undone = memory.undo(added.job_id)
    memory.undo(undone.job_id)
    assert everything(store) == before
    again = memory.undo(added.job_id)
    assert again.job_id not in (undone.job_id, added.job_id)
    assert facts(store) == ["I live in Oslo."]


def test_undoing_twice_is_undoing_once(store, memory):
    added = memory.add([OSLO], session_id="s1", user_id="ada")
    first = memory.undo(added.job_id)
    before = everything(store)
    assert memory.undo(added.job_id) == first
    assert everything(store) == before


def test_a_dry_run_says_the_same_and_writes_nothing(store, memory):
    added = memory.add([OSLO, LIKES], session_id="s1", user_id="ada")
    version = store.version()
    meant = memory.undo(added.job_id, dry_run=True)
    assert store.version() == version
    done = memory.undo(added.job_id)
    assert meant.is_dry_run
    assert (meant.retired, meant.revived) == (done.retired, done.revived)


def test_what_a_person_has_corrected_since_is_a_conflict_and_stays(store, memory):
    added = memory.add([OSLO, LIKES], session_id="s1", user_id="ada")
    (id,) = [
        one["id"]
        for one in store.context("knowledge").list(filters={"kind": "fact"})
        if "Oslo" in one["text"]
    ]
    memory.correct(id, "Ada lives in Oslo.")
    undone = memory.undo(added.job_id)
    assert undone.conflicts == (id,)
    assert facts(store) == ["Ada lives in Oslo."]


def test_the_turns_of_what_was_undone_are_not_distilled_again(store, memory):
    added = memory.add([OSLO], session_id="s1", user_id="ada")
    memory.undo(added.job_id)
    assert not memory.distill(apply="merge")
    assert facts(store) == []


def test_what_did_nothing_cannot_be_undone(memory):
    added = memory.add([OSLO], infer="later")
    with pytest.raises(InvalidRequestError, match="scheduled"):
        memory.undo(added.job_id)


def test_an_undo_names_the_summary_that_goes_or_is_made_anew(store, memory):
    first = memory.add([OSLO], session_id="s", user_id="ada")
    later = memory.add([LIKES], session_id="s", user_id="ada")
    (summary,) = store.context("knowledge").list(filters={"kind": "summary"})
    one = memory.undo(later.job_id)
    assert summary["id"] in one.reduced
    assert summary["id"] not in one.retired
    assert summary["id"] in memory.undo(first.job_id).retired


def test_the_summary_is_made_of_what_is_left(store, memory):
    memory.add([OSLO], session_id="s", user_id="ada")
    later = memory.add([said("I love skiing.", day(2025))], session_id="s", user_id="ada")
    memory.undo(later.job_id)
    (summary,) = store.context("knowledge").list(filters={"kind": "summary"})
    assert summary["text"] == "user: I live in Oslo."


TOWNS = ["Oslo", "Bergen", "Rome"]


@pytest.mark.slow
@settings(max_examples=max(1, settings.default.max_examples // 6))
@given(
    told=st.lists(st.tuples(st.sampled_from(TOWNS), st.integers(2020, 2023)), max_size=4),
    which=st.integers(0, 3),
)
@example(told=[("Oslo", 2020), ("Bergen", 2021), ("Oslo", 2022)], which=1)
@example(told=[("Oslo", 2020), ("Bergen", 2021), ("Rome", 2022)], which=2)
@example(told=[("Oslo", 2020), ("Bergen", 2020), ("Rome", 2022)], which=0)
def test_undoing_one_of_several_leaves_what_the_others_alone_would_have_made(told, which):
    """The oracle is a memory that was never told that one."""
    turns = [said(f"I live in {town}.", day(year, n + 1)) for n, (town, year) in enumerate(told)]
    with ContextStore.open("memory://") as store, ContextStore.open("memory://") as other:
        jobs = [
            store.knowledge.add([one], session_id=f"s{n}", user_id="ada").job_id
            for n, one in enumerate(turns)
        ]
        if which < len(turns):
            store.knowledge.undo(jobs[which])
        for n, one in enumerate(turns):
            if n != which:
                other.knowledge.add([one], session_id=f"s{n}", user_id="ada")
        assert current(store) == current(other)


def current(store):
    return {
        one["metadata"]["fact"]["value"]
        for one in store.context("knowledge").list(filters={"kind": "fact"})
    }


@pytest.mark.parametrize("hidden", ["pruned", "archived"])
def test_what_was_hidden_when_its_job_was_undone_is_not_brought_back_by_who_shows_it(
    store, memory, clock, hidden
):
    added = memory.add("I have a dog.", session_id="s", user_id="ada")
    clock.advance(days=60)
    if hidden == "pruned":
        policy = Prune(older_than=timedelta(days=30), importance_below=0.9)
        hiding = memory.prune(policy)
        assert len(hiding.result["retired"]) == 1
    else:
        hiding = memory.archive("s")
    undone = memory.undo(added.job_id)
    assert [id for id in undone.retired if id.startswith("fact")] == []  # it was hidden before
    shown = memory.undo(hiding.id)
    assert (facts(store), shown.conflicts) == ([], ())
    memory.undo(undone.job_id)
    assert facts(store) == ["I have a dog."]  # now nothing hides it
    memory.undo(added.job_id)
    memory.add("I have a cat.", session_id="s", user_id="ada")
    assert facts(store) == ["I have a cat."]


def test_what_was_said_since_an_undo_stays_when_that_is_undone(store, memory):
    def tell(month):
        turn = said("I live in Oslo.", day(2024, month))
        return memory.add([turn], session_id=f"s{month}", user_id="ada")

    first, second = tell(1), tell(2)
    undone = memory.undo(first.job_id)
    third = tell(3)
    memory.undo(undone.job_id)
    (known,) = store.context("knowledge").list(filters={"kind": "fact"})
    assert {*known["source_ids"]} == {*first.ids, *second.ids, *third.ids}


async def test_who_undoes_what_another_one_is_undoing_is_told_so(tmp_path, monkeypatch):
    undo = UndoLog.run
    async with AsyncContextStore.open(tmp_path / "store") as store:
        added = await store.knowledge.add([OSLO], session_id="s1", user_id="ada")

        async def meanwhile(self, job):
            monkeypatch.setattr(UndoLog, "run", undo)
            with pytest.raises(ConflictError, match="another worker"):
                await store.knowledge.undo(added.job_id)
            return await undo(self, job)

        monkeypatch.setattr(UndoLog, "run", meanwhile)
        undone = await store.knowledge.undo(added.job_id)
        assert undone.retired
        assert await store.knowledge.undo(added.job_id) == undone
        assert await store.knowledge.list(user_id="ada") == []

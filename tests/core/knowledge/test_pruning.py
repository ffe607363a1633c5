"""What is hidden, is hidden by a job, and comes back whole."""

from datetime import timedelta

import pytest
from core.knowledge.living import OSLO, day, everything, facts, said

from lance_context_core import InvalidRequestError, Message
from lance_context_core.knowledge import CandidateWeights, Prune

HALF = timedelta(hours=69.3)

DULL = said("I was in Rome on Monday.", day(2024))
KEEN = said("I love skiing.", day(2024))


def test_pruning_hides_old_facts_of_little_importance_and_no_others(store, memory):
    memory.add([OSLO, DULL, KEEN], session_id="s", user_id="ada")
    job = memory.prune()
    assert sorted(facts(store)) == ["I live in Oslo.", "I love skiing."]
    memory.undo(job.id)
    assert len(facts(store)) == 3


def test_a_dry_run_of_pruning_finds_what_pruning_then_hides(store, memory):
    memory.add([OSLO, DULL, KEEN], session_id="s", user_id="ada")
    before = everything(store)
    meant = memory.prune({"importance_below": 0.9}, dry_run=True).result["retired"]
    assert everything(store) == before
    assert memory.prune(Prune(importance_below=0.9)).result["retired"] == meant
    assert len(meant) == 2


def test_what_is_pinned_or_recent_is_not_pruned(store, memory, clock):
    memory.add([DULL], session_id="s", user_id="ada")
    (id,) = everything(store).keys() & {
        one["id"] for one in store.context("knowledge").list(filters={"kind": "fact"})
    }
    memory.pin(id)
    memory.add("I was in Paris on Friday.", session_id="s2", user_id="ada")
    memory.prune(Prune(importance_below=1.0))
    assert len(facts(store)) == 2


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"age": 3}, id="an unknown key"),
        pytest.param({"older_than": 3}, id="a number of what"),
        pytest.param({"older_than": timedelta(days=-1)}, id="the future"),
        pytest.param({"importance_below": 2}, id="more than all"),
        pytest.param({"limit": -1}, id="a negative limit"),
        pytest.param("all", id="a word"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(memory, policy):
    with pytest.raises(InvalidRequestError, match="policy"):
        memory.prune(policy)
    assert memory.jobs.list() == []


def test_a_fact_is_worth_the_mean_of_how_often_where_when_and_how_weightily_it_was_said(
    store, memory, clock
):
    for n in range(4):
        when = clock.now() - timedelta(hours=693 - 231 * n)
        memory.add([said("I love skiing.", when)], session_id=f"s{n % 2}", user_id="ada")
    (one,) = memory.candidates()
    assert (one.record.text, one.activity, one.reusability) == ("I love skiing.", 3 / 4, 1 / 2)
    assert one.importance == one.record.metadata["importance"]
    assert one.recency == 1  # It was said a moment ago, whenever it was said first.
    clock.advance(hours=HALF.total_seconds() / 3600)
    (one,) = memory.candidates()
    assert one.recency == pytest.approx(0.5)
    told = 0.1 * 3 / 4 + 0.1 * 1 / 2 + 0.5 * one.importance + 0.3 * one.recency
    assert one.score == pytest.approx(told)
    alone = CandidateWeights(activity=2, importance=0, reusability=0, recency=0)
    assert memory.candidates(weights=alone)[0].score == 3 / 4


def test_what_is_old_and_slight_is_to_be_pruned_what_scores_high_promoted_the_rest_retained(
    store, memory, clock
):
    memory.add([DULL, OSLO, said("I love skiing.", clock.now())], session_id="s", user_id="ada")
    found = memory.candidates()
    assert [(one.record.text, one.level) for one in found] == [
        ("I love skiing.", "promote"),
        ("I live in Oslo.", "retain"),
        (DULL["content"], "prune"),
    ]
    assert [one.record.id for one in found if one.level == "prune"] == (
        memory.prune(dry_run=True).result["retired"]
    )
    rows = store.tables.read("meta_mem_candidates").to_pylist()
    assert [(row["chunk_id"], row["score"], row["candidate_level"]) for row in rows] == [
        (one.record.id, one.score, one.level) for one in found
    ]
    strict = memory.candidates(weights=CandidateWeights(promote_from=1))
    assert {one.level for one in strict} == {"retain", "prune"}
    memory.pin(found[-1].record.id)
    assert memory.candidates()[-1].level == "retain"
    assert store.scope(user_id="bob").knowledge.candidates() == []


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"activity": -1}, id="less than nothing"),
        pytest.param({"recency": True}, id="no number"),
        pytest.param({"half_life": 3}, id="a number of what"),
        pytest.param({"promote_from": 2}, id="more than all"),
    ],
)
def test_weights_that_cannot_be_are_refused(wrong):
    with pytest.raises(InvalidRequestError, match=next(iter(wrong))):
        CandidateWeights(**wrong)


def test_what_are_no_weights_is_refused(memory):
    with pytest.raises(InvalidRequestError, match="above 0"):
        CandidateWeights(activity=0, importance=0, reusability=0, recency=0)
    with pytest.raises(InvalidRequestError, match="CandidateWeights"):
        memory.candidates(weights={"activity": 1})


def test_an_archived_session_leaves_all_reads_but_its_trace_and_comes_back_whole(store, memory):
    memory.add([OSLO], session_id="s", user_id="ada")
    memory.add("I have a dog.", session_id="other", user_id="ada")
    ada = store.scope(user_id="ada")
    messages, made = ada.history.get_messages("", session_id="s"), everything(store)
    job = memory.archive("s")
    assert ada.history.get_messages("", session_id="s") == []
    assert memory.search("live Oslo", user_id="ada", session_id="s") == []
    assert facts(store) == ["I have a dog."]
    assert {"turn", "fact", "summary", "job"} <= {one.kind for one in memory.trace("s")}
    assert memory.archive("s") == job
    memory.unarchive("s")
    assert ada.history.get_messages("", session_id="s") == messages
    assert everything(store) == made
    assert memory.archive("s").id != job.id


def test_what_was_hidden_before_an_archive_stays_hidden_after_it(store, memory):
    added = memory.add([OSLO], session_id="s", user_id="ada")
    memory.undo(added.job_id)
    memory.archive("s")
    memory.unarchive("s")
    assert facts(store) == []


def test_what_a_person_has_pinned_is_archived_with_its_session_and_comes_back_with_it(
    store, memory
):
    memory.add([OSLO], session_id="s", user_id="ada")
    (fact,) = store.context("knowledge").list(filters={"kind": "fact"})
    memory.pin(fact["id"])
    memory.archive("s")
    assert facts(store) == []
    assert memory.unarchive("s").conflicts == ()
    assert facts(store) == ["I live in Oslo."]


def test_what_a_session_hears_after_its_archive_is_seen(store, memory):
    memory.add([OSLO], session_id="s")
    memory.archive("s")
    store.history.append("", Message.user("Still there?"), session_id="s")
    assert [one.text for one in store.history.get_messages("", session_id="s")] == ["Still there?"]


def test_an_erased_turn_takes_along_what_only_it_supports_and_the_jobs_that_saw_it(store, memory):
    added = memory.add([OSLO], session_id="s1", user_id="ada")
    memory.add([KEEN], session_id="s2", user_id="ada")
    store.erase(ids=list(added.ids))
    assert facts(store) == ["I love skiing."]
    assert [one.session_id for one in memory.jobs.list()] == ["s2"]
    assert "Oslo" not in str(everything(store))

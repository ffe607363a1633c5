"""A distillation is a branch: read, and then merged or dropped."""

import pytest
from core.knowledge.living import BERGEN, OSLO, Scripted, aloud, day, everything, facts, said

from lance_context_core import ConflictError, InvalidRequestError, Message


def tell(store, *told, session_id="s", user_id="ada"):
    """Turns of which no knowledge was made."""
    for one in told:
        store.knowledge.add([one], session_id=session_id, user_id=user_id, infer="never")


def test_a_proposal_leaves_the_store_as_it_is_until_it_is_merged(store, memory):
    tell(store, OSLO)
    proposal = memory.distill()
    assert everything(store) == {}
    assert "I live in Oslo." in [one.text for one in proposal.diff.added if one.kind == "fact"]
    assert proposal.report == {"turns": 1, "add": 1}
    memory.merge(proposal.job_id)
    assert facts(store) == ["I live in Oslo."]


def test_a_discarded_proposal_leaves_no_branch_and_may_be_made_again(store, memory):
    tell(store, OSLO)
    proposal = memory.distill()
    assert [one.name for one in store.branches()] == [proposal.branch]
    memory.discard(proposal.job_id)
    assert store.branches() == []
    assert everything(store) == {}
    assert memory.jobs.get(proposal.job_id).state == "cancelled"
    with pytest.raises(InvalidRequestError, match="cancelled"):
        memory.merge(proposal.job_id)
    again = memory.distill()
    assert again.job_id == proposal.job_id
    memory.merge(again.job_id)
    assert facts(store) == ["I live in Oslo."]


def test_merging_twice_is_merging_once(store, memory):
    tell(store, OSLO)
    proposal = memory.distill()
    assert memory.merge(proposal.job_id)
    before = everything(store)
    assert not memory.merge(proposal.job_id)
    assert everything(store) == before
    assert store.branches() == []


def test_a_proposal_can_be_read_again_until_it_is_decided(memory, store):
    tell(store, OSLO)
    proposal = memory.distill()
    again = memory.proposal(proposal.job_id)
    assert [one.id for one in again.diff.added] == [one.id for one in proposal.diff.added]
    memory.merge(proposal.job_id)
    with pytest.raises(InvalidRequestError, match="succeeded"):
        memory.proposal(proposal.job_id)


def test_asking_for_the_same_proposal_again_is_the_same_one(store, memory):
    tell(store, OSLO)
    model = Scripted(aloud)
    first = memory.using(model=model).distill()
    assert memory.using(model=model).distill().job_id == first.job_id
    assert len(model.asked) == 1


def test_what_was_written_meanwhile_stays_and_what_a_person_corrected_too(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    (id,) = [one["id"] for one in store.context("knowledge").list(filters={"kind": "fact"})]
    tell(store, BERGEN, session_id="s2")
    proposal = memory.distill()
    store.history.append("", Message.user("later"), session_id="s3")
    memory.correct(id, "Ada lives in Oslo.")
    report = memory.merge(proposal.job_id)
    assert "Ada lives in Oslo." in facts(store)
    assert store.history.count("", session_id="s3") == 1
    assert [one.outcome for one in report.conflicts] == ["ours"]


@pytest.mark.slow
def test_a_policy_of_ones_own_may_decide_otherwise(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    (id,) = [one["id"] for one in store.context("knowledge").list(filters={"kind": "fact"})]
    tell(store, BERGEN, session_id="s2")
    proposal = memory.distill()
    memory.correct(id, "Ada lives in Oslo.")
    memory.merge(proposal.job_id, policy="theirs")
    assert facts(store) == ["We moved to Bergen last week."]


def test_nothing_new_is_an_empty_proposal_without_a_branch(store, memory):
    memory.add([OSLO], session_id="s")
    proposal = memory.distill()
    assert not proposal
    assert store.branches() == []


def test_a_merged_distillation_can_be_undone_as_a_whole(store, memory):
    tell(store, OSLO, session_id="s1")
    tell(store, said("I have a dog.", day(2024)), session_id="s2")
    proposal = memory.distill(apply="merge")
    assert len(facts(store)) == 2
    memory.undo(proposal.job_id)
    assert facts(store) == []
    memory.undo(memory.jobs.list(kind="undo")[0].id)
    assert len(facts(store)) == 2


@pytest.mark.slow
def test_a_proposal_whose_model_was_away_goes_on_where_it_was(store, memory, clock):
    tell(store, OSLO, session_id="s1")
    tell(store, said("I have a dog.", day(2024)), session_id="s2")
    model = Scripted(aloud, TimeoutError("away"), aloud)
    spoken = memory.using(model=model)
    with pytest.raises(InvalidRequestError, match="away"):
        spoken.distill()
    assert everything(store) == {}
    clock.advance(hours=1)
    (done,) = spoken.jobs.run_due()
    assert done.state == "proposed"
    assert len(model.asked) == 3
    spoken.merge(done.id)
    assert len(facts(store)) == 2


def test_who_distils_what_another_one_is_at_is_told_so(store, memory):
    tell(store, OSLO)

    def meanwhile(sentences):
        with pytest.raises(ConflictError, match="another worker"):
            spoken.distill()
        return aloud(sentences)

    spoken = memory.using(model=meanwhile)
    spoken.distill(apply="merge")
    assert facts(store) == ["The user says: I live in Oslo."]


def test_a_scope_has_no_branches_and_says_so(store):
    with pytest.raises(InvalidRequestError, match="scope"):
        store.scope(user_id="ada").knowledge.distill()


def fact_of(store, text):
    (found,) = [
        one
        for one in store.context("knowledge").list(filters={"kind": "fact"}, include_retired=True)
        if one["text"] == text
    ]
    return found


@pytest.mark.parametrize(
    ("proposed", "meanwhile", "current"),
    [
        pytest.param(BERGEN, OSLO, BERGEN, id="what is proposed is later"),
        pytest.param(OSLO, BERGEN, BERGEN, id="what came meanwhile is later"),
    ],
)
def test_of_a_slot_that_both_sides_gave_a_value_the_later_one_is_current_after_a_merge(
    store, memory, proposed, meanwhile, current
):
    tell(store, proposed, session_id="s1")
    proposal = memory.distill()
    later = memory.add([meanwhile], session_id="s2", user_id="ada")
    memory.merge(proposal.job_id)
    assert facts(store) == [current["content"]]
    memory.undo(proposal.job_id)
    assert facts(store) == [meanwhile["content"]]
    assert not memory.undo(later.job_id).conflicts
    assert facts(store) == []


@pytest.mark.slow
def test_what_both_sides_say_alike_is_one_fact_after_a_merge(store, memory):
    tell(store, OSLO, session_id="s1")
    proposal = memory.distill()
    memory.add([said("I live in Oslo!", day(2025))], session_id="s2", user_id="ada")
    memory.merge(proposal.job_id)
    assert facts(store) == ["I live in Oslo."]
    assert len(memory.explain(fact_of(store, "I live in Oslo.")["id"]).quotes) == 2


@pytest.mark.slow
def test_of_the_same_moment_on_both_sides_both_stay_after_a_merge(store, memory):
    tell(store, OSLO, session_id="s1")
    proposal = memory.distill()
    memory.add([said("I live in Rome.", day(2024))], session_id="s2", user_id="ada")
    memory.merge(proposal.job_id)
    assert sorted(facts(store)) == ["I live in Oslo.", "I live in Rome."]

"""What another model would have made of a job's turns is proposed on a branch."""

import pytest
from core.knowledge.living import BERGEN, OSLO, Scripted, aloud, everything, facts, said

from lance_context_core import InvalidRequestError


def whispered(sentences):
    return [f"It is whispered: {one}" for one in sentences]


def test_the_same_producer_proposes_nothing_and_asks_no_model(store, memory):
    model = Scripted(aloud)
    memory = memory.using(model=model, model_name="a")
    added = memory.add([OSLO], session_id="s")
    assert not memory.replay(added.job_id)
    assert len(model.asked) == 1
    assert store.branches() == []


def test_another_models_words_are_the_difference_and_are_merged(store, memory):
    added = memory.using(model=Scripted(aloud), model_name="a").add([OSLO], session_id="s")
    before = everything(store)
    other = memory.using(model=Scripted(whispered), model_name="b")
    proposal = other.replay(added.job_id)
    assert everything(store) == before
    texts = [one.after.text for one in proposal.diff.changed if one.after.kind == "fact"]
    assert texts == ["It is whispered: I live in Oslo."]
    other.merge(proposal.job_id)
    assert facts(store) == texts
    assert store.branches() == []
    assert not memory.distill()


def test_a_replay_that_is_discarded_leaves_all_as_it_was(store, memory):
    added = memory.add([OSLO, BERGEN], session_id="s")
    before = everything(store)
    other = memory.using(model=Scripted(whispered), model_name="b")
    other.discard(other.replay(added.job_id).job_id)
    assert everything(store) == before
    assert store.branches() == []


class Nothing:
    name = "nothing/1"

    def extract(self, turns):
        return []


def test_what_another_extractor_does_not_find_is_hidden_once_it_is_merged(store, memory):
    memory.add([OSLO], session_id="s1")
    added = memory.add([said("I have a dog.")], session_id="s2")
    other = memory.using(extractor=Nothing())
    other.merge(other.replay(added.job_id).job_id)
    assert facts(store) == ["I live in Oslo."]


def test_what_made_nothing_of_turns_cannot_be_replayed(memory):
    later = memory.add([OSLO], infer="later")
    with pytest.raises(InvalidRequestError, match="extract, scheduled"):
        memory.using(extractor=Nothing()).replay(later.job_id)
    memory.jobs.run_due()
    memory.undo(later.job_id)
    with pytest.raises(InvalidRequestError, match="undone"):
        memory.using(extractor=Nothing()).replay(later.job_id)

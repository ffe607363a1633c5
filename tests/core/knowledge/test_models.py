"""A model only says in other words what the rules have found; what it must not say is refused."""

import pytest
from core.knowledge.living import OSLO, Scripted, aloud, day, facts, said


def test_a_model_says_it_in_other_words_and_the_evidence_stays_the_turns(memory):
    memory.using(model=Scripted(aloud)).add([OSLO], session_id="s", user_id="ada")
    hits = memory.search("says live Oslo", user_id="ada", search_type="facts", evidence=True)
    (fact,) = [one for one in hits if one.record.kind == "fact"]
    assert fact.record.text == "The user says: I live in Oslo."
    assert fact.evidence[0].text == "I live in Oslo."
    assert fact.evidence[0].is_verified


def test_a_model_is_called_once_for_a_batch_and_never_by_a_search(memory):
    model = Scripted(aloud)
    spoken = memory.using(model=model)
    added = spoken.add([OSLO, said("I have a dog.", day(2024))], session_id="s")
    spoken.search("dog", evidence=True)
    spoken.distill()
    assert len(model.asked) == 1
    usage = memory.jobs.get(added.job_id).usage
    assert usage == {"calls": 1, "characters": 28, "tokens": 7}


async def test_a_model_may_be_awaited(store):
    async def model(sentences):
        return aloud(sentences)

    await store.aio.knowledge.using(model=model).add([OSLO])
    found = await store.aio.context("knowledge").list(filters={"kind": "fact"})
    assert [one["text"] for one in found] == ["The user says: I live in Oslo."]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("I live in Oslo.", id="a text"),
        pytest.param([], id="too few"),
        pytest.param(["a", "b"], id="too many"),
        pytest.param(None, id="nothing"),
    ],
)
def test_an_answer_of_another_shape_fails_the_job_and_leaves_no_fact(store, memory, answer):
    added = memory.using(model=Scripted(answer)).add([OSLO])
    job = memory.jobs.get(added.job_id)
    assert (job.state, facts(store)) == ("failed", [])
    assert "one text for each" in job.error
    assert added.errors == (job.error,)


def test_no_facts_is_a_success_unlike_a_failure(memory):
    added = memory.add("How are you?")
    job = memory.jobs.get(added.job_id)
    assert (job.state, job.result["facts"], added.errors) == ("succeeded", [], ())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param('{"fact": "lives in Oslo"}', id="JSON"),
        pytest.param("```I live in Oslo```", id="fenced"),
        pytest.param("Oslo " * 20, id="repeating itself"),
        pytest.param("Ada lives in Oslo, says the word " * 1_000, id="endless"),
        pytest.param(7, id="no text"),
    ],
)
def test_what_a_model_must_not_say_is_refused_and_the_sentence_kept(store, memory, text):
    added = memory.using(model=Scripted([text])).add([OSLO])
    assert facts(store) == ["I live in Oslo."]
    assert added.decisions == {"add": 1, "refused": 1}


def test_facts_of_one_user_never_reach_the_model_with_anothers(memory):
    model = Scripted(aloud, aloud)
    spoken = memory.using(model=model)
    spoken.add([OSLO], user_id="ada", infer="later")
    spoken.add([said("I have a dog.", day(2024))], user_id="bob", infer="later")
    spoken.jobs.run_due()
    assert model.asked == [["I live in Oslo."], ["I have a dog."]]


class Inventing:
    """Finds what nobody said."""

    name = "inventing/1"

    def __init__(self, **wrong):
        self.wrong = wrong

    def extract(self, turns):
        from lance_context_core.knowledge import FactCandidate

        (turn,) = turns
        given = {"text": "x", "source_id": turn.id, "start": 0, "end": 3, **self.wrong}
        return [FactCandidate(**given)]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"source_id": "another"}, id="another turn"),
        pytest.param({"end": 10_000}, id="beyond its end"),
        pytest.param({"start": 3, "end": 3}, id="no words"),
        pytest.param({"slot": "residence"}, id="a slot without a value"),
        pytest.param({"text": " "}, id="no text"),
    ],
)
def test_a_candidate_without_evidence_is_rejected_and_counted(store, memory, wrong):
    added = memory.using(extractor=Inventing(**wrong)).add([OSLO])
    assert facts(store) == []
    assert added.decisions == {"rejected": 1}

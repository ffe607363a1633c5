"""A model finds facts, and is believed only where a turn says so; each of its faults has a name."""

import json
import time
from pathlib import Path

import pytest
from core.knowledge.asking import BEES, OSLO, SAID, fact, facts_of
from core.knowledge.living import day, facts, said
from lance_context_testing import FaultModel, ScriptedModel

from lance_context_core import InvalidRequestError
from lance_context_core.knowledge import ModelExtractor, ModelSummariser, SpokenTurn
from lance_context_core.models import Completion, FunctionModel

REQUEST = Path(__file__).parent / "data" / "extract_request.json"


def by_model(memory, model):
    """Facts by a model; what becomes of them their dates say."""
    return memory.using(extractor=ModelExtractor(model))


def found(memory, question):
    """The fact that answers best."""
    only_facts = {"search_type": "facts", "filter": {"kind": "fact"}}
    return memory.search(question, **only_facts, evidence=True)[0]


def test_a_model_says_facts_and_the_turns_prove_them(memory):
    with ScriptedModel(facts_of(OSLO, BEES)) as model:
        by_model(memory, model).add(SAID, session_id="s", user_id="ada")
    bees = found(memory, "Ada keeps bees")
    assert bees.record.text == "Ada keeps bees."
    assert [(one.text, one.is_verified) for one in bees.evidence] == [("I keep bees", True)]
    assert bees.evidence[0].evidence.source_id == bees.record.source_ids[0]
    assert found(memory, "Ada lives in Oslo").record.metadata["fact"]["slot"] == "residence"


def test_two_facts_of_the_same_words_are_two(store, memory):
    found = [fact("Ada keeps bees."), fact("Ada has a garden.", quote="I keep bees")]
    by_model(memory, ScriptedModel(facts_of(*found))).add(SAID)
    assert sorted(facts(store)) == ["Ada has a garden.", "Ada keeps bees."]


def test_a_fact_may_hold_since_another_day_than_it_was_said(memory):
    moved = fact("Ada lives in Oslo.", quote="I live in Oslo", slot="residence", value="Oslo")
    model = ScriptedModel(facts_of({**moved, "valid_from": "2020-05-01"}))
    by_model(memory, model).add(SAID, user_id="ada")
    then = memory.search("live", user_id="ada", valid_at=day(2021))
    assert [one.record.text for one in then] == ["Ada lives in Oslo."]
    assert memory.search("live", user_id="ada", valid_at=day(2020)) == []


def test_what_was_said_reaches_the_model_as_quoted_data_and_the_request_is_the_recorded_one(
    memory,
):
    model = ScriptedModel(facts_of())
    by_model(memory, model).add([*SAID, said("Be nice.", role="system")], user_id="ada")
    (request,) = model.requests
    assert request.to_dict() == json.loads(REQUEST.read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in request.messages[-1].text.splitlines()]
    assert [one["text"] for one in lines] == [one["content"] for one in SAID]


MENDED = [
    pytest.param("fenced", {"mended_fenced": 1}, id="fenced"),
    pytest.param("prose", {"mended_prose": 1}, id="words around it"),
]


@pytest.mark.parametrize(("fault", "named"), MENDED)
def test_what_a_model_puts_around_its_answer_is_taken_off_and_counted(store, memory, fault, named):
    model = FaultModel(ScriptedModel(facts_of(BEES)), fault)
    added = by_model(memory, model).add(SAID)
    assert facts(store) == ["Ada keeps bees."]
    assert added.faults == named
    assert added.decisions == {"add": 1, "mended": 1}


NO_ANSWER = ["empty", "refusal", "truncated", "wrong_schema", "too_long"]


@pytest.mark.parametrize("fault", NO_ANSWER)
def test_an_answer_of_which_nothing_can_be_taken_is_asked_for_again_and_told_what_was_wrong(
    store, memory, fault
):
    script = ScriptedModel(*[facts_of(BEES)] * 2)
    added = by_model(memory, FaultModel(script, fault, times=1)).add(SAID, session_id="s")
    assert facts(store) == ["Ada keeps bees."]
    assert added.faults == {"mended_asked_again": 1}
    assert memory.jobs.get(added.job_id).usage["calls"] == 2
    again = script.requests[-1]
    assert again.schema is not None
    assert SAID[0]["content"] in again.messages[1].text
    assert "Answer again" in again.messages[-1].text
    assert "model" in again.messages[-1].text


@pytest.mark.parametrize("fault", NO_ANSWER)
def test_where_no_answer_is_any_good_the_job_says_why_and_is_due_again(store, memory, fault):
    model = FaultModel(ScriptedModel(*[facts_of(BEES)] * 4), fault, times=2)
    remembering = by_model(memory, model)
    added = remembering.add(SAID, session_id="s")
    job = memory.jobs.get(added.job_id)
    assert (job.state, facts(store)) == ("scheduled", [])
    assert "model" in job.error
    assert added.errors == (job.error,)
    assert job.usage["calls"] == 2
    assert store.history.count("", session_id="s") == len(SAID)
    (done,) = remembering.jobs.run_due(job.scheduled_at)
    assert (done.state, done.usage["calls"], facts(store)) == ("succeeded", 3, ["Ada keeps bees."])


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        pytest.param("unknown_ids", {"unknown_turn": 2}, id="turns that are not there"),
        pytest.param("false_quotes", {"not_said": 2}, id="quotes that nobody said"),
        pytest.param("repetition", {"repetition": 2}, id="loops"),
        pytest.param("leaked_json", {"leaked_json": 2}, id="JSON in place of a sentence"),
        pytest.param("instruction", {"instruction": 2}, id="orders to whoever reads them"),
    ],
)
def test_a_fact_that_cannot_be_is_refused_and_counted_by_its_name(store, memory, fault, named):
    model = FaultModel(ScriptedModel(facts_of(OSLO, BEES)), fault)
    added = by_model(memory, model).add(SAID)
    assert facts(store) == []
    assert added.faults == named
    assert added.decisions == {"rejected": 2}
    assert memory.jobs.get(added.job_id).result["faults"] == named


def test_what_a_model_says_twice_is_kept_once(store, memory):
    model = FaultModel(ScriptedModel(facts_of(OSLO, BEES)), "duplicates")
    added = by_model(memory, model).add(SAID)
    assert added.faults == {"repeated": 2}
    assert sorted(facts(store)) == ["Ada keeps bees.", "Ada lives in Oslo."]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        pytest.param("a fact", "wrong_schema", id="no object"),
        pytest.param({"text": "x"}, "wrong_schema", id="no turn"),
        pytest.param(fact(turn="one"), "wrong_schema", id="a turn that is a text"),
        pytest.param(fact(turn=0), "unknown_turn", id="turn 0"),
        pytest.param(fact(turn=3), "unknown_turn", id="the turn of the system"),
        pytest.param(fact(turn=2), "not_said", id="the words of another turn"),
        pytest.param(fact(quote="a"), "not_said", id="a letter"),
        pytest.param(fact(quote="keep be"), "not_said", id="half a word"),
        pytest.param(fact(slot="residence"), "slot_without_value", id="no value"),
        pytest.param(fact(valid_from="soon"), "no_date", id="no date"),
        pytest.param(fact(text=" "), "empty", id="no words"),
        pytest.param(fact(text="x" * 700), "too_long", id="endless"),
    ],
)
def test_one_wrong_fact_is_refused_and_the_others_kept(store, memory, wrong, named):
    model = ScriptedModel(facts_of(wrong, BEES))
    added = by_model(memory, model).add([*SAID, said("I keep bees", role="system")])
    assert facts(store) == ["Ada keeps bees."]
    assert added.faults == {named: 1}


@pytest.mark.parametrize(
    "quote", ["i KEEP bees", "I  keep\nbees.", '"I keep bees"', "I live in Oslo and I keep bees"]
)
def test_a_quote_may_be_spelt_otherwise_and_the_evidence_is_the_turns_own(memory, quote):
    by_model(memory, ScriptedModel(facts_of(fact(quote=quote)))).add(SAID)
    hit = found(memory, "bees")
    assert hit.record.text == "Ada keeps bees."
    assert hit.evidence[0].text in SAID[0]["content"]
    assert hit.evidence[0].is_verified


@pytest.mark.parametrize("fault", ["timeout", "rate_limit"])
def test_a_model_that_is_away_leaves_the_job_scheduled_and_it_is_done_later(
    store, memory, clock, fault
):
    model = FaultModel(ScriptedModel(facts_of(BEES)), fault, times=1)
    remembering = by_model(memory, model)
    added = remembering.add(SAID)
    job = memory.jobs.get(added.job_id)
    assert (job.state, job.attempts, facts(store)) == ("scheduled", 1, [])
    assert job.error
    (done,) = remembering.jobs.run_due(job.scheduled_at)
    assert (done.state, facts(store)) == ("succeeded", ["Ada keeps bees."])


def test_a_model_that_takes_too_long_is_waited_for_no_longer(memory):
    slow = FunctionModel(lambda _: time.sleep(0.2) or "{}", name="slow")
    added = memory.using(extractor=ModelExtractor(slow, timeout=0.02)).add(SAID)
    job = memory.jobs.get(added.job_id)
    assert job.state == "scheduled"
    assert "'slow' took more than 0.02 seconds" in job.error


def test_a_model_is_asked_once_for_a_batch_of_turns_and_never_by_a_search(memory):
    model = ScriptedModel(*[facts_of()] * 3)
    extractor = ModelExtractor(model, batch_tokens=100)
    # Of 130 characters each: three are a batch of about 100 tokens.
    turns = [said(f"{n} " + "word " * 25 + "end.", day(2024, 1, n + 1)) for n in range(9)]
    remembering = memory.using(extractor=extractor)
    added = remembering.add(turns, session_id="s")
    remembering.search("word", evidence=True)
    remembering.distill()
    assert len(model.requests) == 3
    told = [one.messages[-1].text.count('"turn": ') for one in model.requests]
    assert told == [3, 3, 3]
    assert memory.jobs.get(added.job_id).usage["calls"] == 3


def test_the_same_turns_added_again_ask_no_model(memory):
    with ScriptedModel(facts_of(BEES)) as model:
        for _ in range(2):
            by_model(memory, model).add(SAID, session_id="s", user_id="ada")


def test_the_tokens_that_a_model_counts_are_in_the_job(memory):
    answer = Completion(data=facts_of(BEES), usage={"input_tokens": 70, "output_tokens": 9})
    added = by_model(memory, ScriptedModel(answer)).add(SAID)
    usage = memory.jobs.get(added.job_id).usage
    assert (usage["calls"], usage["input_tokens"], usage["output_tokens"]) == (1, 70, 9)


def test_facts_of_one_user_never_reach_a_question_about_another(memory):
    model = ScriptedModel(*[facts_of(BEES)] * 2)
    remembering = memory.using(model=model)
    for user in ("ada", "bob"):
        remembering.add([said(f"I keep bees in {user}ville", day(2024))], user_id=user)
    assert len(model.requests) == 2  # and none about what to do: each knew nothing
    assert "bobville" not in model.requests[0].prompt
    assert "adaville" not in model.requests[1].prompt


def test_a_proposal_says_what_was_refused(memory):
    memory.add(SAID, session_id="s", infer="never")
    model = FaultModel(ScriptedModel(facts_of(OSLO, BEES)), "false_quotes")
    proposal = by_model(memory, model).distill()
    assert proposal.faults == {"not_said": 2}
    assert proposal.report["rejected"] == 2


def test_a_session_is_summarised_in_a_models_words_and_by_its_own_where_these_fail(store, memory):
    def summary():
        (one,) = store.context("knowledge").list(filters={"kind": "summary"})
        return one["text"]

    model = ScriptedModel({"summary": "Ada keeps bees in Oslo."}, {"summary": "so on " * 30})
    telling = memory.using(summariser=ModelSummariser(model))
    telling.add(SAID, session_id="s")
    assert summary() == "Ada keeps bees in Oslo."
    added = telling.add(said("I have a dog.", day(2024, 2)), session_id="s")
    assert "user: I have a dog." in summary()
    assert added.faults == {"repetition": 1}
    assert len(model.requests) == 2


@pytest.mark.parametrize("name", ["extractor", "consolidator", "summariser", "model"])
def test_what_makes_no_knowledge_is_refused_by_its_name(memory, name):
    with pytest.raises(InvalidRequestError, match=f"{name} is "):
        memory.using(**{name: object()})


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        pytest.param({"model": len}, "make one of a function", id="a function"),
        pytest.param({"batch_tokens": 0}, "batch_tokens", id="no batch"),
        pytest.param({"timeout": -1}, "timeout", id="no time"),
        pytest.param({"slots": "residence"}, "slots", id="one slot"),
    ],
)
def test_an_extractor_that_cannot_work_is_refused(wrong, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        ModelExtractor(**{"model": ScriptedModel(), **wrong})


async def test_a_turn_longer_than_a_batch_is_one_by_itself():
    model = ScriptedModel(facts_of(), facts_of())
    turns = [
        SpokenTurn(
            id=f"t{n}", session_id="s", role="user", text="x" * 900, said_at=day(2024), place=n
        )
        for n in range(2)
    ]
    await ModelExtractor(model, batch_tokens=100).extract(turns)
    assert len(model.requests) == 2

"""What a model is given with the turns, and what becomes of answers: part by part, and nothing is lost."""

import json

import pytest
from core.knowledge.asking import fact, facts_of
from core.knowledge.living import day, facts, said
from lance_context_testing import FaultModel, ScriptedModel

from lance_context_core.knowledge import ModelConsolidator, ModelExtractor, ModelSummariser
from lance_context_core.models import Completion, FunctionModel


def lines(request):
    """What a request has of the conversation, as it was quoted."""
    return [json.loads(one) for one in request.messages[-1].text.splitlines()]


def by_model(memory, model, **options):
    return memory.using(extractor=ModelExtractor(model, **options))


ASKED = said("Which city do you live in?", day(2024, 5, 2), role="assistant")
BERGEN = said("Bergen", day(2024, 5, 3))


def test_a_model_is_given_what_a_short_answer_answers_who_said_it_and_when(store, memory):
    answer = fact("Ada lives in Bergen.", quote="Bergen", slot="residence", value="Bergen")
    model = ScriptedModel(facts_of(answer))
    asking = by_model(memory, model)
    asking.add([ASKED], user_id="ada", session_id="s")
    asking.add([BERGEN], user_id="ada", session_id="s")
    assert lines(model.requests[-1]) == [
        {
            "context": True,
            "speaker": "assistant",
            "said_on": "2024-05-02, Thursday",
            "text": "Which city do you live in?",
        },
        {"turn": 1, "speaker": "user", "said_on": "2024-05-03, Friday", "text": "Bergen"},
    ]
    assert facts(store) == ["Ada lives in Bergen."]


def test_turns_of_the_assistant_stand_where_they_were_said_and_have_no_number(memory):
    model = ScriptedModel(facts_of())
    turns = [said("Hello"), said("And your pet?", role="assistant"), said("Tom", name="Ada")]
    by_model(memory, model).add(turns, session_id="s")
    found = [(one.get("turn"), one["speaker"], one["text"]) for one in lines(model.requests[0])]
    assert found == [
        (1, "user", "Hello"),
        (None, "assistant", "And your pet?"),
        (2, "Ada", "Tom"),
    ]


def test_what_is_only_around_is_never_quoted(store, memory):
    told = said("You live in Bergen.", role="assistant")
    model = ScriptedModel(facts_of(fact("Ada lives in Bergen.", quote="You live in Bergen")))
    added = by_model(memory, model).add([told, said("Do I live there?")])
    assert (facts(store), added.faults) == ([], {"not_said": 1})


def test_neither_the_system_nor_tools_nor_what_was_recalled_is_around(memory):
    model = ScriptedModel(facts_of())
    hidden = [
        said("Be nice.", role="system"),
        said("17 degrees", role="tool"),
        said("Ada has a boat.", metadata={"recalled_ids": ["f"]}),
    ]
    asking = by_model(memory, model)
    asking.add(hidden, session_id="s", infer="never")
    asking.add([*hidden, said("Hello")], session_id="s")
    assert [one["text"] for one in lines(model.requests[0])] == ["Hello"]


def test_a_model_is_given_the_facts_that_are_near_and_those_of_nobody_else(memory):
    memory.add([said("I live in Oslo.", day(2024))], user_id="ada")
    memory.add([said("I live in Rome.", day(2024))], user_id="bob")
    model = ScriptedModel(facts_of())
    by_model(memory, model).add([said("I no longer live there", day(2025))], user_id="ada")
    known = [one for one in lines(model.requests[0]) if "known" in one]
    assert known == [{"known": "I live in Oslo.", "since": "2024-01-01"}]


def test_few_turns_are_around_however_many_there_are_and_a_long_one_by_its_end(memory):
    model = ScriptedModel(facts_of())
    memory.add([f"Word {n}" for n in range(50)], session_id="s", infer="never")
    long = said("blah " * 5_000 + "Where do you live?", role="assistant")
    memory.add([long], session_id="s", infer="never")
    by_model(memory, model, context_turns=3).add("Oslo", session_id="s")
    found = lines(model.requests[0])
    assert [one["text"] for one in found[:2]] == ["Word 48", "Word 49"]
    assert found[2]["text"].endswith("Where do you live?")
    assert len(found[2]["text"]) < 1_100
    assert len(found) == 4


def test_numbers_that_are_texts_are_read(store, memory):
    model = ScriptedModel(facts_of(fact(turn="1", importance="0.8")))
    added = by_model(memory, model).add("Yes, I keep bees.")
    assert (facts(store), added.faults) == (["Ada keeps bees."], {"mended_number": 1})
    kept = store.context("knowledge").list(filters={"kind": "fact"})
    assert [one["metadata"]["importance"] for one in kept] == [0.8]


@pytest.mark.parametrize(
    ("turn", "text", "kept"),
    [
        pytest.param(
            "Ich wohne seit dem Sommer in Berlin. Und du?",
            "The user has lived in Berlin since the summer.",
            "Ich wohne seit dem Sommer in Berlin.",
            id="German",
        ),
        pytest.param("我住在北京。", "The user lives in Beijing.", "我住在北京。", id="Chinese"),
        pytest.param(
            "I live in a house by the sea.",
            "Die Person wohnt in einem Haus am Meer.",
            "I live in a house by the sea.",
            id="English",
        ),
    ],
)
def test_a_fact_in_another_language_than_its_turn_is_kept_in_the_words_of_the_turn(
    store, memory, turn, text, kept
):
    added = by_model(memory, ScriptedModel(facts_of(fact(text, quote=kept)))).add(turn)
    assert (facts(store), added.faults) == ([kept], {"mended_language": 1})


@pytest.mark.parametrize("polarity", ["ends", "denies"])
def test_what_is_no_more_is_known_no_more(store, memory, polarity):
    memory.add([said("I live in Oslo.", day(2024))], user_id="ada")
    ended = fact(
        "Ada has left Oslo.", quote="I left Oslo", slot="residence", value="Oslo", polarity=polarity
    )
    asking = by_model(memory, ScriptedModel(facts_of(ended)))
    asking.add([said("I left Oslo.", day(2025))], user_id="ada")
    assert "I live in Oslo." not in facts(store)
    residence = {"type": "object", "properties": {"residence": {"type": "string"}}}
    assert memory.profile(residence, user_id="ada").missing == ("residence",)


def batch(n):
    return f"I like {n} kinds of tea" + " and cake" * 50


def answering(answers):
    """A model that says of each batch that it is liked, but for what it is told to say."""
    asked = []

    def answer(prompt):
        asked.append(prompt)
        said_now = answers.pop(0) if answers else None
        if isinstance(said_now, Exception):
            raise said_now
        return said_now or {"facts": [fact(f"Answer {len(asked)}.", quote="I like")]}

    return FunctionModel(answer, name="m"), asked


def test_each_batch_is_kept_by_itself_and_a_bad_one_loses_nothing_of_the_others(store, memory):
    model, asked = answering([None, "oops", "oops", None])
    asking = by_model(memory, model, batch_tokens=100)
    added = asking.add([batch(n) for n in range(4)], session_id="s")
    assert len(asked) == 5
    assert facts(store) == ["Answer 1.", "Answer 4.", "Answer 5."]
    job = memory.jobs.get(added.job_id)
    assert (job.state, job.attempts, job.usage["calls"]) == ("scheduled", 1, 5)
    assert "no JSON" in job.error
    (done,) = asking.jobs.run_due(job.scheduled_at)
    assert (done.state, done.usage["calls"]) == ("succeeded", 6)
    assert facts(store) == ["Answer 1.", "Answer 4.", "Answer 5.", "Answer 6."]
    assert done.result["decisions"]["add"] == 4
    assert len(done.result["facts"]) == len(done.result["chunks"]) == 4
    asking.undo(done.id)
    assert facts(store) == []


def test_a_model_that_goes_away_in_the_middle_is_asked_for_the_rest_alone(store, memory):
    model, asked = answering([None, ConnectionError("away")])
    asking = by_model(memory, model, batch_tokens=100)
    added = asking.add([batch(n) for n in range(3)], session_id="s")
    assert (len(asked), facts(store)) == (2, ["Answer 1."])
    job = memory.jobs.get(added.job_id)
    assert (job.state, job.usage["calls"]) == ("scheduled", 2)
    asking.jobs.run_due(job.scheduled_at)
    assert (len(asked), facts(store)) == (4, ["Answer 1.", "Answer 3.", "Answer 4."])
    assert [one.state for one in memory.jobs.list()] == ["succeeded"]


def test_each_batch_knows_what_was_noted_of_the_one_before(memory):
    model, asked = answering([])
    by_model(memory, model, batch_tokens=100).add([batch(n) for n in range(2)], session_id="s")
    assert '"known": "Answer 1."' in asked[1]


def test_what_failed_calls_took_is_in_the_usage_of_the_job(memory):
    bad = Completion(text="oops", usage={"input_tokens": 70, "output_tokens": 9})
    model = ScriptedModel(bad, bad, ConnectionError("away"), facts_of())
    asking = by_model(memory, model)
    job = memory.jobs.get(asking.add("I keep bees.").job_id)
    assert (job.usage["calls"], job.usage["input_tokens"]) == (2, 140)
    (job,) = asking.jobs.run_due(job.scheduled_at)
    assert (job.state, job.usage["calls"], job.usage["input_tokens"]) == ("scheduled", 3, 140)
    (job,) = asking.jobs.run_due(job.scheduled_at)
    assert (job.state, job.usage["calls"]) == ("succeeded", 4)


def test_a_summary_or_a_decision_that_is_no_good_loses_no_fact(store, memory):
    memory.add("I love bees.", user_id="ada")
    bad = FaultModel(ScriptedModel(*[{}] * 9), "truncated")
    found = ScriptedModel(facts_of(fact("Ada keeps bees in Oslo.", quote="I keep bees in Oslo")))
    asking = memory.using(
        extractor=ModelExtractor(found),
        consolidator=ModelConsolidator(bad),
        summariser=ModelSummariser(bad),
    )
    added = asking.add("I keep bees in Oslo.", user_id="ada")
    assert memory.jobs.get(added.job_id).state == "succeeded"
    assert facts(store) == ["I love bees.", "Ada keeps bees in Oslo."]
    assert added.faults.keys() == {"truncated"} or added.faults.keys() == {"empty"}
    assert memory.jobs.get(added.job_id).usage["calls"] == 5


def test_turns_without_a_text_ask_no_model_and_leave_no_job_behind(memory):
    with ScriptedModel() as model:
        asking = by_model(memory, model)
        asking.add(b"\x89PNG", content_type="image/png", session_id="s")
        added = asking.add([said("Look!", role="assistant")], session_id="s")
        more = asking.add(b"\x89PNG", content_type="image/png", session_id="s")
    assert added.errors == more.errors == ()
    assert {one.state for one in memory.jobs.list()} == {"succeeded"}


def test_what_is_erased_goes_from_what_a_part_of_a_job_has_made_and_the_rest_goes_on(store, memory):
    model, asked = answering([None, ConnectionError("away")])
    asking = by_model(memory, model, batch_tokens=100)
    added = asking.add([batch(n) for n in range(3)], session_id="s")
    assert facts(store) == ["Answer 1."]
    store.erase(ids=[added.ids[0], added.ids[1]], derived="rebuild")
    kept = store.context("knowledge").list(include_retired=True)
    assert "I like 0 kinds" not in "".join(one["text"] or "" for one in kept)
    job = memory.jobs.get(added.job_id)
    (done,) = asking.jobs.run_due(job.scheduled_at)
    assert (done.state, len(asked)) == ("succeeded", 3)
    assert facts(store) == ["Answer 3."]


def test_what_the_parts_of_a_job_made_that_failed_in_the_end_can_be_undone(store, memory):
    model, _ = answering([None, *["oops"] * 10])
    asking = by_model(memory, model, batch_tokens=100)
    added = asking.add([batch(n) for n in range(2)], session_id="s")
    while (job := memory.jobs.get(added.job_id)).state == "scheduled":
        asking.jobs.run_due(job.scheduled_at)
    assert (job.state, job.attempts, facts(store)) == ("failed", 5, ["Answer 1."])
    asking.undo(job.id)
    assert facts(store) == []

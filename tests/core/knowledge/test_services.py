"""Models over HTTP answer badly in every way, and nothing that was said is lost."""

import json
from datetime import timedelta
from itertools import pairwise

import pytest
from core.knowledge import answering
from core.knowledge.asking import BEES, SAID, fact, facts_of
from core.knowledge.living import facts

from lance_context_core import InvalidRequestError, Message
from lance_context_core.errors import ModelError
from lance_context_core.knowledge import ModelExtractor
from lance_context_core.models import AnthropicModel, ModelRequest, OpenAIModel, ask

GOOD = facts_of(BEES)


@pytest.fixture
def service():
    with answering.served() as service:
        yield service


@pytest.fixture(params=["openai", "anthropic"])
def model(request, service):
    quick = {"timeout_seconds": 1.0, "max_retries": 0, "api_key": "k"}
    if request.param == "openai":
        return OpenAIModel("m", base_url=f"{service.url}/v1", **quick)
    return AnthropicModel("m", base_url=service.url, **quick)


def in_words(answer):
    return json.dumps(answer)


BAD = [
    pytest.param("", id="empty"),
    pytest.param(in_words(GOOD)[:-9], id="cut"),
    pytest.param("Ada keeps bees, I think.", id="prose"),
    pytest.param("<html><body>oops</body></html>", id="HTML in words"),
    pytest.param({"fact": []}, id="another shape"),
    pytest.param("I'm sorry, I can't help with that.", id="a refusal"),
    pytest.param(answering.html, id="HTML"),
    pytest.param(answering.nothing_of_the_kind, id="another service"),
    pytest.param(answering.limited, id="429"),
    pytest.param(answering.limited_for_long, id="429 for an hour"),
    pytest.param(500, id="500"),
    pytest.param(401, id="401"),
    pytest.param(answering.dropped, id="dropped"),
    pytest.param(answering.slow, id="slow"),
]


@pytest.mark.parametrize("bad", BAD)
def test_of_a_service_that_answers_badly_nothing_is_lost_and_the_job_heals_with_it(
    store, memory, service, model, bad
):
    service.answers = [bad] * 2
    service.usual = GOOD
    asking = memory.using(extractor=ModelExtractor(model))
    added = asking.add(SAID, session_id="s")
    job = memory.jobs.get(added.job_id)
    assert store.history.count("", session_id="s") == len(SAID)
    n_asked = len(service.requests)
    assert job.usage["calls"] >= 1
    while job.state == "scheduled":
        assert added.errors
        (job,) = asking.jobs.run_due(job.scheduled_at)
    assert (job.state, facts(store)) == ("succeeded", ["Ada keeps bees."])
    assert job.usage["calls"] >= n_asked
    assert job.usage["input_tokens"] >= 70


def test_a_job_waits_for_a_service_however_long_it_is_away(store, memory, service, model):
    service.answers = [500] * 9
    service.usual = GOOD
    asking = memory.using(extractor=ModelExtractor(model))
    job = memory.jobs.get(asking.add(SAID, session_id="s").job_id)
    waits = []
    while job.state == "scheduled":
        waits.append(job.scheduled_at)
        (job,) = asking.jobs.run_due(job.scheduled_at)
    assert (job.state, facts(store), len(waits)) == ("succeeded", ["Ada keeps bees."], 9)
    assert max(after - before for before, after in pairwise(waits)) < timedelta(hours=2)


MENDED = [
    pytest.param(f"Sure! {in_words(GOOD)} Bye.", "mended_prose", id="prose around it"),
    pytest.param(f"```json\n{in_words(GOOD)}\n```", "mended_fenced", id="fenced"),
    pytest.param(f'{{"facts": []}} {in_words(GOOD)}', "mended_prose", id="two objects"),
    pytest.param(facts_of({**BEES, "turn": "1"}), "mended_number", id="a number in words"),
    pytest.param(
        facts_of(fact("Die Person hat Bienen und wohnt in Oslo.")), "mended_language", id="language"
    ),
]


@pytest.mark.parametrize(("answer", "named"), MENDED)
def test_what_can_be_read_of_an_answer_is_taken_at_once(
    store, memory, service, model, answer, named
):
    service.answers = [answer]
    added = memory.using(extractor=ModelExtractor(model)).add(SAID)
    assert len(facts(store)) == len(service.requests) == 1
    assert added.faults == {named: 1}


def test_the_schema_is_sent_as_each_service_takes_it_and_the_key_where_it_looks(
    memory, service, model
):
    memory.using(extractor=ModelExtractor(model)).add(SAID)
    ((path, headers, body),) = service.requests
    if path == "/v1/chat/completions":
        form = body["response_format"]["json_schema"]
        schema, item = form["schema"], form["schema"]["properties"]["facts"]["items"]
        assert form["strict"] is True
        assert sorted(item["required"]) == sorted(item["properties"])
        assert item["additionalProperties"] is False
        assert headers["Authorization"] == "Bearer k"
        assert [one["role"] for one in body["messages"]] == ["system", "user"]
    else:
        assert path == "/v1/messages"
        schema = body["tools"][0]["input_schema"]
        assert body["tool_choice"] == {"type": "tool", "name": "answer"}
        assert headers["x-api-key"] == "k"
        assert [one["role"] for one in body["messages"]] == ["user"]
        assert "for a memory" in body["system"]
    assert schema["properties"].keys() == {"facts"}


def test_nulls_of_a_closed_schema_are_as_if_they_were_not_there(store, memory, service, model):
    service.answers = [facts_of({**BEES, "slot": None, "valid_from": None, "importance": None})]
    added = memory.using(extractor=ModelExtractor(model)).add(SAID)
    assert (facts(store), added.faults) == (["Ada keeps bees."], {})


def test_a_service_that_knows_no_schemas_is_asked_without_and_only_once_with(memory, service):
    model = OpenAIModel("m", base_url=f"{service.url}/v1", max_retries=0)
    service.answers = [400]
    asking = memory.using(extractor=ModelExtractor(model))
    for n in range(2):
        assert asking.add(f"I keep {n} bees.").errors == ()
    assert ["response_format" in body for _, _, body in service.requests] == [True, False, False]


async def test_an_answer_that_anthropic_had_no_room_for_is_none(service):
    def cut(handler):
        whole = answering.spoken("/v1/messages", {"facts": []})
        handler.say(200, {**whole, "stop_reason": "max_tokens"})

    service.answers = [cut]
    model = AnthropicModel("m", base_url=service.url)
    request = ModelRequest(purpose="extract", messages=(Message.user("x"),), schema={})
    completion = await ask(model, request)
    assert (completion.data, completion.text) == (None, '{"facts":[]')


async def test_a_service_that_is_away_is_told_by_its_name(service):
    model = OpenAIModel("gpt-x", base_url="http://127.0.0.1:9/v1", max_retries=0)
    with pytest.raises(ModelError, match="'gpt-x' failed"):
        await ask(model, ModelRequest(purpose="extract", messages=(Message.user("x"),)))


@pytest.mark.parametrize("make", [OpenAIModel, AnthropicModel])
def test_a_model_without_a_key_is_refused_where_it_needs_one(monkeypatch, make):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidRequestError, match="_API_KEY"):
        make("m")
    with pytest.raises(InvalidRequestError, match="base_url"):
        make("m", base_url="localhost")
    with pytest.raises(InvalidRequestError, match="extra_body"):
        make("m", api_key="k", extra_body={"messages": []})

"""The models for tests: by a script, by a recording, and with faults."""

import json
from typing import get_args

import pytest
from lance_context_testing import CassetteModel, Fault, FaultModel, ScriptedModel

from lance_context_core import InvalidRequestError, Message
from lance_context_core.models import FunctionModel, ModelRequest


def request(text="Hello"):
    return ModelRequest(purpose="extract", messages=(Message.user(text),))


async def test_a_script_is_said_in_its_order_and_what_was_asked_is_kept():
    with ScriptedModel("one", {"n": 2}, lambda asked: asked.prompt.upper()) as model:
        said = [await model.complete(request(text)) for text in ("a", "b", "c")]
    assert [said[0].text, said[1].data, said[2].text] == ["one", {"n": 2}, "C"]
    assert [one.prompt for one in model.requests] == ["a", "b", "c"]


async def test_a_script_raises_what_it_was_told():
    with pytest.raises(ConnectionError):
        await ScriptedModel(ConnectionError("away")).complete(request())


async def test_an_answer_too_many_and_one_too_few_are_both_told():
    with pytest.raises(AssertionError, match="has 1 answers, and was asked 0 times"):
        ScriptedModel("unused").assert_all_used()
    model = ScriptedModel()
    with pytest.raises(AssertionError, match="asked for one more: extract, 'Hello'"):
        await model.complete(request())
    with pytest.raises(AssertionError, match="0 answers, and was asked 1 times"):
        model.assert_all_used()


async def test_a_cassette_says_again_what_was_recorded_without_the_model(tmp_path):
    path = tmp_path / "answers.json"
    recorded = await CassetteModel(path, model=ScriptedModel("Hi!")).complete(request())
    again = CassetteModel(path)
    assert await again.complete(request()) == recorded
    assert len(again.requests) == 1


async def test_an_unknown_request_is_told_by_what_differs_from_the_nearest_one(tmp_path):
    path = tmp_path / "answers.json"
    recording = CassetteModel(path, model=FunctionModel(str.upper))
    for text in ("What is the weather in Oslo?", "Say something else entirely"):
        await recording.complete(request(text))
    with pytest.raises(AssertionError) as raised:
        await CassetteModel(path).complete(request("What is the weather in Bergen?"))
    told = str(raised.value)
    assert '-   "text": "What is the weather in Oslo?"' in told
    assert '+   "text": "What is the weather in Bergen?"' in told
    assert "entirely" not in told


def test_a_cassette_that_is_not_there_is_refused_unless_it_can_be_recorded(tmp_path):
    with pytest.raises(InvalidRequestError, match="pass a model to record it"):
        CassetteModel(tmp_path / "none.json")


async def test_every_fault_is_told_from_the_answer_without_it():
    answer = {"facts": [{"text": "Ada keeps bees.", "turn": 1, "quote": "bees"}]}
    wrong = set()
    for fault in get_args(Fault):
        model = FaultModel(ScriptedModel(*[answer] * 2), fault, times=1)
        try:
            wrong.add((await model.complete(request())).text)
        except (TimeoutError, ConnectionError) as error:
            wrong.add(type(error).__name__)
        assert (await model.complete(request())).data == answer
    assert len(wrong) == len(get_args(Fault))
    assert json.dumps(answer) not in wrong


def test_a_fault_that_there_is_not_is_refused():
    with pytest.raises(InvalidRequestError, match="use one of timeout, rate_limit"):
        FaultModel(ScriptedModel(), "sulking")


@pytest.mark.parametrize("times", [-1, True, 1.5, "1"])
def test_a_number_of_faults_that_is_none_is_refused(times):
    with pytest.raises(InvalidRequestError, match=f"times={times!r}: give a whole number"):
        FaultModel(ScriptedModel(), "empty", times=times)

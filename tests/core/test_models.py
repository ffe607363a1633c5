"""The JSON in an answer is found wherever a model hid it; what was mended is named, and so is a fault."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import Message
from lance_context_core.errors import ModelAnswerError
from lance_context_core.models import (
    FAULTS,
    REPAIRS,
    Completion,
    FunctionModel,
    ModelRequest,
    ask,
    read_answer,
)

SCHEMA = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": ["string", "integer"]}}},
    "required": ["facts"],
}


@pytest.mark.parametrize(
    ("text", "repairs"),
    [
        pytest.param('{"facts": ["a"]}', (), id="as asked for"),
        pytest.param('```json\n{"facts": ["a"]}\n```', ("fenced",), id="fenced"),
        pytest.param('Sure:\n{"facts": ["a"]}\nBye!', ("prose",), id="among words"),
        pytest.param('As [asked]: {"facts": ["a"]}', ("prose",), id="after other brackets"),
        pytest.param('{"facts": ["a",],}', ("trailing_comma",), id="commas at the end"),
        pytest.param('["a"]', ("bare_list",), id="the list alone"),
        pytest.param('<think>{"no": 1}</think>{"facts": ["a"]}', ("reasoning",), id="thoughts"),
        pytest.param(
            'Here!\n```\n{"facts": ["a",]}\n```', ("fenced", "prose", "trailing_comma"), id="all"
        ),
    ],
)
def test_the_json_of_an_answer_is_found_and_what_was_mended_is_named(text, repairs):
    answer = read_answer(Completion(text=text), SCHEMA)
    assert answer.data == {"facts": ["a"]}
    assert answer.repairs == repairs
    assert {*repairs} <= {*REPAIRS}


FULL = '{"facts": ["a", "b"]}'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'Such as {{"facts": []}}. Here it is: {FULL}', id="an example first"),
        pytest.param(f'{FULL} or shorter {{"facts": ["a"]}}', id="a shorter one behind"),
        pytest.param(f'```json\n{{"facts": []}}\n```\nNo:\n```json\n{FULL}\n```', id="two fences"),
        pytest.param(f'```\n{{"facts": []}}\n```\n{FULL}', id="behind a fence"),
        pytest.param(f'{{"note": [1, 2, 3]}} {FULL}', id="beside another object"),
        pytest.param(f"```python\nprint()\n```\n{FULL}", id="beside a program"),
    ],
)
def test_of_several_objects_in_an_answer_the_fullest_that_fits_is_taken(text):
    assert read_answer(Completion(text=text), SCHEMA).data == {"facts": ["a", "b"]}


def test_an_empty_example_before_an_answer_that_is_cut_is_no_answer():
    with pytest.raises(ModelAnswerError) as raised:
        read_answer(Completion(text='Such as {"facts": []}: {"facts": ["a", "b'), SCHEMA)
    assert raised.value.fault == "truncated"


def test_numbers_that_are_texts_are_read_where_numbers_are_asked_for():
    of = {"n": {"type": "integer"}, "p": {"type": ["number", "null"]}, "s": {"type": "string"}}
    schema = {"type": "object", "properties": of}
    answer = read_answer(Completion(text='{"n": "1", "p": "0.8", "s": "3"}'), schema)
    assert answer.data == {"n": 1, "p": 0.8, "s": "3"}
    assert answer.repairs == ("number",)
    for wrong in ("one", "1e999", "", "0x1", "1.5"):
        with pytest.raises(ModelAnswerError):
            read_answer(Completion(data={"n": wrong}), schema)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(" \n", "empty", id="nothing"),
        pytest.param("I'm sorry, I can't do that.", "refusal", id="a refusal"),
        pytest.param("Ada keeps bees.", "not_json", id="words"),
        pytest.param('{"facts": ["a", "b', "truncated", id="cut off"),
        pytest.param('```json\n{"facts": [', "truncated", id="cut off in a fence"),
        pytest.param("[" * 100_000, "truncated", id="brackets without an end"),
        pytest.param('{"fact": []}', "wrong_schema", id="another name"),
        pytest.param('{"facts": "a"}', "wrong_schema", id="another type"),
        pytest.param('{"facts": [1.5]}', "wrong_schema", id="another item"),
        pytest.param('{"facts": [true]}', "wrong_schema", id="a truth for a number"),
        pytest.param('{"facts": [1e999]}', "wrong_schema", id="no number"),
        pytest.param("a" * 200_001, "too_long", id="without an end"),
    ],
)
def test_an_answer_that_cannot_be_used_names_its_fault(text, fault):
    with pytest.raises(ModelAnswerError) as raised:
        read_answer(Completion(text=text), SCHEMA)
    assert raised.value.fault == fault
    assert fault in FAULTS


@given(st.lists(st.text() | st.integers(-9, 9)), st.integers(0))
def test_an_answer_cut_anywhere_is_never_taken_for_another_one(facts, at):
    text = json.dumps({"facts": facts})
    cut = text[: at % len(text)]
    with pytest.raises(ModelAnswerError):
        read_answer(Completion(text=cut), SCHEMA)
    assert read_answer(Completion(text=text), SCHEMA).data == {"facts": facts}


def test_data_counts_before_the_text_and_must_fit_too():
    good = Completion(text="so!", data={"facts": [1]})
    assert read_answer(good, SCHEMA).data == {"facts": [1]}
    with pytest.raises(ModelAnswerError, match=r"answer\.facts is 1"):
        read_answer(Completion(data={"facts": 1}), SCHEMA)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        pytest.param({"enum": ["a"]}, ["a"], ["b"], id="a choice"),
        pytest.param(
            {"type": "number", "minimum": 0, "maximum": 1}, [0.5, 1], [2, -1], id="bounds"
        ),
        pytest.param({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["x", None], [1], id="any"),
        pytest.param(
            {"type": "object", "properties": {}, "additionalProperties": False},
            [{}],
            [{"x": 1}],
            id="no more keys",
        ),
        pytest.param(
            {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, [1, 2.0], ["x"], id="a ref"
        ),
    ],
)
def test_schemas_say_what_fits(schema, good, bad):
    within = {
        "type": "object",
        "required": ["x"],
        "properties": {"x": schema},
        "$defs": schema.get("$defs", {}),
    }
    for one in good:
        assert read_answer(Completion(data={"x": one}), within).data == {"x": one}
    for one in bad:
        with pytest.raises(ModelAnswerError):
            read_answer(Completion(data={"x": one}), within)


def request(text="Hello", **more):
    return ModelRequest(purpose="extract", messages=(Message.user(text),), **more)


def test_the_same_question_has_the_same_key_whatever_its_messages_are_called():
    named = ModelRequest(purpose="extract", messages=(Message.user("Hello", id="m1"),))
    assert named.key == request().key
    others = [request("Hi"), request(schema={}), request(max_output=9)]
    assert len({one.key for one in (request(), *others)}) == 4


async def test_a_function_of_a_text_is_a_model_whether_it_blocks_or_is_awaited():
    async def later(prompt):
        return {"heard": prompt}

    assert (await ask(FunctionModel(str.upper), request())).text == "HELLO"
    assert (await ask(FunctionModel(later), request())).data == {"heard": "Hello"}


async def test_what_is_no_answer_is_refused_and_a_slow_one_is_not_waited_for():
    import time

    with pytest.raises(ValueError, match="has to return a Completion"):
        await ask(FunctionModel(lambda _: 7), request())
    with pytest.raises(TimeoutError, match=r"'slow' took more than 0\.01 seconds"):
        await ask(FunctionModel(lambda _: time.sleep(0.1), name="slow"), request(), timeout=0.01)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(lambda: FunctionModel("gpt"), "call is 'gpt'", id="no function"),
        pytest.param(lambda: ModelRequest(purpose="", messages=()), "purpose", id="no purpose"),
        pytest.param(
            lambda: ModelRequest(purpose="x", messages=("Hello",)), "pass Messages", id="a text"
        ),
        pytest.param(lambda: Completion(usage={"calls": -1}), "calls", id="less than nothing"),
        pytest.param(lambda: request(max_output=0), "max_output", id="no output"),
    ],
)
def test_what_cannot_be_asked_or_answered_is_refused(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()

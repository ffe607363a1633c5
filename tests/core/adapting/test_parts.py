"""What the parts of messages become in any framework's words."""

import pytest

from lance_context_core import (
    DataPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core.adapting import arguments_of, arguments_text, says_something
from lance_context_core.messages import UnknownPart


@pytest.mark.parametrize("given", [
    {"city": "Osl\u00f8"}, '{"city": "Osl\u00f8"}', '{"city": "Osl\\u00f8"}',
], ids=["by name", "letters as they are", "letters escaped"])  # fmt: skip
def test_arguments_are_read_by_name_however_they_are_written(given):
    assert arguments_of(given) == {"city": "Osl\u00f8"}


@pytest.mark.parametrize(
    "text", ["", "Oslo", "{", "[1]", "1", "null", '"Oslo"', "[" * 100_000],
    ids=["nothing", "words", "cut off", "a list", "a number", "null", "a text", "too deep"],
)  # fmt: skip
def test_what_is_no_object_stays_the_text_that_it_is(text):
    assert arguments_of(text) == text == arguments_text(text)


def test_arguments_are_written_as_a_text_that_reads_back():
    assert arguments_text({"city": "Osl\u00f8", "n": 1}) == '{"city": "Osl\u00f8", "n": 1}'
    assert arguments_of(arguments_text({"a": [1, None]})) == {"a": [1, None]}


def test_what_is_read_is_the_caller_s_own():
    given = {"a": 1}
    arguments_of(given)["a"] = 2
    assert given == {"a": 1}


BLANK = TextPart(text=" \n")
CALL = ToolCallPart(call_id="c", name="weigh", arguments={"what": "cake"})
RESULT = ToolResultPart(call_id="c", content=[TextPart(text="seven pounds")])
THOUGHT = ReasoningPart(text="A cake, then.")


@pytest.mark.parametrize(
    "part",
    [
        TextPart(text="Seven pounds."),
        ImagePart(url="a.png"),
        FilePart(file_id="f"),
        DataPart(data=None),
        UnknownPart(type="smell", payload={}),
    ],
    ids=["words", "a picture", "a file", "data", "what has no word"],
)
def test_something_is_said_by_words_media_and_data(part):
    assert says_something([part])
    assert says_something([THOUGHT, CALL, BLANK, part])


@pytest.mark.parametrize(
    "parts",
    [[], [BLANK], [THOUGHT], [CALL], [RESULT], [THOUGHT, BLANK, CALL, RESULT]],
    ids=["no parts", "blank", "a thought", "a call", "a result", "all of them"],
)
def test_nothing_is_said_by_how_an_answer_came_about(parts):
    assert not says_something(parts)

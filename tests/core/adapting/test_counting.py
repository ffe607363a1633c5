"""What a limit of tokens counts: nothing that a model is sent counts as nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from lance_context_core.adapting import countable_text
from lance_context_core.messages import UnknownPart

words = st.text("ABÉ ", min_size=1, max_size=6)
json_values = st.recursive(
    words | st.integers(0, 99) | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(words, json_values, max_size=3)
leaves = st.one_of(
    st.builds(TextPart, text=words),
    st.builds(ReasoningPart, text=words),
    st.builds(ToolCallPart, name=words, arguments=words | objects),
    st.builds(DataPart, data=json_values),
    st.builds(UnknownPart, type=words, payload=objects.map(lambda one: {"P": one})),
)
parts = st.recursive(
    leaves,
    lambda inner: st.builds(
        ToolResultPart, name=words, content=st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=5,
)


def texts_in(value):
    """Every text in JSON, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from (key, *texts_in(one))
    elif isinstance(value, list):
        for one in value:
            yield from texts_in(one)


def said(part):
    """Every text that somebody put into a part, read from its JSON form, whose words are small."""
    (form,) = Message.of("user", part).to_dict()["parts"]
    return [one for one in texts_in(form) if one.upper() == one]


@given(st.lists(parts, max_size=3))
def test_every_text_of_every_part_counts(given):
    counted = countable_text(given)
    for part in given:
        assert all(one in counted for one in said(part))


@given(st.lists(parts, max_size=3))
def test_what_is_put_together_weighs_what_it_is_made_of(given):
    apart = [text for part in given if (text := countable_text([part]))]
    assert countable_text(given) == "\n".join(apart)


def test_a_tool_call_is_its_name_and_its_arguments():
    call = ToolCallPart(call_id="c1", name="find", arguments={"what": "tea", "n": 2})
    name, arguments = countable_text([call]).split("\n")
    assert (name, json.loads(arguments)) == ("find", {"what": "tea", "n": 2})
    raw = ToolCallPart(name="find", arguments='{"what": "te')
    assert countable_text([raw]) == 'find\n{"what": "te'


def test_a_tool_result_is_all_that_it_holds():
    inner = ToolResultPart(name="look", content=("cup", DataPart(data=[1, "pot"])))
    assert countable_text(Message.tool(["tea", inner], call_id="c1", tool_name="find").parts) == (
        'find\ntea\nlook\ncup\n[1,"pot"]'
    )


def test_reasoning_counts_where_it_is_sent_again():
    thought = [ReasoningPart(text="hm", signature="9f2c"), TextPart(text="tea")]
    assert countable_text(thought) == "hm\ntea"
    assert countable_text(thought, with_reasoning=False) == "tea"


def test_what_nobody_has_a_word_for_counts_as_json():
    text = countable_text([UnknownPart(type="vendor_note", payload={"body": "tea"})])
    assert json.loads(text) == {"type": "vendor_note", "body": "tea"}


@pytest.mark.parametrize("kind", [ImagePart, AudioPart, VideoPart, FilePart])
def test_media_are_for_the_caller_to_weigh(kind):
    assert countable_text([kind(data=b"\0" * 1000, name="a")]) == ""


def test_nothing_is_no_text():
    assert countable_text([]) == ""
    assert countable_text([TextPart(text=""), ToolResultPart()]) == ""

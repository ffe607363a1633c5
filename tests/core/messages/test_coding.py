import copy
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import (
    MAX_NESTING,
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    VideoPart,
    iter_parts,
    parts_from_json,
    parts_to_json,
)

NOON = datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=UTC)
MEDIA = [ImagePart, AudioPart, VideoPart, FilePart]


OWN_TYPES = [kind.type for kind in get_args(Part) if kind is not UnknownPart]
WORDS = ["a", "b", "type", "text", "data", "part", "unknown", "content", "extra", "payload", "id"]
HOSTILE = ["it's", 'q"q', "'; DROP TABLE records; --", "a.b", "\u2028", "é😀", "\\", " "]

texts = st.text(max_size=8) | st.sampled_from([*HOSTILE, "a\0b", ""])
names = st.sampled_from([*WORDS, *HOSTILE]) | st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
json_objects = st.dictionaries(names, json_values, max_size=3)


def absent_or(strategy):
    return st.none() | strategy


def build(kind, **strategies):
    own = {"type", *kind.__dataclass_fields__} - {"extra"}
    extra = st.dictionaries(names.filter(lambda key: key not in own), json_values, max_size=2)
    return st.builds(kind, extra=extra, **strategies)


def media(kind, **strategies):
    sources = (
        st.fixed_dictionaries({"data": st.binary(max_size=8)})
        | st.fixed_dictionaries({"url": names})
        | st.fixed_dictionaries({"file_id": names})
    )
    rest = st.fixed_dictionaries(
        {"media_type": absent_or(names), "name": absent_or(names), **strategies}
    )
    return st.tuples(sources, rest).flatmap(
        lambda given: build(kind, **{k: st.just(v) for k, v in (given[0] | given[1]).items()})
    )


unknown_parts = st.builds(
    UnknownPart,
    type=st.sampled_from([*OWN_TYPES, "unknown", "server_tool_call", ""]) | texts,
    payload=json_objects.map(lambda given: {k: v for k, v in given.items() if k != "type"}),
)
# An unknown part whose payload looks like the wrapper that hides foreign parts of our names.
wrappers = st.builds(
    lambda inner, depth: UnknownPart(type="unknown", payload={"part": wrap(inner, depth)}),
    st.sampled_from([{"type": "text"}, {"type": "other", "x": 1}, {"x": 1}, 5]),
    st.integers(0, 3),
)
flat_parts = (
    build(TextPart, text=texts)
    | media(ImagePart, caption=absent_or(texts))
    | st.sampled_from(MEDIA[1:]).flatmap(media)
    | build(DataPart, data=json_values)
    | build(ToolCallPart, call_id=absent_or(names), name=texts, arguments=json_objects | texts)
    | build(ReasoningPart, text=texts, signature=absent_or(texts))
    | unknown_parts
    | wrappers
)
parts = st.recursive(
    flat_parts,
    lambda inner: build(
        ToolResultPart,
        call_id=absent_or(names),
        name=absent_or(names),
        content=st.lists(inner, max_size=3).map(tuple),
        is_error=st.booleans(),
    ),
    max_leaves=4,
)
zones = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
times = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones)  # noqa: DTZ001
messages = st.builds(
    Message,
    role=names,
    parts=st.lists(parts, max_size=3).map(tuple),
    id=absent_or(names),
    name=absent_or(names),
    created_at=absent_or(times),
    metadata=json_objects,
    native=absent_or(json_objects.map(lambda given: {**given, "framework": "langchain"})),
)


def wrap(inner, depth):
    return inner if depth == 0 else {"type": "unknown", "part": wrap(inner, depth - 1)}


@given(messages)
def test_a_message_reads_back_equal_to_what_was_written(message):
    text = message.to_json()
    text.encode("utf-8")
    assert Message.from_json(text) == message
    assert Message.from_json(text).to_json() == text  # tells 1 from 1.0 and True
    assert Message.from_dict(message.to_dict()) == message
    assert json.loads(text) == message.to_dict()


@given(st.lists(parts, max_size=4).map(tuple))
def test_parts_alone_read_back_equal_to_what_was_written(given_parts):
    text = parts_to_json(given_parts)
    assert parts_from_json(text) == given_parts
    assert parts_to_json(parts_from_json(text)) == text


@given(
    json_objects,
    st.sampled_from(["unknown", "citation", "hint", "", "Text"]) | names,
    st.booleans(),
)
def test_a_part_of_an_unknown_type_is_written_again_verbatim(rest, type_, in_a_result):
    block = {**rest, "type": type_} if type_ not in OWN_TYPES else {"type": "x", "was": type_}
    blocks = [block, {"type": "text", "text": "between"}, block]
    if in_a_result:
        blocks = [{"type": "tool_result", "content": blocks, "is_error": False}]
    read = parts_from_json(json.dumps(blocks))
    assert json.loads(parts_to_json(read)) == blocks
    kept = [part for part in iter_parts(read) if isinstance(part, UnknownPart)]
    assert [part.type for part in kept] == [block["type"]] * 2


@pytest.mark.parametrize(
    "block",
    [
        {"type": "unknown", "part": {"type": "video2", "x": 1}},
        {"type": "unknown", "part": {"type": "unknown", "part": 5}},
        {"type": "unknown", "part": {"type": 5}},
        {"type": "unknown", "part": {"type": "text", "text": "x"}, "more": 1},
    ],
)
def test_a_foreign_block_that_is_called_unknown_is_not_taken_for_our_wrapper(block):
    (part,) = parts_from_json(json.dumps([block]))
    assert part == UnknownPart(type="unknown", payload={k: block[k] for k in block if k != "type"})
    assert json.loads(parts_to_json([part])) == [block]


@given(st.sampled_from(OWN_TYPES), json_objects)
def test_unknown_keys_of_a_known_type_are_kept_and_written_again(type_, rest):
    needed = {
        "text": {"text": "t"},
        "tool_call": {"name": "n", "arguments": {}},
        "tool_result": {"content": [], "is_error": False},
        "reasoning": {"text": "t"},
        "data": {"data": 1},
    }.get(type_, {"url": "https://example.com/x"})
    known = {"type", "text", "data", "content", "name", "url", "file_id", "media_type", "caption"}
    known |= {"call_id", "arguments", "is_error", "signature"}
    rest = {key: value for key, value in rest.items() if key not in known}
    block = {"type": type_, **needed, **rest}
    (part,) = parts_from_json(json.dumps([block]))
    assert part.type == type_
    assert part.extra == rest
    assert json.loads(parts_to_json([part])) == [block]


def test_a_foreign_part_that_bears_one_of_our_names_is_kept_verbatim():
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    part = UnknownPart(type="image", payload={"source": source, "cache_control": None})
    result = ToolResultPart(call_id="c", content=(part, "seen"))
    assert parts_from_json(parts_to_json([part, result])) == (part, result)


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("inner", [{"type": "text"}, {"type": "other"}, {"x": 1}, 5])
def test_a_foreign_part_that_looks_like_our_wrapper_reads_back_as_it_was(inner, depth):
    part = UnknownPart(type="unknown", payload={"part": wrap(inner, depth)})
    assert parts_from_json(parts_to_json([part])) == (part,)


# The stored form is a promise to every store on a disk: a change here needs a migration.
STORED = [
    (TextPart(text="hé"), {"type": "text", "text": "hé"}),
    (
        TextPart(text="cited", extra={"annotations": [{"url": "u"}]}),
        {"type": "text", "text": "cited", "annotations": [{"url": "u"}]},
    ),
    (
        ImagePart(data=b"\x00\xff", media_type="image/png", name="a.png", caption="a cat"),
        {
            "type": "image",
            "data": "AP8=",
            "media_type": "image/png",
            "name": "a.png",
            "caption": "a cat",
        },
    ),
    (AudioPart(url="s3://b/a.wav"), {"type": "audio", "url": "s3://b/a.wav"}),
    (VideoPart(file_id="file-1"), {"type": "video", "file_id": "file-1"}),
    (FilePart(data=b""), {"type": "file", "data": ""}),
    (DataPart(data={"x": [1, None]}), {"type": "data", "data": {"x": [1, None]}}),
    (DataPart(data=None), {"type": "data"}),
    (DataPart(data=False), {"type": "data", "data": False}),
    (
        ToolCallPart(call_id="c1", name="add", arguments={"a": 1}),
        {"type": "tool_call", "call_id": "c1", "name": "add", "arguments": {"a": 1}},
    ),
    (
        ToolCallPart(name="", arguments='{"a": ', extra={"error": "cut off"}),
        {"type": "tool_call", "name": "", "arguments": '{"a": ', "error": "cut off"},
    ),
    (
        ToolResultPart(call_id="c1", name="add", content=(TextPart(text="2"),), is_error=True),
        {
            "type": "tool_result",
            "call_id": "c1",
            "name": "add",
            "content": [{"type": "text", "text": "2"}],
            "is_error": True,
        },
    ),
    (
        ReasoningPart(text="hm", signature="sig"),
        {"type": "reasoning", "text": "hm", "signature": "sig"},
    ),
    (UnknownPart(type="hint", payload={"h": 1}), {"type": "hint", "h": 1}),
    (
        UnknownPart(type="text", payload={"value": 1}),
        {"type": "unknown", "part": {"type": "text", "value": 1}},
    ),
]


@pytest.mark.parametrize(
    ("part", "stored"), STORED, ids=lambda value: "" if isinstance(value, dict) else None
)
def test_the_stored_form_of_each_part_is_what_it_always_was(part, stored):
    assert json.loads(parts_to_json([part])) == [stored]
    assert parts_from_json(json.dumps([stored])) == (part,)


def test_the_stored_form_of_a_message_is_what_it_always_was():
    message = Message(
        role="user",
        parts=(TextPart(text="hi"),),
        id="m1",
        name="Ann",
        created_at=NOON,
        metadata={"k": 1},
        native={"framework": "langchain", "type": "human"},
    )
    stored = (
        '{"role":"user","parts":[{"type":"text","text":"hi"}],"id":"m1","name":"Ann",'
        '"created_at":"2026-01-02T12:00:00.123456+00:00","metadata":{"k":1},'
        '"native":{"framework":"langchain","type":"human"}}'
    )
    assert message.to_json() == stored
    assert Message.from_json(stored) == message
    assert Message(role="user", parts=()).to_json() == '{"role":"user","parts":[]}'


def test_a_null_in_a_stored_message_means_absent():
    stored = {"role": "user", "parts": [{"type": "image", "url": "u", "data": None}], "name": None}
    stored |= {"created_at": None, "metadata": None, "native": None}
    assert Message.from_dict(stored) == Message.user(ImagePart(url="u"))


def test_a_message_does_not_change_with_what_it_was_made_of_or_turned_into():
    metadata, arguments, payload = {"a": [1]}, {"b": [1]}, {"c": [1]}
    native = {"framework": "x", "d": [1]}
    parts_given = [ToolCallPart(name="f", arguments=arguments)]
    parts_given += [UnknownPart(type="u", payload=payload), TextPart(text="", extra=payload)]
    message = Message.user(parts_given, metadata=metadata, native=native)
    before = message.to_json()
    for value in (metadata["a"], arguments["b"], payload["c"], native["d"], parts_given):
        value.append(2)
    written = message.to_dict()
    written["metadata"]["a"].append(3)
    written["native"]["d"].append(3)
    written["parts"][0]["arguments"]["b"].append(3)
    written["parts"][1]["c"].append(3)
    assert message.to_json() == before


@given(messages)
def test_a_message_can_be_copied_and_pickled(message):
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301


def test_tool_results_stand_in_each_other_as_deep_as_promised_and_no_deeper():
    part = TextPart(text="bottom")
    for _ in range(MAX_NESTING):
        part = ToolResultPart(content=(part,))
    assert parts_from_json(parts_to_json([part])) == (part,)
    with pytest.raises(InvalidRequestError, match="more than 16 deep"):
        ToolResultPart(content=(part,))


@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 300, 100_000])
def test_stored_tool_results_that_stand_too_deep_are_refused(depth):
    text = '[{"type":"tool_result","content":' * depth + "[]" + "}]" * depth
    with pytest.raises(InvalidRequestError, match="parts"):
        parts_from_json(text)


@pytest.mark.parametrize(
    ("stored", "complaint"),
    [
        ("[", "^parts is not JSON"),
        ('{"type":"text"}', "^parts must be an array"),
        ('["hi"]', r"^parts\[0\] must be an object with a `type`"),
        ('[{"text":"hi"}]', r"^parts\[0\] must be an object with a `type`"),
        ('[{"type":5}]', r"^parts\[0\] must be an object with a `type`"),
        ('[{"type":"x"},{"type":"text"}]', r"^parts\[1\]: a part of type 'text' must have"),
        ('[{"type":"text","text":null}]', r"^parts\[0\]: a part of type 'text' must have"),
        ('[{"type":"text","text":5}]', r"^parts\[0\]: TextPart.text must be a str"),
        ('[{"type":"text","text":"\\ud800"}]', r"^parts\[0\]: TextPart.text .*lone surrogate"),
        ('[{"type":"x","a":1e999}]', r"^parts\[0\]: UnknownPart.payload\['a'\] is inf"),
        ('[{"type":"image","data":"!"}]', r"^parts\[0\]: ImagePart.data is not base64"),
        ('[{"type":"image","data":5}]', r"^parts\[0\]: ImagePart.data is not base64"),
        ('[{"type":"image"}]', r"^parts\[0\]: ImagePart needs exactly one of"),
        ('[{"type":"tool_result","content":"hi"}]', r"^parts\[0\]: content must be an array"),
        (
            '[{"type":"tool_result","content":[{"type":"data"},{"type":"text"}]}]',
            r"^parts\[0\]: content\[1\]: a part of type 'text' must have",
        ),
    ],
)
def test_stored_parts_that_are_malformed_are_refused_by_their_place(stored, complaint):
    with pytest.raises(InvalidRequestError, match=complaint):
        parts_from_json(stored)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"role": None}, r"^message must have \['role'\]"),
        ({"parts": None}, r"^message must have \['parts'\]"),
        ({"colour": "red"}, r"^message has the unknown keys \['colour'\]"),
        ({1: 2}, r"^message has the unknown keys \[1\]"),
        ({"created_at": "2026-01-02T12:00:00"}, "^Message.created_at .*time zone"),
        ({"created_at": "noon"}, "^created_at must be an ISO 8601 time"),
        ({"created_at": 5}, "^created_at must be an ISO 8601 time"),
        ({"parts": [{"type": "text"}]}, r"^parts\[0\]: a part of type 'text' must have"),
    ],
)
def test_a_stored_message_that_is_malformed_is_refused(change, complaint):
    with pytest.raises(InvalidRequestError, match=complaint):
        Message.from_dict({"role": "user", "parts": []} | change)


@pytest.mark.parametrize("text", ["[]", "5", '"hi"', "null"])
def test_json_that_is_no_object_is_no_message(text):
    with pytest.raises(InvalidRequestError, match=r"^message must be an object"):
        Message.from_json(text)

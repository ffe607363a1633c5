import urllib.request
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    VideoPart,
    iter_parts,
    parts_text,
)

NOON = datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=UTC)
MEDIA = [ImagePart, AudioPart, VideoPart, FilePart]


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_a_string_is_one_text_part_and_a_list_may_mix_strings_and_parts(role):
    make = getattr(Message, role)
    image = ImagePart(url="https://example.com/a.png")
    assert make("hi").role == role
    assert make("hi").parts == (TextPart(text="hi"),)
    assert make("").parts == (TextPart(text=""),)
    assert make(image).parts == (image,)
    assert make(["see", image]).parts == (TextPart(text="see"), image)
    assert make(part for part in [image, image]).parts == (image, image)
    assert make([]).parts == ()


def test_constructors_pass_on_every_other_field():
    rest = {"id": "1", "name": "Ann", "created_at": NOON, "metadata": {"a": 1}}
    rest["native"] = {"framework": "x"}
    expected = Message(role="user", parts=(TextPart(text="hi"),), **rest)
    assert Message.user("hi", **rest) == expected
    assert Message.of("user", "hi", **rest) == expected
    tool = Message.tool("hi", call_id="c", **rest)
    assert (tool.id, tool.name, tool.metadata) == ("1", "Ann", {"a": 1})


def test_the_plain_constructor_takes_a_string_too():
    assert Message(role="user", parts="hi") == Message.user("hi")
    assert Message(role="user", parts=["hi"]) == Message.user("hi")
    assert ToolResultPart(content="2") == ToolResultPart(content=(TextPart(text="2"),))


def test_a_tool_message_holds_one_result():
    message = Message.tool("2", call_id="c1", tool_name="add", is_error=True)
    (result,) = message.parts
    assert message.role == "tool"
    assert result == ToolResultPart(call_id="c1", name="add", content=("2",), is_error=True)
    assert result.text == message.text == "2"


def test_the_text_is_what_a_person_would_read():
    message = Message.assistant(
        [
            "one",
            ReasoningPart(text="hidden"),
            ImagePart(url="u", caption="a cat"),
            ToolCallPart(name="f", arguments="raw"),
            ToolResultPart(content=["two", ToolResultPart(content="three"), DataPart(data="no")]),
            UnknownPart(type="text2", payload={"text": "no"}),
            "four",
        ]
    )
    assert message.text == "one\ntwo\nthree\nfour"
    assert Message.user(ImagePart(url="u")).text == ""


def test_parts_are_walked_in_order_and_into_tool_results():
    deep = TextPart(text="deep")
    inner = ToolResultPart(content=(deep,))
    outer = ToolResultPart(content=(inner,))
    last = TextPart(text="last")
    assert list(iter_parts([outer, last])) == [outer, inner, deep, last]
    assert parts_text([outer, last]) == "deep\nlast"


@pytest.mark.parametrize(
    "content", [None, 5, b"bytes", {"type": "text", "text": "hi"}, [None], ["a", b"b"], [["a"]]]
)
def test_what_is_no_content_is_refused(content):
    for make in (Message.user, lambda given: ToolResultPart(content=given)):
        with pytest.raises(InvalidRequestError, match="must be a str"):
            make(content)


def test_a_part_in_its_json_form_is_refused_with_the_way_out():
    with pytest.raises(InvalidRequestError, match=r"content\[0\] .* Message\.from_dict"):
        Message.user([{"type": "text", "text": "hi"}])


def test_equal_messages_are_equal_whatever_types_they_were_made_of():
    class Role(str, Enum):  # noqa: UP042  # as older frameworks do it; its str() is not its value
        USER = "user"

    paris = timezone(timedelta(hours=1))
    message = Message(
        role=Role.USER,
        parts=[ImagePart(data=bytearray(b"x"))],
        created_at=NOON.astimezone(paris),
        metadata={"t": (1, 2)},
    )
    assert type(message.role) is str
    assert type(message.parts[0].data) is bytes
    assert message.created_at.tzinfo is UTC
    assert message == Message.user(ImagePart(data=b"x"), created_at=NOON, metadata={"t": [1, 2]})


def test_the_repr_of_media_leaves_the_bytes_out():
    assert len(repr(ImagePart(data=bytes(10_000), media_type="image/png"))) < 200


@pytest.mark.parametrize("kind", MEDIA)
@pytest.mark.parametrize("sources", [(), ("data", "url"), ("url", "file_id"), ("data", "file_id")])
def test_media_have_exactly_one_source(kind, sources):
    given_sources = {name: b"x" if name == "data" else "x" for name in sources}
    with pytest.raises(
        InvalidRequestError, match=f"{kind.__name__} needs exactly one of"
    ) as caught:
        kind(**given_sources)
    assert str(caught.value).endswith(f"not {' and '.join(sources) or 'none of them'}")


@given(st.binary(max_size=40), st.sampled_from(["image/png", "text/plain;charset=utf-8"]))
def test_bytes_survive_as_a_data_url_that_others_can_read(data, media_type):
    part = FilePart(data=data, media_type=media_type)
    with urllib.request.urlopen(part.to_url()) as opened:  # noqa: S310
        assert opened.read() == data
        assert opened.headers["content-type"] == media_type
    assert FilePart.from_url(part.to_url()) == part


@pytest.mark.parametrize(
    ("url", "data", "media_type"),
    [
        ("data:,a%20b", b"a b", "text/plain"),
        ("data:;charset=utf-8,a", b"a", "text/plain;charset=utf-8"),
        ("DATA:image/svg+xml,<svg/>", b"<svg/>", "image/svg+xml"),
        ("data:text/x;BASE64,aGk%3D", b"hi", "text/x"),
        ("data:a/b;base64,", b"", "a/b"),
    ],
)
def test_data_urls_are_read_as_the_standard_says(url, data, media_type):
    assert ImagePart.from_url(url) == ImagePart(data=data, media_type=media_type)


def test_other_urls_are_kept_and_what_the_caller_says_wins():
    assert ImagePart.from_url("https://x/a.png") == ImagePart(url="https://x/a.png")
    part = ImagePart.from_url("data:a/b,x", media_type="image/png", name="n")
    assert part == ImagePart(data=b"x", media_type="image/png", name="n")
    assert ImagePart(url="gs://b/k").to_url() == "gs://b/k"
    assert ImagePart(file_id="file-1").to_url() is None
    assert ImagePart(data=b"").to_url() == "data:application/octet-stream;base64,"


@pytest.mark.parametrize("url", ["data:image/png;base64", "data:a/b;base64,!!", "", "a\0b", None])
def test_a_broken_url_is_refused(url):
    with pytest.raises(InvalidRequestError, match=r"^url "):
        ImagePart.from_url(url)


def test_all_kinds_of_media_can_be_asked_for_at_once():
    made = [kind(url="u") for kind in MEDIA]
    assert all(isinstance(part, MediaPart) for part in made)
    with pytest.raises(InvalidRequestError, match="must be a str or a part"):
        Message.user([MediaPart(url="u")])


@pytest.mark.parametrize("field", ["role", "id", "name"])
@pytest.mark.parametrize("value", ["", "a\0", "\ud800", "x\udfff", 5, b"user"])
def test_names_that_cannot_be_stored_are_refused(field, value):
    with pytest.raises(InvalidRequestError, match=rf"^Message\.{field} "):
        Message(**({"role": "user", "parts": ()} | {field: value}))


@pytest.mark.parametrize(
    ("kind", "fields", "where"),
    [
        (TextPart, {"text": "\ud800"}, "TextPart.text"),
        (TextPart, {"text": None}, "TextPart.text"),
        (TextPart, {"text": "", "extra": {"a": float("nan")}}, "TextPart.extra['a']"),
        (TextPart, {"text": "", "extra": {"text": 1}}, "TextPart.extra"),
        (TextPart, {"text": "", "extra": {"type": 1}}, "TextPart.extra"),
        (ImagePart, {"url": ""}, "ImagePart.url"),
        (ImagePart, {"data": "text"}, "ImagePart.data"),
        (ImagePart, {"url": "u", "caption": 5}, "ImagePart.caption"),
        (ImagePart, {"url": "u", "extra": {"caption": "c"}}, "ImagePart.extra"),
        (AudioPart, {"url": "u", "media_type": ""}, "AudioPart.media_type"),
        (DataPart, {"data": {1: 2}}, "DataPart.data"),
        (DataPart, {"data": [2**64]}, "DataPart.data[0]"),
        (ToolCallPart, {"name": None}, "ToolCallPart.name"),
        (ToolCallPart, {"name": "f", "call_id": ""}, "ToolCallPart.call_id"),
        (ToolCallPart, {"name": "f", "arguments": None}, "ToolCallPart.arguments"),
        (ToolCallPart, {"name": "f", "arguments": [1]}, "ToolCallPart.arguments"),
        (ToolCallPart, {"name": "f", "arguments": "\ud800"}, "ToolCallPart.arguments"),
        (ToolCallPart, {"name": "f", "arguments": {"a": b""}}, "ToolCallPart.arguments['a']"),
        (ToolResultPart, {"call_id": "a\0"}, "ToolResultPart.call_id"),
        (ToolResultPart, {"is_error": "no"}, "ToolResultPart.is_error"),
        (ToolResultPart, {"content": ["\ud800"]}, "ToolResultPart.content[0]"),
        (ReasoningPart, {"text": None}, "ReasoningPart.text"),
        (ReasoningPart, {"signature": "\ud800"}, "ReasoningPart.signature"),
        (UnknownPart, {"type": None}, "UnknownPart.type"),
        (UnknownPart, {"type": "t", "payload": {"type": "t"}}, "UnknownPart.payload"),
        (UnknownPart, {"type": "t", "payload": {"a": {1}}}, "UnknownPart.payload['a']"),
        (UnknownPart, {"type": "t", "payload": None}, "UnknownPart.payload"),
        (Message, {"metadata": None}, "Message.metadata"),
        (Message, {"metadata": {"a": [float("inf")]}}, "Message.metadata['a'][0]"),
        (Message, {"native": {}}, "Message.native['framework']"),
        (Message, {"native": {"framework": "f", "a": NOON}}, "Message.native['a']"),
        (Message, {"created_at": NOON.replace(tzinfo=None)}, "Message.created_at"),
        (Message, {"created_at": "2026-01-02"}, "Message.created_at"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_its_name(kind, fields, where):
    base = {"role": "user", "parts": ()} if kind is Message else {}
    with pytest.raises(InvalidRequestError) as caught:
        kind(**base, **fields)
    assert str(caught.value).startswith(f"{where} ")

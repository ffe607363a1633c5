"""Messages of agentscope-runtime to the canonical ones, and back, on all lines of the runtime."""

import json

import pytest
from adapters.agentscope.samples import MESSAGES, PNG, dumps, said
from agentscope_lance_context._messages import (
    StoredMessage,
    from_canonical,
    normalized,
    to_canonical,
)
from agentscope_lance_context._runtime import Message
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from lance_context_core import Message as CanonicalMessage
from lance_context_core.messages import UnknownPart

LATER = {
    "type": "message",
    "role": "user",
    "content": [
        {"type": "text", "text": "Look:"},
        {"type": "hologram", "url": "https://example.org/a"},
        {"type": "video", "video_url": "https://example.org/a.mp4"},
        {"type": "refusal", "refusal": "I will not."},
        {"type": "audio", "data": "data:audio/wav;base64,AAAA", "format": "wav"},
    ],
}
"""What a later release may have written."""

KNOWN = {
    name.removesuffix("Content").lower()
    for name in dir(
        __import__("agentscope_runtime.engine.schemas.agent_schemas", fromlist=["Message"])
    )
    if name.endswith("Content")
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_a_message_of_any_kind_comes_back_equal(message):
    written = CanonicalMessage.from_json(to_canonical(message).to_json())
    (back,) = from_canonical(written)
    assert dumps([back]) == dumps([message])
    assert back == message
    assert message == back


@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    data=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text("ab'\"\\\0"),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner),
            max_leaves=5,
        ),
        max_size=3,
    ),
    kind=st.sampled_from(["message", "plugin_call", "plugin_call_output", "reasoning", "poem"]),
)
def test_any_text_and_data_come_back_equal(text, data, kind):
    message = Message(
        type=kind,
        role="assistant",
        content=[{"type": "text", "text": text}, {"type": "data", "data": data}],
    )
    (back,) = from_canonical(CanonicalMessage.from_json(to_canonical(message).to_json()))
    assert dumps([back]) == dumps([message])


def parts(name):
    return to_canonical(MESSAGES[name]).parts


def test_others_see_what_a_message_says():
    asked, by_url, picture, broken, empty, last = parts("several contents")
    assert (asked.text, last.text) == ("What is it?", "Say it.")
    assert (by_url.url, picture.data, picture.media_type) == (
        "https://example.org/a.png",
        PNG,
        "image/png",
    )
    assert [type(one) for one in (broken, empty)] == [UnknownPart, UnknownPart]
    assert parts("call") == (ToolCallPart(call_id="c1", name="brew", arguments={"cups": 2}),)
    assert parts("broken call") == (ToolCallPart(name="sip", arguments="{oops"),)
    assert parts("output") == (
        ToolResultPart(
            call_id="c1",
            content=(TextPart(text="two cups"), ImagePart(url="https://example.org/a.png")),
        ),
    )
    assert parts("output that is text") == (ToolResultPart(call_id="c1", content="two cups"),)
    assert parts("reasoning") == (ReasoningPart(text="Let me think"),)
    assert parts("data") == (DataPart(data={"a": [1, None, 2.5, {"b": True}]}),)
    assert parts("no content") == parts("empty content") == ()


def test_others_see_who_spoke():
    roles = {name: to_canonical(message).role for name, message in MESSAGES.items()}
    assert (roles["user"], roles["assistant"], roles["without a role"]) == (
        "user",
        "assistant",
        "user",
    )
    assert (roles["broken call"], roles["output"]) == ("assistant", "tool")


def test_contents_that_the_release_does_not_know_become_texts_and_the_original_is_kept():
    written = CanonicalMessage.user(
        "Look:", native={"framework": "agentscope", "form": "runtime", "data": LATER}
    )
    (back,) = from_canonical(written)
    texts = {
        "hologram": "[hologram]",
        "video": "[video: https://example.org/a.mp4]",
        "refusal": "I will not.",
        "audio": "[audio: wav]",
    }
    expected = [
        ("text", texts[one["type"]]) if one["type"] in texts and one["type"] not in KNOWN
        else (one["type"], one.get("text"))
        for one in LATER["content"]
    ]  # fmt: skip
    assert [(one.type, getattr(one, "text", None)) for one in back.content] == expected
    assert written.native["data"] == LATER


EVERY = {
    "text": (TextPart(text="a"), "message"),
    "image": (ImagePart(data=PNG, media_type="image/png"), "message"),
    "image at a provider": (ImagePart(file_id="f1"), "message"),
    "audio": (AudioPart(data=PNG, media_type="audio/wav"), "message"),
    "video": (VideoPart(url="https://example.org/a.mp4"), "message"),
    "file": (FilePart(url="https://example.org/a.pdf", name="a.pdf"), "message"),
    "file at a provider": (FilePart(file_id="f1"), "message"),
    "data": (DataPart(data=[1]), "message"),
    "unknown": (UnknownPart(type="poem", payload={"lines": 2}), "message"),
    "call": (ToolCallPart(call_id="c1", name="brew", arguments={"cups": 2}), "plugin_call"),
    "raw call": (ToolCallPart(name="sip", arguments="{oops"), "plugin_call"),
    "result": (ToolResultPart(call_id="c1", name="brew", content="2"), "plugin_call_output"),
    "result with a picture": (
        ToolResultPart(
            call_id="c1",
            content=(
                TextPart(text="a"),
                ImagePart(data=PNG, media_type="image/png"),
                ImagePart(url="https://example.org/a.png"),
                DataPart(data=1),
                ReasoningPart(text="hm"),
                ToolCallPart(name="x"),
            ),
        ),
        "plugin_call_output",
    ),
    "reasoning": (ReasoningPart(text="hm"), "reasoning"),
}


@pytest.mark.parametrize(("part", "kind"), EVERY.values(), ids=EVERY)
def test_whatever_another_framework_wrote_can_be_read(part, kind):
    written = CanonicalMessage.assistant(part, id="m1", name="Ada")
    (back,) = from_canonical(written)
    assert (back.id, back.type, back.role, len(back.content)) == ("m1", kind, "assistant", 1)
    # What is made of it is a message that can be stored like any other.
    assert from_canonical(to_canonical(back)) == [back]


def test_calls_results_and_thoughts_are_messages_of_their_own():
    written = CanonicalMessage.assistant(
        [
            ReasoningPart(text="hm"),
            TextPart(text="One moment."),
            ImagePart(url="https://example.org/a.png"),
            ToolCallPart(call_id="c1", name="a"),
            ToolCallPart(call_id="c2", name="b"),
        ],
        id="m1",
    )
    made = from_canonical(written)
    assert [(one.id, one.type) for one in made] == [
        ("m1", "reasoning"),
        ("m1:1", "message"),
        ("m1:2", "plugin_call"),
        ("m1:3", "plugin_call"),
    ]
    assert [one.content[0].data["call_id"] for one in made[2:]] == ["c1", "c2"]
    assert json.loads(made[3].content[0].data["arguments"]) == {}


def test_a_message_that_says_nothing_is_one_nevertheless():
    (back,) = from_canonical(CanonicalMessage.user([]))
    assert (back.role, back.content) == ("user", [])


def test_messages_differ_by_what_they_say_and_not_by_their_class():
    message = said("a", id="1")
    same = StoredMessage.model_validate(message.model_dump())
    assert same == message
    assert message == same
    assert same != said("b", id="1")
    assert dict(same) == dict(message)
    with pytest.raises(TypeError):
        hash(same)


TEXT = {"type": "text", "text": "tea"}


@pytest.mark.parametrize(
    "wrote",
    [
        {"role": "user", "content": [TEXT]},
        {"role": "user", "content": "tea"},
        {"id": "1", "role": "assistant", "type": "message", "content": [TEXT, TEXT]},
        {"role": "user", "content": None},
        {},
        said("tea").model_dump(),
    ],
)
def test_a_dict_reads_back_equal_and_unlike_any_other(wrote):
    (message,) = from_canonical(to_canonical(normalized(wrote, "wrote")[0]))
    assert message == wrote
    assert wrote == message
    others = [{"role": "tool"}, {"content": "cake"}, {"role": "poet"}, {"mood": "thirsty"}, 7, None]
    for other in others:
        assert message != {**wrote, **other} if isinstance(other, dict) else message != other

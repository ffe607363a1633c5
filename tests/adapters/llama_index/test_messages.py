"""LlamaIndex's chat messages and the canonical ones."""

import base64

import pytest
from adapters.llama_index.samples import MESSAGES, PNG, opened
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)
from llama_index_lance_context._messages import from_canonical, to_canonical

from lance_context_core import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    InvalidRequestError,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core.adapting import encodable
from lance_context_core.messages import UnknownPart


def stored(message):
    """What becomes of a message on the disk."""
    (read,) = from_canonical(Message.from_json(to_canonical(message).to_json()))
    return read


def translated(message):
    """What LlamaIndex reads of a message that was written by others."""
    canonical = to_canonical(message)
    (read,) = from_canonical(
        Message(role=canonical.role, parts=canonical.parts, name=canonical.name)
    )
    return read


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_reads_back_equal(name):
    read = stored(MESSAGES[name])
    assert read == MESSAGES[name]
    assert [type(block) for block in read.blocks] == [type(b) for b in MESSAGES[name].blocks]


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_was_read_is_written_as_before(name):
    assert to_canonical(stored(MESSAGES[name])) == to_canonical(MESSAGES[name])


@given(
    st.builds(
        ChatMessage,
        st.lists(
            st.one_of(
                st.builds(TextBlock, text=st.text()),
                st.builds(ImageBlock, image=st.binary(min_size=1)),
                st.builds(
                    ToolCallBlock,
                    tool_call_id=st.sampled_from([None, "a", "b"]),
                    tool_name=st.text(),
                    tool_kwargs=st.dictionaries(st.text(), st.integers() | st.booleans()),
                ),
            ),
            max_size=3,
        ),
        role=st.sampled_from(MessageRole),
        additional_kwargs=st.dictionaries(
            st.text().filter(lambda key: key not in ("images", "tool_calls")),
            st.text() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.none(),
        ),
    )
)
def test_any_message_reads_back_equal(message):
    try:
        canonical = to_canonical(message)
    except InvalidRequestError:
        # What no store can keep, such as a NUL in a name.
        return
    assert from_canonical(Message.from_json(canonical.to_json())) == [encodable(message)]


def test_half_an_emoji_is_replaced():
    cut = ChatMessage("cut \ud83d emoji", additional_kwargs={"name": "a\ud83d"})
    (read,) = from_canonical(to_canonical(cut))
    assert (read.content, read.additional_kwargs) == ("cut ? emoji", {"name": "a?"})


def test_an_open_file_is_stored_as_what_it_holds():
    (block,) = stored(opened()).blocks
    assert block.resolve_image().read() == PNG


def test_a_message_reads_back_when_the_file_that_it_names_is_gone(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    message = ChatMessage([ImageBlock(path=path)])
    canonical = to_canonical(message)
    path.unlink()
    assert from_canonical(canonical) == [message]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("user", [TextPart(text="Is there tea?")]),
        ("image as bytes", [ImagePart(data=PNG, media_type="image/png", extra={"detail": "low"})]),
        ("image by url", [ImagePart(url="https://example.org/a.png", media_type="image/png")]),
        ("image without anything", [UnknownPart(type="image")]),
        ("sound", [AudioPart(data=PNG, media_type="audio/mpeg")]),
        ("document by url", [FilePart(url="s3://bucket/a.pdf", media_type="application/pdf")]),
        (
            "tool calls",
            [
                ToolCallPart(call_id="c1", name="brew", arguments={"cups": 2}),
                ToolCallPart(name="pour", arguments="{oops"),
            ],
        ),
        ("tool calls of OpenAI", [ToolCallPart(call_id="c1", name="brew", arguments={"cups": 2})]),
        (
            "tool",
            [ToolResultPart(call_id="c1", name="brew", content=(TextPart(text="2 cups"),))],
        ),
        (
            "citable",
            [TextPart(text="tea is hot", extra={"citable": {"title": "T", "source": "S"}})],
        ),
    ],
)
def test_other_frameworks_read_the_parts(name, parts):
    assert list(to_canonical(MESSAGES[name]).parts) == parts


def test_other_frameworks_read_what_a_model_thought():
    thought, answer = to_canonical(MESSAGES["thinking"]).parts
    assert isinstance(thought, ReasoningPart)
    assert (thought.text, thought.signature) == ("hm", "s")
    assert answer == TextPart(text="Yes.")


@pytest.mark.parametrize(
    ("name", "role"),
    [
        *(("user", "user"), ("system", "system"), ("developer", "developer")),
        *(("model", "assistant"), ("chatbot", "assistant"), ("function", "tool")),
    ],
)
def test_other_frameworks_read_the_role(name, role):
    assert to_canonical(MESSAGES[name]).role == role


def test_the_name_of_who_spoke_goes_both_ways():
    assert to_canonical(MESSAGES["named"]).name == "ada"
    assert from_canonical(Message.user("hi", name="ada")) == [MESSAGES["named"]]


@pytest.mark.parametrize(
    "name",
    [
        *("user", "system", "developer", "several texts", "image as bytes", "image by url"),
        *("sound", "document", "thinking", "tool calls", "tool", "cache"),
        "document that looks like base64",
    ],
)
def test_what_others_wrote_is_translated_to_the_same_message(name):
    assert translated(MESSAGES[name]) == MESSAGES[name]


def test_each_tool_result_is_a_message_of_its_own():
    message = Message.of(
        "user",
        [
            ToolResultPart(call_id="c1", content="one"),
            ToolResultPart(call_id="c2", content="two"),
            "and now?",
        ],
    )
    assert from_canonical(message) == [
        ChatMessage(role="tool", content="one", additional_kwargs={"tool_call_id": "c1"}),
        ChatMessage(role="tool", content="two", additional_kwargs={"tool_call_id": "c2"}),
        ChatMessage("and now?"),
    ]


def test_a_role_that_llama_index_does_not_know_is_read_as_a_user():
    assert from_canonical(Message.of("moderator", "Order!")) == [ChatMessage("Order!")]


@pytest.mark.parametrize(
    "part",
    [
        DataPart(data={"a": [1]}),
        ImagePart(file_id="file-1"),
        ImagePart(url="not a url"),
        UnknownPart(type="refusal", payload={"a": 1}),
        UnknownPart(type="image", payload={"image": 7}),
    ],
)
def test_what_llama_index_has_no_block_for_is_told_as_text(part):
    ((block,),) = (one.blocks for one in from_canonical(Message.of("user", part)))
    assert isinstance(block, TextBlock)
    assert block.text.startswith("{")


def test_bytes_that_look_like_base64_are_not_taken_for_it():
    ((block,),) = (
        one.blocks
        for one in from_canonical(Message.of("user", ImagePart(data=b"abcd", media_type="x/y")))
    )
    assert base64.b64decode(block.image) == b"abcd"


@pytest.mark.parametrize("wrong", ["hi", None, {"role": "user"}, Message.user("hi")])
def test_what_is_no_message_is_refused(wrong):
    with pytest.raises(InvalidRequestError, match="is not a message"):
        to_canonical(wrong)


def test_what_cannot_be_stored_is_refused_by_its_place():
    with pytest.raises(InvalidRequestError, match=r"additional_kwargs\['a'\]\[0\] is a object"):
        to_canonical(ChatMessage("hi", additional_kwargs={"a": [object()]}))

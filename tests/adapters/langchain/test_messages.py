"""What LangChain writes reads back equal, and reads as faithful canonical messages."""

import pytest
from adapters.langchain.samples import MESSAGES, PNG, PNG_64, USAGE
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_lance_context._messages import from_canonical, to_canonical

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
    VideoPart,
)
from lance_context_core.messages import UnknownPart

each_message = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)


def stored(message):
    """The canonical message as it is read back from a store."""
    return Message.from_json(to_canonical(message).to_json())


@each_message
def test_a_message_reads_back_equal(message):
    before = message.model_copy(deep=True)
    (after,) = from_canonical(stored(message))
    assert after == before
    assert type(after) is type(before)
    assert message == before


CHUNKS = [
    (HumanMessageChunk("hi") + HumanMessageChunk(" there"), HumanMessage("hi there")),
    (
        AIMessageChunk("Ye", id="1") + AIMessageChunk("s.", usage_metadata=USAGE),
        AIMessage("Yes.", id="1", usage_metadata=USAGE),
    ),
    (ChatMessageChunk("a", role="b"), ChatMessage("a", role="b")),
    (
        AIMessageChunk(
            "",
            tool_call_chunks=[{"name": "brew", "args": '{"cups"', "id": "c1", "index": 0}],
        )
        + AIMessageChunk(
            "", tool_call_chunks=[{"name": None, "args": ": 2}", "id": None, "index": 0}]
        ),
        AIMessage("", tool_calls=[{"name": "brew", "args": {"cups": 2}, "id": "c1"}]),
    ),
]


@pytest.mark.parametrize(("chunk", "whole"), CHUNKS)
def test_a_chunk_is_stored_as_the_message_that_it_amounts_to(chunk, whole):
    assert from_canonical(stored(chunk)) == [whole]


def test_a_subclass_is_stored_as_the_message_that_it_is():
    class Note(HumanMessage):
        colour: str = "red"

    assert from_canonical(stored(Note("hi", colour="blue"))) == [HumanMessage("hi", colour="blue")]


def test_what_is_no_message_is_refused():
    with pytest.raises(InvalidRequestError, match="dict is not a message"):
        to_canonical({"role": "user", "content": "hi"})


def test_what_cannot_be_stored_is_named():
    message = ToolMessage("x", tool_call_id="c", artifact={"rows": [object()]})
    with pytest.raises(InvalidRequestError, match=r"ToolMessage\.artifact\['rows'\]\[0\] is a obj"):
        to_canonical(message)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.sampled_from(["brew", "pour", "a.b", "it's", "ö"])
ids = st.none() | st.sampled_from(["1", "it's", "run-2"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
BLOCK_TYPES = [
    "text",
    "image",
    "audio",
    "file",
    "reasoning",
    "tool_call",
    "text-plain",
    "image_url",
    "input_audio",
    "tool_use",
    "thinking",
    "tool_result",
    "document",
    "server_tool_call",
    "server_tool_result",
    "invalid_tool_call",
    "non_standard",
    "new",
]
BLOCK_KEYS = [
    "text",
    "id",
    "url",
    "base64",
    "mime_type",
    "source",
    "value",
    "image_url",
    "extras",
    "name",
    "args",
    "input",
    "content",
    "output",
    "status",
    "tool_call_id",
    "reasoning",
]
blocks = st.builds(
    lambda kind, known, rest: {**rest, **known, "type": kind},
    st.sampled_from(BLOCK_TYPES),
    st.dictionaries(st.sampled_from(BLOCK_KEYS), json_values | objects, max_size=4),
    objects,
)
contents = texts | st.lists(texts | blocks, max_size=3)
calls = st.fixed_dictionaries({"name": names, "args": objects, "id": ids})
bad_calls = st.fixed_dictionaries({"name": names, "args": texts, "id": ids, "error": texts})
common = {"content": contents, "id": ids, "additional_kwargs": objects}
ai_messages = st.builds(
    AIMessage,
    **common,
    tool_calls=st.lists(calls, max_size=2),
    invalid_tool_calls=st.lists(bad_calls, max_size=2),
    response_metadata=objects,
)
messages = st.one_of(
    st.builds(HumanMessage, **common, name=st.none() | names),
    st.builds(SystemMessage, **common),
    ai_messages,
    st.builds(
        ToolMessage,
        **common,
        tool_call_id=texts.filter(lambda text: "\0" not in text),
        artifact=json_values,
        status=st.sampled_from(["success", "error"]),
    ),
    st.builds(ChatMessage, **common, role=names),
    st.builds(FunctionMessage, **common, name=names),
)


@settings(max_examples=50)
@given(messages)
def test_any_message_reads_back_equal(message):
    assert from_canonical(stored(message)) == [message]


@settings(max_examples=50)
@given(messages)
def test_no_text_of_a_message_is_lost_to_others(message):
    """A text block of any message is among what a person reads of the canonical one."""
    content = [message.content] if isinstance(message.content, str) else message.content
    told = [one if isinstance(one, str) else one.get("text") for one in content]
    plain = [
        text
        for one, text in zip(content, told, strict=True)
        if isinstance(text, str) and (isinstance(one, str) or one == {"type": "text", "text": text})
    ]
    read = to_canonical(message).text
    assert all(text in read for text in plain)


@settings(max_examples=50)
@given(ai_messages)
def test_no_tool_call_of_a_message_is_lost_to_others(message):
    parts = [part for part in to_canonical(message).parts if isinstance(part, ToolCallPart)]
    said = {(part.call_id, part.name) for part in parts}
    wanted = {(c["id"], c["name"]) for c in (*message.tool_calls, *message.invalid_tool_calls)}
    assert wanted <= said


# What other frameworks read


CANONICAL = {
    "human": ("user", [TextPart(text="Is there tea?")]),
    "empty": ("user", []),
    "blocks": (
        "user",
        [TextPart(text="Look:"), TextPart(text="a cup", extra={"cache_control": {"a": 1}})],
    ),
    "image by url": (
        "user",
        [
            TextPart(text="What is it?"),
            ImagePart(url="https://example.org/a.png", media_type="image/png"),
        ],
    ),
    "all media": (
        "user",
        [
            ImagePart(data=PNG, media_type="image/png"),
            AudioPart(data=PNG, media_type="audio/wav"),
            VideoPart(file_id="file-1"),
            FilePart(data=PNG, media_type="application/pdf", name="a.pdf"),
        ],
    ),
    "image of OpenAI": ("user", [ImagePart(data=PNG, media_type="image/png")]),
    "image of the first version": ("user", [ImagePart(data=PNG, media_type="image/png")]),
    "system": ("system", [TextPart(text="Be brief.")]),
    "developer": ("developer", [TextPart(text="Be brief.")]),
    "ai": ("assistant", [TextPart(text="Yes.")]),
    "ai that thinks": (
        "assistant",
        [ReasoningPart(text="hm", signature="s"), TextPart(text="Yes.")],
    ),
    "tool calls": (
        "assistant",
        [
            ToolCallPart(call_id="c1", name="brew", arguments={"cups": 2, "kind": None}),
            ToolCallPart(name="pour"),
            ToolCallPart(call_id="c3", name="sip", arguments="{oops", extra={"error": "no JSON"}),
        ],
    ),
    "tool calls among the content": (
        "assistant",
        [
            TextPart(text="One moment."),
            ToolCallPart(call_id="c1", name="brew", arguments={"cups": 2}),
        ],
    ),
    "tool calls of OpenAI": (
        "assistant",
        [ToolCallPart(call_id="c1", name="brew", arguments={"cups": 2})],
    ),
    "tool": (
        "tool",
        [ToolResultPart(call_id="c1", name="brew", content=(TextPart(text="2 cups"),))],
    ),
    "tool that failed": (
        "tool",
        [ToolResultPart(call_id="c1", content=(TextPart(text="no water"),), is_error=True)],
    ),
    "function": ("tool", [ToolResultPart(name="brew", content=(TextPart(text="2 cups"),))]),
    "chat": ("moderator", [TextPart(text="Order!")]),
    "remove": ("remove", []),
}


@pytest.mark.parametrize("name", CANONICAL)
def test_others_read_a_faithful_translation(name):
    message = to_canonical(MESSAGES[name])
    assert (message.role, list(message.parts)) == CANONICAL[name]


def test_others_read_ids_and_names():
    message = to_canonical(MESSAGES["human"])
    assert (message.id, message.name) == ("h1", "ada")


def test_the_id_that_a_removal_names_is_not_its_own():
    assert to_canonical(RemoveMessage(id="h1")).id is None


def test_blocks_of_a_provider_are_read_as_what_they_mean():
    said = AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "id": "c1", "name": "brew", "input": {"cups": 2}},
        ],
        tool_calls=[{"name": "brew", "args": {"cups": 2}, "id": "c1"}],
        response_metadata={"model_provider": "anthropic"},
    )
    assert list(to_canonical(said).parts) == [
        ReasoningPart(text="hm", signature="s"),
        TextPart(text="One moment."),
        ToolCallPart(call_id="c1", name="brew", arguments={"cups": 2}),
    ]


def test_a_tool_that_the_provider_runs_is_a_call_and_its_result():
    said = AIMessage(
        content_blocks=[
            {"type": "server_tool_call", "id": "s1", "name": "web", "args": {"q": "tea"}},
            {
                "type": "server_tool_result",
                "tool_call_id": "s1",
                "status": "success",
                "output": {"n": 1},
            },
        ]
    )
    call, result = to_canonical(said).parts
    assert (call.call_id, call.name, call.arguments) == ("s1", "web", {"q": "tea"})
    assert (result.call_id, result.content) == ("s1", (DataPart(data={"n": 1}),))


def test_a_block_that_nobody_knows_is_kept():
    said = HumanMessage([{"type": "surprise", "value": 1}])
    assert to_canonical(said).parts == (UnknownPart(type="surprise", payload={"value": 1}),)


# What others wrote


WRITTEN = {
    "user": (Message.user("hi", id="1", name="ada"), [HumanMessage("hi", id="1", name="ada")]),
    "system": (Message.system("hi"), [SystemMessage("hi")]),
    "developer": (
        Message.of("developer", "hi"),
        [SystemMessage("hi", additional_kwargs={"__openai_role__": "developer"})],
    ),
    "another role": (Message.of("critic", "no"), [ChatMessage("no", role="critic")]),
    "nothing": (Message.assistant([]), [AIMessage("")]),
    "metadata": (
        Message.user("hi", metadata={"a": 1}),
        [HumanMessage("hi", response_metadata={"metadata": {"a": 1}})],
    ),
    "picture": (
        Message.user(["see", ImagePart(data=PNG, media_type="image/png", caption="a cup")]),
        [
            HumanMessage(
                [
                    {"type": "text", "text": "see"},
                    {
                        "type": "image",
                        "base64": PNG_64,
                        "mime_type": "image/png",
                        "extras": {"caption": "a cup"},
                    },
                ]
            )
        ],
    ),
    "data": (
        Message.user([DataPart(data={"ö": 1})]),
        [HumanMessage([{"type": "text", "text": '{"ö": 1}'}])],
    ),
    "unknown": (
        Message.user([UnknownPart(type="hologram", payload={"a": 1})]),
        [HumanMessage([{"type": "non_standard", "value": {"type": "hologram", "a": 1}}])],
    ),
    "calls": (
        Message.assistant(
            [
                ReasoningPart(text="hm", signature="s"),
                ToolCallPart(call_id="c1", name="brew", arguments={"cups": 2}),
                ToolCallPart(call_id="c2", name="brew", arguments='{"cups": 3}'),
                ToolCallPart(call_id="c3", name="brew", arguments="{oops"),
            ]
        ),
        [
            AIMessage(
                [{"type": "reasoning", "reasoning": "hm", "extras": {"signature": "s"}}],
                tool_calls=[
                    {"name": "brew", "args": {"cups": 2}, "id": "c1"},
                    {"name": "brew", "args": {"cups": 3}, "id": "c2"},
                ],
                invalid_tool_calls=[{"name": "brew", "args": "{oops", "id": "c3", "error": None}],
            )
        ],
    ),
    "result": (
        Message.tool("2 cups", call_id="c1", tool_name="brew", is_error=True, id="t"),
        [ToolMessage("2 cups", tool_call_id="c1", name="brew", status="error", id="t")],
    ),
    "several results": (
        Message.of(
            "system",
            [
                ToolResultPart(call_id="c1", content="one"),
                ToolResultPart(call_id="c2", content="two"),
                "that is all",
            ],
            id="r",
        ),
        [
            ToolMessage("one", tool_call_id="c1", id="r"),
            ToolMessage("two", tool_call_id="c2", id="r:1"),
            SystemMessage("that is all", id="r:2"),
        ],
    ),
}


@pytest.mark.parametrize(("message", "expected"), WRITTEN.values(), ids=WRITTEN)
def test_what_others_wrote_is_read_faithfully(message, expected):
    assert from_canonical(message) == expected


def test_what_another_framework_keeps_for_itself_is_left_alone():
    message = Message.user("hi", native={"framework": "agentscope", "type": "human", "data": {}})
    assert from_canonical(message) == [HumanMessage("hi")]


small = st.integers(-9, 9)
plain_objects = st.dictionaries(texts, small | texts | st.lists(small), max_size=3)
media = st.one_of(
    st.builds(
        kind,
        data=st.binary(max_size=8),
        media_type=st.sampled_from(["image/png", "a/b"]),
        name=st.none() | names,
    )
    | st.builds(kind, url=st.just("https://example.org/x"), name=st.none() | names)
    | st.builds(kind, file_id=names)
    for kind in (ImagePart, AudioPart, VideoPart, FilePart)
)
parts = st.one_of(
    st.builds(TextPart, text=texts.filter(bool)),
    st.builds(ReasoningPart, text=texts, signature=st.none() | texts),
    st.builds(UnknownPart, type=st.just("hologram"), payload=plain_objects.filter(lambda p: "type" not in p)),
    media,
)  # fmt: skip


@settings(max_examples=50)
@given(st.sampled_from(["user", "system", "developer", "assistant", "critic"]), st.lists(parts))
def test_what_others_wrote_is_written_back_as_it_was(role, parts):
    (message,) = from_canonical(Message(role=role, parts=tuple(parts)))
    again = to_canonical(message)
    assert (again.role, list(again.parts)) == (role, parts)

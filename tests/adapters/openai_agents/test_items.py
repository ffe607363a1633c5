"""Items read back equal, and others read them as messages with parts."""

import pytest
from adapters.openai_agents.samples import (
    KINDS,
    PICTURE,
    PNG,
    REASONING,
    assistant,
    call,
    output,
    user,
)
from agents import UserError
from openai_agents_lance_context import LanceContextSession

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
from lance_context_core.messages import UnknownPart


async def test_every_kind_of_item_reads_back_equal_in_order(session):
    await session.add_items([*KINDS.values()])
    assert await session.get_items() == [*KINDS.values()]
    for item in reversed(KINDS.values()):
        assert await session.pop_item() == item
    assert await session.pop_item() is None


async def parts_of(session, *items):
    """The parts that another framework reads, by role."""
    await session.add_items(list(items))
    found = await session._store.history.get_messages("", session_id=session.session_id)
    return [(one.role, list(one.parts)) for one in found]


async def test_others_read_what_is_said_as_text_and_media(session):
    read = await parts_of(
        session,
        user("Hello."),
        {"role": "developer", "content": "Be kind."},
        assistant("Yes."),
        KINDS["a refusal"],
        KINDS["a picture, a file and a sound"],
        KINDS["the screen"],
    )
    picture = ImagePart.from_url(PICTURE)
    assert read == [
        ("user", [TextPart(text="Hello.")]),
        ("developer", [TextPart(text="Be kind.")]),
        ("assistant", [TextPart(text="Yes.")]),
        ("assistant", [TextPart(text="I cannot help with that.")]),
        (
            "user",
            [
                TextPart(text="Look."),
                picture,
                ImagePart(file_id="file-1"),
                FilePart(data=b"a", media_type="text/plain", name="a.txt"),
                FilePart(url="https://example.org/a.pdf"),
                AudioPart(data=b"a", media_type="audio/mpeg"),
            ],
        ),
        ("tool", [ToolResultPart(call_id="call_3", content=(picture,))]),
    ]


async def test_others_read_calls_and_outputs_as_calls_and_results(session):
    read = await parts_of(
        session,
        REASONING,
        call(),
        output(),
        call("call_5", arguments="Oslo"),
        KINDS["a custom call"],
        KINDS["a search of the web"],
        KINDS["a call over MCP"],
        KINDS["a picture that was made"],
        output("late", "call_of_another_batch"),
    )
    thought = "It rains there often."
    web = {"action": {"type": "search", "query": "Oslo"}}
    listing = ToolResultPart(call_id="mcp_1", name="list", content="a.txt")
    made = ImagePart.from_url(f"data:image/png;base64,{PNG}")
    assert read == [
        (
            "assistant",
            [ReasoningPart(text=thought, signature="gAAAAB", extra={"id": "rs_1"})],
        ),
        (
            "assistant",
            [ToolCallPart(call_id="call_1", name="weather", arguments={"city": "Oslo"})],
        ),
        ("tool", [ToolResultPart(call_id="call_1", name="weather", content="sunny")]),
        ("assistant", [ToolCallPart(call_id="call_5", name="weather", arguments="Oslo")]),
        ("assistant", [ToolCallPart(call_id="call_2", name="grammar", arguments="x = 1")]),
        ("assistant", [ToolCallPart(call_id="ws_1", name="web_search", arguments=web)]),
        ("assistant", [ToolCallPart(call_id="mcp_1", name="list"), listing]),
        (
            "assistant",
            [
                ToolCallPart(call_id="ig_1", name="image_generation"),
                ToolResultPart(call_id="ig_1", name="image_generation", content=(made,)),
            ],
        ),
        ("tool", [ToolResultPart(call_id="call_of_another_batch", content="late")]),
    ]


FOREIGN = {
    "a name that OpenAI has no field for": (
        Message.user("Hello.", name="Ada"),
        [user("Hello.")],
    ),
    "a role of another framework": (Message.of("critic", "No."), [user("No.")]),
    "a model by another name": (
        Message.of("ai", "Yes."),
        [{"role": "assistant", "content": "Yes."}],
    ),
    "nothing": (Message.assistant([]), [{"role": "assistant", "content": ""}]),
    "what nobody has words for": (
        Message.user(UnknownPart(type="smell", payload={"of": "tea"})),
        [user("")],
    ),
    "a picture of a user": (
        Message.user(["Look.", ImagePart.from_url(PICTURE)]),
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look."},
                    {"type": "input_image", "detail": "auto", "image_url": PICTURE},
                ],
            }
        ],
    ),
    "a film and data": (
        Message.user([VideoPart(url="https://example.org/a.mp4"), DataPart(data={"a": [1]})]),
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "[video: https://example.org/a.mp4]"},
                    {"type": "input_text", "text": '{"a": [1]}'},
                ],
            }
        ],
    ),
    "a picture of a model": (
        Message.assistant([ImagePart(data=b"x", media_type="image/png", caption="a peak"), "See?"]),
        [
            {"role": "assistant", "content": "[image: a peak]"},
            {"role": "assistant", "content": "See?"},
        ],
    ),
    "a thought and two calls": (
        Message.assistant(
            [
                ReasoningPart(text="Hm.", signature="another provider's"),
                "I look.",
                ToolCallPart(call_id="c1", name="atlas", arguments={"q": "Ö"}),
                ToolCallPart(name="almanac", arguments="raw"),
            ]
        ),
        [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"role": "assistant", "content": "I look."},
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "atlas",
                "arguments": '{"q": "Ö"}',
            },
            {
                "type": "function_call",
                "call_id": "almanac",
                "name": "almanac",
                "arguments": "raw",
            },
        ],
    ),
    "two results": (
        Message.of(
            "tool",
            [
                ToolResultPart(call_id="c1", content="Zugspitze"),
                ToolResultPart(name="almanac", content=(ImagePart.from_url(PICTURE),)),
            ],
        ),
        [
            {"type": "function_call_output", "call_id": "c1", "output": "Zugspitze"},
            {
                "type": "function_call_output",
                "call_id": "almanac",
                "output": [{"type": "input_image", "detail": "auto", "image_url": PICTURE}],
            },
        ],
    ),
    "a thought of OpenAI's": (
        Message.assistant(
            ReasoningPart(text="", signature="gAAAAB", extra={"id": "rs_1"}),
        ),
        [{"type": "reasoning", "summary": [], "id": "rs_1", "encrypted_content": "gAAAAB"}],
    ),
}


@pytest.mark.parametrize("case", FOREIGN)
async def test_messages_of_others_read_as_items(session, store, case):
    message, items = FOREIGN[case]
    await store.history.append("", message, session_id="monday")
    assert await session.get_items() == items


async def test_a_limit_counts_items_where_a_message_has_several(session, store):
    message, items = FOREIGN["a thought and two calls"]
    await store.history.append_many("", [message, message], session_id="monday")
    assert await session.get_items(1) == items[-1:]
    assert await session.get_items(5) == [items[-1], *items]


async def test_popping_takes_the_last_item_of_another_framework_s_message(session, store):
    message, items = FOREIGN["a thought and two calls"]
    await store.history.append_many("", [Message.user("Where?"), message], session_id="monday")
    await session.add_items([user("Thanks.")])
    left = [user("Where?"), *items, user("Thanks.")]
    while left:
        assert await session.pop_item() == left.pop()
        assert await session.get_items() == left


BAD = {
    "no list": ("hello", "give a list of items"),
    "one item": (user("hello"), "give a list of items"),
    "None": (None, "give a list of items"),
    "a text": (["hello"], r"items\[0\]='hello': give a dictionary"),
    "NaN": ([user("a"), {**user("b"), "n": float("nan")}], r"items\[1\] cannot be stored"),
    "bytes": ([{"role": "user", "content": b"x"}], r"items\[0\] .* bytes"),
    "a key that is no text": ([{**user("a"), 1: 2}], r"items\[0\] is a mapping with the key 1"),
    "a set": ([{**user("a"), "n": {1}}], r"items\[0\] .* set"),
}


@pytest.mark.parametrize("case", BAD)
async def test_what_is_no_json_is_a_user_error_and_nothing_is_written(session, case):
    items, said = BAD[case]
    await session.add_items([user("before")])
    with pytest.raises(UserError, match=said):
        await session.add_items(items)
    assert await session.get_items() == [user("before")]


@pytest.mark.parametrize("id", ["../x", "😀", "a b", "x" * 10_000, "%", "a/b"])
async def test_any_text_is_a_session_id(store, id):
    one, other = LanceContextSession(id, store), LanceContextSession(f"{id}.", store)
    await one.add_items([user("mine")])
    assert await other.get_items() == []
    assert await one.get_items() == [user("mine")]


@pytest.mark.parametrize("id", ["", "a\0b", None, 5], ids=["empty", "NUL", "None", "number"])
def test_what_is_no_session_id_is_a_user_error(store, id):
    with pytest.raises(UserError, match="session_id"):
        LanceContextSession(id, store)

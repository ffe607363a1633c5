"""AgentScope's own memories of an agent over the services, with all that a message may hold."""

import asyncio
import base64

import pytest
from adapters.agentscope.samples import PNG
from agentscope.message import (
    AudioBlock,
    Base64Source,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
)
from agentscope_runtime.adapters.agentscope.long_term_memory import AgentScopeLongTermMemory
from agentscope_runtime.adapters.agentscope.memory import AgentScopeSessionHistoryMemory

from lance_context_core import ContextStore

DATA = base64.b64encode(PNG).decode()
CONVERSATION = [
    Msg("Ada", "Is there tea?", "user", metadata={"mood": "thirsty"}),
    Msg(
        "Cook",
        [
            ThinkingBlock(type="thinking", thinking="Let me look"),
            TextBlock(type="text", text="One moment."),
            ToolUseBlock(type="tool_use", id="c1", name="look", input={"for": "tea", "cups": 2}),
        ],
        "assistant",
    ),
    Msg(
        "system",
        [
            ToolResultBlock(
                type="tool_result",
                id="c1",
                name="look",
                output=[TextBlock(type="text", text="two cups")],
            )
        ],
        "system",
    ),
    Msg(
        "Ada",
        [
            TextBlock(type="text", text="Look and listen:"),
            ImageBlock(
                type="image",
                source=Base64Source(type="base64", media_type="image/png", data=DATA),
            ),
            ImageBlock(type="image", source=URLSource(type="url", url="https://example.org/a.png")),
            AudioBlock(
                type="audio",
                source=Base64Source(type="base64", media_type="audio/wav", data=DATA),
            ),
        ],
        "user",
    ),
]


def plain(messages):
    """What a message is, but for when it was made."""
    return [
        (one.id, one.name, one.role, one.metadata or None, one.get_content_blocks())
        for one in messages
    ]


def in_memory(restarts, use, **options):
    """What `use` returns of an agent's memory that lives for this call."""

    async def main():
        service = restarts.history(**options)
        try:
            return await use(AgentScopeSessionHistoryMemory(service, "ada", "monday"))
        finally:
            await service.stop()

    return asyncio.run(main())


@pytest.mark.parametrize("on_missing", ["create", "none"])
def test_thinking_tools_images_and_audio_are_intact_after_a_restart(restarts, on_missing):
    in_memory(restarts, lambda memory: memory.add(CONVERSATION), on_missing=on_missing)
    found = in_memory(restarts, lambda memory: memory.get_memory(), on_missing=on_missing)
    assert plain(found) == plain(CONVERSATION)


@pytest.mark.parametrize("on_missing", ["create", "none"])
def test_messages_are_deleted_by_index_and_cleared(restarts, on_missing):
    async def use(memory):
        await memory.add(None)
        await memory.add(CONVERSATION)
        await memory.delete([1, 2])
        left = await memory.get_memory(), await memory.size()
        await memory.clear()
        return left, await memory.size(), await memory.get_memory()

    (left, size), n_cleared, cleared = in_memory(restarts, use, on_missing=on_missing)
    assert plain(left) == plain([CONVERSATION[0], CONVERSATION[3]])
    assert (size, n_cleared, cleared) == (2, 0, [])


def test_others_read_an_agents_conversation(restarts):
    in_memory(restarts, lambda memory: memory.add(CONVERSATION))
    with ContextStore.open(restarts.where) as store:
        found = store.scope(user_id="ada").history.get_messages("", session_id="monday")
    kinds = [[part.type for part in message.parts] for message in found]
    assert kinds == [
        ["text"],
        ["reasoning"],
        ["text"],
        ["tool_call"],
        ["tool_result"],
        ["text", "image", "image", "audio"],
    ]
    assert found[3].parts[0].arguments == {"for": "tea", "cups": 2}
    assert found[4].text == "two cups"
    assert [part.data for part in found[5].parts[1:]] == [PNG, None, PNG]
    assert [message.name for message in found] == ["Ada", *["Cook"] * 3, "system", "Ada"]


def test_what_others_wrote_is_an_agents_memory(restarts):
    from lance_context_core import Message, ReasoningPart, TextPart, ToolCallPart

    with ContextStore.open(restarts.where) as store:
        store.scope(user_id="ada").history.append_many(
            "",
            [
                Message.user("Is there tea?", id="m1", name="Ada"),
                Message.assistant(
                    [
                        ReasoningPart(text="hm"),
                        TextPart(text="One moment."),
                        ToolCallPart(call_id="c1", name="look", arguments={"for": "tea"}),
                    ],
                    id="m2",
                ),
                Message.tool("2", call_id="c1", tool_name="look", id="m3"),
            ],
            session_id="monday",
        )
    asked, called, answered = in_memory(restarts, lambda memory: memory.get_memory())
    assert (asked.id, asked.name, asked.get_text_content()) == ("m1", "Ada", "Is there tea?")
    assert [block["type"] for block in called.content] == ["thinking", "text", "tool_use"]
    assert (called.id, called.content[2]["input"]) == ("m2", {"for": "tea"})
    assert (answered.role, answered.content[0]["id"], answered.content[0]["output"]) == (
        "system",
        "c1",
        "2",
    )


def in_long_term(restarts, use, **options):
    async def main():
        service = restarts.memory(**options)
        try:
            return await use(AgentScopeLongTermMemory(service, "ada", "monday"), service)
        finally:
            await service.stop()

    return asyncio.run(main())


def test_a_long_term_memory_records_and_retrieves(restarts):
    async def record(memory, _):
        await memory.record(CONVERSATION)
        await memory.record([])
        told = await memory.record_to_memory("worth it", ["Likes green tea", "Has a cat"])
        return told.content[0]["text"]

    async def retrieve(memory, _):
        by_message = await memory.retrieve(Msg("Ada", "tea?", "user"), limit=5)
        several = [Msg("Ada", "moment", "user"), Msg("Ada", "listen", "user")]
        by_messages = await memory.retrieve(several, limit=1)
        by_words = await memory.retrieve_from_memory(["green", "nothing"])
        nothing = await memory.retrieve(None)
        return by_message, by_messages, by_words.content[0]["text"], nothing

    assert in_long_term(restarts, record) == "Successfully recorded content to memory"
    by_message, by_messages, by_words, nothing = in_long_term(restarts, retrieve)
    assert "Is there tea?" in by_message
    assert "One moment." in by_messages
    assert "Look and listen:" in by_messages
    assert "Likes green tea" in by_words
    assert "Is there tea?" not in by_words
    assert nothing == ""


ONCE = [
    "Is there tea?",
    "Let me look",
    "One moment.",
    "look",
    "two cups",
    "Look and listen:",
]
"""What each message says that AgentScope makes of the conversation."""


def test_a_working_memory_that_is_recorded_again_and_again_is_remembered_once(restarts):
    recalled = Msg("long_term_memory", "<long_term_memory>Is there tea?</long_term_memory>", "user")

    async def use(memory, service):
        for n in range(1, 5):
            said, *_ = working = [*CONVERSATION[:n], recalled]
            # An agent records what it was told, its memory and its answer, which are in it too.
            await memory.record([said, *working, CONVERSATION[n - 1]])
        await memory.record([CONVERSATION[1]] * 3)
        listed = await service.list_memory("ada", {"page_size": 100})
        return [str(one.content) for one in listed]

    found = in_long_term(restarts, use, deduplicate=True)
    assert [text in one for text, one in zip(ONCE, found, strict=True)] == [True] * 6


def test_what_an_agent_says_twice_in_one_message_is_remembered_twice(restarts):
    twice = [
        TextBlock(type="text", text="One moment."),
        ToolUseBlock(type="tool_use", id="c1", name="look", input={}),
        TextBlock(type="text", text="One moment."),
    ]

    async def use(memory, service):
        message = Msg("Cook", twice, "assistant")
        await memory.record([message, message])
        return [one.type for one in await service.list_memory("ada")]

    found = in_long_term(restarts, use, deduplicate=True)
    assert found == ["message", "plugin_call", "message"]

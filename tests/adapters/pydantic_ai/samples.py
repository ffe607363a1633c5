"""Messages of every kind, and what tests do with conversations."""

from datetime import UTC, datetime

from pydantic_ai import Agent
from pydantic_ai import messages as ai
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n\0\xff"

EVERYTHING = [
    ai.ModelRequest(
        parts=[
            ai.SystemPromptPart("Be brief.", timestamp=AT, metadata={"from": "a test"}),
            ai.UserPromptPart("What is it like in Oslo? 🌧\t«ø»\n\0 end", timestamp=AT),
        ],
        timestamp=AT,
        instructions="Answer in English.",
        run_id="run-1",
        conversation_id="trip",
        metadata={"n": 1},
    ),
    ai.ModelResponse(
        parts=[
            ai.ThinkingPart("They want the weather.", signature="s1", id="t", provider_name="p"),
            ai.TextPart("One moment.", provider_name="p", provider_details={"a": [1, None]}),
            ai.ToolCallPart("weather", {"city": "Oslo", "days": [1, 2.5, None, True]}, "c1"),
            ai.ToolCallPart("weather", '{"city": "Bergen"}', "c2"),
            ai.NativeToolCallPart("web_search", {"query": "Oslo"}, "c3", provider_name="p"),
            ai.NativeToolReturnPart("web_search", {"found": 1}, "c3", provider_name="p"),
            ai.FilePart(ai.BinaryImage(PNG, media_type="image/png")),
            ai.CompactionPart("Before: greetings.", provider_name="p"),
        ],
        usage=RequestUsage(input_tokens=3, output_tokens=4),
        model_name="m",
        timestamp=AT,
        provider_name="p",
        provider_response_id="r1",
        finish_reason="tool_call",
        run_id="run-1",
        conversation_id="trip",
    ),
    ai.ModelRequest(
        parts=[
            ai.ToolReturnPart("weather", {"sky": "rain", "mm": 2.5}, "c1", timestamp=AT),
            ai.ToolReturnPart("weather", "no such city", "c2", outcome="failed", timestamp=AT),
        ],
        timestamp=AT,
        run_id="run-1",
    ),
    ai.ModelRequest(
        parts=[
            ai.UserPromptPart(
                [
                    "What is this?",
                    ai.ImageUrl("https://example.org/a.png", media_type="image/png"),
                    ai.AudioUrl("https://example.org/a.mp3"),
                    ai.VideoUrl("https://example.org/a.mp4"),
                    ai.DocumentUrl("https://example.org/a.pdf"),
                    ai.BinaryContent(b"%PDF", media_type="application/pdf"),
                    ai.TextContent("Some notes.", metadata={"page": 2}),
                    ai.UploadedFile("file-1", "openai", media_type="text/plain"),
                    ai.CachePoint(),
                ],
                timestamp=AT,
            )
        ],
        timestamp=AT,
        run_id="run-2",
    ),
    ai.ModelRequest(
        parts=[
            ai.SpeechPart(speaker="user", transcript="And tomorrow?"),
            ai.CompactionPart("They asked for the weather."),
            ai.ToolAvailabilityDeltaPart(),
        ],
        timestamp=AT,
    ),
    ai.ModelRequest(parts=[ai.ToolAvailabilityDeltaPart()], timestamp=AT),
    ai.ModelRequest(parts=[], timestamp=AT, state="interrupted"),
    ai.ModelResponse(
        parts=[ai.SpeechPart(speaker="assistant", transcript="Sun.")],
        timestamp=AT,
        state="complete",
    ),
    ai.ModelResponse(parts=[], timestamp=AT),
]


def agent_that_says(text, *, calls=()):
    """An agent whose model calls those tools, and says that."""
    return Agent(TestModel(call_tools=list(calls), custom_output_text=text))


def asked(text):
    return ai.ModelRequest(parts=[ai.UserPromptPart(text, timestamp=AT)], timestamp=AT)


def answered(text):
    return ai.ModelResponse(parts=[ai.TextPart(text)], timestamp=AT)


def conversation(id, *texts):
    """A conversation in which users and models take turns."""
    messages = [answered(text) if number % 2 else asked(text) for number, text in enumerate(texts)]
    return Conversation(conversation_id=id, messages=messages)


def texts(messages):
    """What is said in messages, one text a part."""
    return [part.content for message in messages for part in message.parts]


async def said_in(store, session_id):
    """What the history has of a conversation."""
    found = await store.history.get_messages("pydantic-ai", session_id=session_id)
    return [one.text for one in found]


async def run(agent, conversations, id, prompt, **scope):
    """One turn: load, run, save."""
    loaded = await conversations.load(id, **scope) or Conversation(conversation_id=id)
    result = await agent.run(prompt, conversation=loaded)
    return await conversations.save(result, **scope)

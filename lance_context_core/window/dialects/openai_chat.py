"""OpenAI's Chat Completions, and the many APIs that are made after it."""

from collections.abc import Mapping, Sequence
from typing import Any

from lance_context_core.messages import Message
from lance_context_core.window.dialects.common import (
    Uncached,
    Violation,
    answers,
    arguments_text,
    calls,
    content,
    speaker,
    texts,
)


class OpenAIChat(Uncached):
    """Calls in the assistant's message, and a `tool` message for each result right after it."""

    name = "openai_chat"
    provider = None

    def _rendered(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The `messages`."""
        rendered: list[dict[str, Any]] = []
        for message in messages:
            rendered += _answers(message) if speaker(message) == "tool" else _said(message)
        return {"messages": rendered}

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """Every call answered by the `tool` messages right after it, no result without its call."""
        sent = request.get("messages") or []
        broken: list[Violation] = [] if sent else [Violation(rule="no_messages", index=-1)]
        waiting: list[str] = []
        at = -1
        seen: set[str] = set()
        for index, message in enumerate(sent):
            if message.get("role") == "tool":
                id = message.get("tool_call_id")
                if id in waiting:
                    waiting.remove(id)
                else:
                    rule = "duplicate_result" if id in seen else "result_without_call"
                    broken.append(Violation(rule=rule, index=index, detail=f"{id}"))
                continue
            if waiting:
                broken.append(Violation(rule="call_without_result", index=at, detail=f"{waiting}"))
            waiting, at = [call["id"] for call in message.get("tool_calls") or ()], index
            if len(set(waiting)) < len(waiting) or seen & set(waiting):
                broken.append(Violation(rule="duplicate_call_id", index=index))
            seen |= set(waiting)
            if not message.get("content") and not message.get("tool_calls"):
                broken.append(Violation(rule="empty_content", index=index))
        return broken


def _answers(message: Message) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": id, "content": text} for id, text in answers(message)]


def _said(message: Message) -> list[dict[str, Any]]:
    """What somebody says or calls, as one message; as none where that is nothing."""
    one: dict[str, Any] = {"role": speaker(message)}
    if one["role"] == "user":
        one["content"] = content(message.parts, text="text", picture=_picture)
    else:
        one["content"] = texts(message.parts) or None
    if made := calls(message):
        one["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_text(call)},
            }
            for call in made
        ]
    return [one] if one["content"] or made else []


def _picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}

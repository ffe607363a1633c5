"""Converts messages to the JSON of OpenAI and LangChain, and back."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from lance_context_core._util.checks import dumps
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import (
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    parts_text,
)
from lance_context_core.messages.wire import wire_parts
from lance_context_core.transfer.coding_agents import CodingAgent
from lance_context_core.types import Progress

Json = Mapping[str, Any]


def to_openai(message: Message) -> Json:
    """Converts a message to Chat Completions; unchanged if it came from there."""
    if (kept := _kept(message, "openai")) is not None:
        return kept
    said: dict[str, Any] = {"role": message.role, "content": _openai_content(message.parts)}
    if message.name is not None:
        said["name"] = message.name
    if calls := [one for one in message.parts if isinstance(one, ToolCallPart)]:
        said["tool_calls"] = [
            {
                "id": one.call_id,
                "type": "function",
                "function": {"name": one.name, "arguments": _arguments(one)},
            }
            for one in calls
        ]
    for one in message.parts:
        if isinstance(one, ToolResultPart):
            said |= {"content": parts_text(one.content), "tool_call_id": one.call_id}
    return said


def from_openai(said: Json) -> Message:
    """Converts a Chat Completions message. Raises InvalidRequestError for anything else."""
    content = _openai_parts(said.get("content"))
    if said["role"] == "tool":
        result = ToolResultPart(call_id=said.get("tool_call_id"), content=tuple(content))
        return Message(role="tool", parts=(result,), native=_native("openai", said))
    calls = [
        ToolCallPart(
            call_id=one.get("id"),
            name=one["function"]["name"],
            arguments=_parsed(one["function"]["arguments"]),
        )
        for one in said.get("tool_calls") or ()
    ]
    parts = (*content, *calls)
    return Message(
        role=said["role"], parts=parts, name=said.get("name"), native=_native("openai", said)
    )


_LANGCHAIN = {"user": "human", "assistant": "ai"}
_OURS = {ours: role for role, ours in _LANGCHAIN.items()}


def to_langchain(message: Message) -> Json:
    """Converts a message as LangChain's `messages_to_dict`; unchanged if it came from there."""
    if (kept := _kept(message, "langchain-json")) is not None:
        return kept
    data: dict[str, Any] = {"content": _langchain_content(message.parts), "id": message.id}
    data |= {"name": message.name, "type": _LANGCHAIN.get(message.role, message.role)}
    if calls := [one for one in message.parts if isinstance(one, ToolCallPart)]:
        data["tool_calls"] = [
            {
                "name": one.name,
                "args": _parsed(one.arguments),
                "id": one.call_id,
                "type": "tool_call",
            }
            for one in calls
        ]
    for one in message.parts:
        if isinstance(one, ToolResultPart):
            data |= {"content": parts_text(one.content), "tool_call_id": one.call_id}
            data["status"] = "error" if one.is_error else "success"
    return {"type": data["type"], "data": data}


def from_langchain(said: Json) -> Message:
    """Converts a message of `messages_to_dict`. Raises InvalidRequestError for anything else."""
    data = said["data"]
    content = _openai_parts(data.get("content"))
    about: dict[str, Any] = {"id": data.get("id"), "name": data.get("name")}
    about["native"] = _native("langchain-json", said)
    if said["type"] == "tool":
        is_error = data.get("status") == "error"
        result = ToolResultPart(
            call_id=data.get("tool_call_id"), content=tuple(content), is_error=is_error
        )
        return Message(role="tool", parts=(result,), **about)
    calls = [
        ToolCallPart(call_id=one.get("id"), name=one["name"], arguments=one["args"])
        for one in data.get("tool_calls") or ()
    ]
    return Message(
        role=str(_OURS.get(said["type"], said["type"])), parts=(*content, *calls), **about
    )


FORMS: Mapping[str, tuple[Callable[[Message], Json], Callable[[Json], Message]]] = {
    "openai": (to_openai, from_openai),
    "langchain": (to_langchain, from_langchain),
}
"""The converters in both directions, by the name of the format."""


def read(form: str, said: Any, where: str) -> Message:
    """Converts a message of that format. Raises InvalidRequestError, which names `where`."""
    try:
        return FORMS[form][1](said)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidRequestError(f"{where} is not a message of {form}: {error!r}") from error


def _native(framework: str, said: Json) -> Json:
    return {"framework": framework, "message": said}


def _kept(message: Message, framework: str) -> Json | None:
    native = message.native or {}
    kept: Json | None = native.get("message") if native.get("framework") == framework else None
    return kept


def _openai_content(parts: Sequence[Part]) -> Any:
    shown = [one for one in parts if not isinstance(one, ToolCallPart | ToolResultPart)]
    if all(isinstance(one, TextPart) for one in shown):
        return parts_text(shown) if shown else None
    return [_openai_part(one) for one in shown]


def _openai_part(part: Part) -> Json:
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": part.to_url() or part.file_id}}
    text = part.text if isinstance(part, TextPart) else parts_text((part,))
    return {"type": "text", "text": text}


def _langchain_content(parts: Sequence[Part]) -> Any:
    content = _openai_content(parts)
    return "" if content is None else content


def _openai_parts(content: Any) -> list[Part]:
    return [] if content == "" else wire_parts(content, "content")


def _arguments(call: ToolCallPart) -> str:
    return call.arguments if isinstance(call.arguments, str) else dumps(call.arguments)


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        found = json.loads(arguments)
    except ValueError:
        return arguments
    return found if isinstance(found, dict) else arguments


# The formats and results of exports and imports.

ExportFormat = Literal["jsonl", "parquet", "openai", "langchain"]
"""The format of an export: the full store, or its conversations in a framework's format."""

ImportFormat: TypeAlias = ExportFormat | CodingAgent
"""The format of an import: that of an export, or the coding agent that wrote the history."""

Telling: TypeAlias = Callable[[Progress], object]
"""A callback that receives the progress of a call."""


@frozen
class Exported:
    """The result of an export."""

    rows: dict[str, int] = field(default_factory=dict)
    """By table; for conversations the messages."""

    @property
    def n_rows(self) -> int:
        """The total."""
        return sum(self.rows.values())


@frozen
class Imported:
    """The result of an import."""

    added: dict[str, int] = field(default_factory=dict)
    """The new rows, by table; for conversations the messages."""
    there: dict[str, int] = field(default_factory=dict)
    """The rows that existed already, which stayed unchanged."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Of the histories of coding agents: what was not imported, by what it is, such as `reasoning`."""
    faults: tuple[str, ...] = ()
    """Of these histories: the first 20 lines that cannot be read, each with its cause."""

    @property
    def n_added(self) -> int:
        """The total of new rows."""
        return sum(self.added.values())

"""Anthropic's Messages API: alternating roles, tool results first in the user's turn."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lance_context_core.messages import (
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from lance_context_core.messages.parts import iter_parts
from lance_context_core.window.providers import rules
from lance_context_core.window.providers.common import (
    BEGINNING,
    NAMES,
    Named,
    Violation,
    arguments,
    escaped,
    speaker,
    spoken,
    texts,
    words,
)
from lance_context_core.window.providers.media import PDF, PICTURES, Place, Source, source_of
from lance_context_core.window.providers.rules import ANTHROPIC_IDS

MAX_BREAKPOINTS = 4


class Anthropic(Named):
    """The system prompt is separate; the user begins, and equal roles are merged."""

    name = "anthropic"
    provider = "anthropic"

    def render(
        self, messages: Sequence[Message], *, breakpoints: Iterable[int] = ()
    ) -> dict[str, Any]:
        """Return the `system` and the `messages`; breakpoints mark their messages' last blocks."""
        marked = set(sorted(breakpoints)[-MAX_BREAKPOINTS:])
        system: list[dict[str, Any]] = []
        turns: list[dict[str, Any]] = []
        for index, message in enumerate(messages):
            role = speaker(message)
            if role == "system":
                text = texts(spoken(message))
                blocks = [{"type": "text", "text": text}] if text else []
                # In between it would apply to all turns: there it belongs to the user's side.
                into = _turn(turns, "user") if turns else system
            else:
                turn: Place = "assistant" if role == "assistant" else "user"
                blocks = [block for part in spoken(message) for block in self._blocks(part, turn)]
                into = _turn(turns, "assistant" if role == "assistant" else "user")
            into += blocks
            if index in marked and into and into[-1]["type"] not in _UNMARKED:
                into[-1] = {**into[-1], "cache_control": {"type": "ephemeral"}}
        sent = _merged([turn for turn in turns if turn["content"]])
        if (sent and sent[0]["role"] != "user") or (messages and not sent):
            sent.insert(0, {"role": "user", "content": [{"type": "text", "text": BEGINNING}]})
        return {**({"system": system} if system else {}), "messages": sent}

    def _blocks(self, part: Part, place: Place) -> list[dict[str, Any]]:
        match part:
            case ToolCallPart():
                return [
                    {
                        "type": "tool_use",
                        "id": _id(part.call_id),
                        "name": escaped(part.name, NAMES),
                        "input": arguments(part),
                    }
                ]
            case ToolResultPart():
                inner: Place = "failed" if part.is_error else "result"
                content = [
                    block
                    for one in iter_parts(part.content)
                    if not isinstance(one, ToolResultPart)
                    for block in self._content(one, inner)
                ]
                result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(part.call_id)}
                if content:
                    result["content"] = content
                return [{**result, "is_error": True} if part.is_error else result]
            case ReasoningPart():
                if part.signature:
                    thought = {"thinking": part.text, "signature": part.signature}
                    return [{"type": "thinking", **thought}]
                return []
            case UnknownPart() if part.type in ("redacted_thinking", "thinking", "compaction"):
                return [{"type": part.type, **part.payload}]
        return self._content(part, place)

    def _content(self, part: Part, place: Place) -> list[dict[str, Any]]:
        if isinstance(part, MediaPart) and (block := self._sent(part, place)):
            return [block]
        text = words(part) or ""
        if place == "assistant":
            text = text.rstrip()  # The text that the model continues must not end in spaces.
        return [{"type": "text", "text": text}] if text.strip() else []

    def _sent(self, part: MediaPart, place: Place) -> dict[str, Any] | None:
        if place not in ("user", "result"):
            return None
        from_ = source_of(part)
        if isinstance(part, ImagePart):
            source = _source(from_, PICTURES, at=(None, *PICTURES))
            return None if source is None else {"type": "image", "source": source}
        if isinstance(part, FilePart):
            source = _source(from_, (PDF,), at=(PDF,)) or _text_source(from_)
            title = {"title": part.name[:255]} if part.name else {}
            return None if source is None else {"type": "document", "source": source, **title}
        return None

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """Check that a user begins, roles alternate, and results follow their calls."""
        sent = request.get("messages") or []
        broken: list[Violation] = [] if sent else [Violation(rule="no_messages", index=-1)]
        if sent and sent[0].get("role") != "user":
            broken.append(Violation(rule="first_is_not_user", index=0))
        waiting: set[str] = set()
        seen: set[str] = set()
        n_marks = sum("cache_control" in block for block in request.get("system") or ())
        for index, message in enumerate(sent):
            blocks = message.get("content") or []
            blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
            n_marks += sum("cache_control" in block for block in blocks)
            kinds = [block.get("type") for block in blocks]
            if not blocks:
                broken.append(Violation(rule="empty_content", index=index))
            if message.get("role") not in ("user", "assistant"):
                broken.append(Violation(rule="unknown_role", index=index))
            answers = [block.get("tool_use_id") for block in blocks if block in _results(blocks)]
            n_first = len(answers)
            if answers and any(kind != "tool_result" for kind in kinds[:n_first]):
                broken.append(Violation(rule="results_not_first", index=index))
            if unknown := [id for id in answers if id not in waiting]:
                broken.append(
                    Violation(rule="result_without_call", index=index, detail=f"{unknown}")
                )
            if len(set(answers)) < len(answers):
                broken.append(Violation(rule="duplicate_result", index=index))
            if missing := waiting - set(answers):
                broken.append(
                    Violation(
                        rule="call_without_result", index=index - 1, detail=f"{sorted(missing)}"
                    )
                )
                if index == len(sent) - 1 and set(kinds) <= {"tool_result"} and answers:
                    broken.pop()  # More results follow.
            made = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
            if len(set(made)) < len(made) or seen & set(made):
                broken.append(Violation(rule="duplicate_call_id", index=index))
            if made and message.get("role") != "assistant":
                broken.append(Violation(rule="call_of_a_user", index=index))
            seen |= set(made)
            waiting = set(made)
            if index and sent[index - 1].get("role") == message.get("role") == "assistant":
                broken.append(Violation(rule="assistant_twice", index=index))
        if n_marks > MAX_BREAKPOINTS:
            broken.append(Violation(rule="too_many_breakpoints", index=-1, detail=f"{n_marks}"))
        return broken + rules.anthropic(request)


_UNMARKED = ("thinking", "redacted_thinking")


def _source(
    from_: Source, types: Sequence[str], *, at: Sequence[str | None]
) -> dict[str, Any] | None:
    """Return bytes of these types, a URL of the types `at`, or an uploaded file."""
    if from_.data and from_.media_type in types:
        return {"type": "base64", "media_type": from_.media_type, "data": from_.base64}
    if from_.is_at("https") and from_.media_type in at:
        return {"type": "url", "url": from_.url}
    return {"type": "file", "file_id": from_.file_id} if from_.is_file_of("file_") else None


def _text_source(from_: Source) -> dict[str, Any] | None:
    """Return a plain text file as text."""
    if from_.media_type != "text/plain":
        return None
    text = (from_.data or b"").decode("utf-8", "replace")
    return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None


def _results(blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [block for block in blocks if block.get("type") == "tool_result"]


def _turn(turns: list[dict[str, Any]], role: str) -> list[dict[str, Any]]:
    """Return the content of the current turn of `role`."""
    if not turns or turns[-1]["role"] != role:
        turns.append({"role": role, "content": []})
    content: list[dict[str, Any]] = turns[-1]["content"]
    return content


def _merged(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge turns of one role that only an empty one had separated."""
    merged: list[dict[str, Any]] = []
    for turn in turns:
        if merged and merged[-1]["role"] == turn["role"]:
            merged[-1]["content"] += turn["content"]
        else:
            merged.append(turn)
    return merged


def _id(id: str | None) -> str:
    """Return an id in the allowed letters; the same for a call and its results."""
    return escaped(id or "", ANTHROPIC_IDS)

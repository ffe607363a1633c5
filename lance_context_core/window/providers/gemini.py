"""Google's Gemini API: alternating contents, with responses right after their calls."""

from collections.abc import Mapping, Sequence
from typing import Any

from lance_context_core.messages import (
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    ToolCallPart,
    ToolResultPart,
)
from lance_context_core.window.providers import common, rules
from lance_context_core.window.providers.common import Uncached, Violation
from lance_context_core.window.providers.media import Place, source_of
from lance_context_core.window.providers.rules import GEMINI_MEDIA, GEMINI_NAMES

UNSIGNED = "skip_thought_signature_validator"
"""Replaces the signature of another model's call: the API accepts it."""

_FILES = "https://generativelanguage.googleapis.com/v1beta/"
"""The URL prefix of an uploaded file's name."""


class Gemini(Uncached):
    """The system instruction is separate; a signature stays with its call."""

    name = "gemini"
    provider = "gemini"

    def _rendered(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the `contents`, and the `systemInstruction`."""
        system: list[dict[str, Any]] = []
        contents: list[dict[str, Any]] = []
        for message in messages:
            role = common.speaker(message)
            if role == "system":
                text = common.texts(common.spoken(message))
                told = [{"text": text}] if text else []
                if contents:
                    _of(contents, "user").extend(told)
                else:
                    system += told
                continue
            turn: Place = "assistant" if role == "assistant" else "user"
            if parts := [one for part in common.spoken(message) for one in self._parts(part, turn)]:
                # Calls of two messages are two steps, not parallel ones.
                _of(contents, "model" if role == "assistant" else "user").extend(parts)
        if (contents and contents[0]["role"] != "user") or (messages and not contents):
            contents.insert(0, {"role": "user", "parts": [{"text": common.BEGINNING}]})
        _sign(contents)
        return {
            **({"systemInstruction": {"parts": system}} if system else {}),
            "contents": contents,
        }

    def tool_name(self, name: str) -> str:
        """See `Dialect.tool_name`."""
        return common.escaped(name, GEMINI_NAMES)

    def _parts(self, part: Part, place: Place) -> list[dict[str, Any]]:
        match part:
            case ToolCallPart():
                made = {"name": self.tool_name(part.name), "args": common.arguments(part)}
                call: dict[str, Any] = {"functionCall": made}
                signature = part.extra.get("thought_signature") or part.extra.get(
                    "thoughtSignature"
                )
                return [{**call, "thoughtSignature": signature} if signature else call]
            case ToolResultPart():
                key = "error" if part.is_error else "output"
                response = {key: common.texts(part.content)}
                name = self.tool_name(part.name or "")
                return [{"functionResponse": {"name": name, "response": response}}]
            case ReasoningPart():
                if not part.signature:
                    return []
                return [{"text": part.text, "thought": True, "thoughtSignature": part.signature}]
            case MediaPart() if (sent := self._sent(part, place)) is not None:
                return [sent]
        text = common.words(part)
        return [{"text": text}] if text and text.strip() else []

    def _sent(self, part: MediaPart, place: Place) -> dict[str, Any] | None:
        source = source_of(part)
        if place != "user" or source.media_type not in GEMINI_MEDIA:
            return None
        if source.data:
            return {"inlineData": {"mimeType": source.media_type, "data": source.base64}}
        uri = source.url if source.is_at("https", "gs") else None
        if source.is_file_of("files/", _FILES):
            uri = _FILES + str(source.file_id).removeprefix(_FILES)
        if uri is None:
            return None
        return {"fileData": {"mimeType": source.media_type, "fileUri": uri}}

    def validate(self, request: Mapping[str, Any]) -> list[Violation]:
        """Check that a user begins, roles alternate, calls have responses, and signatures exist."""
        contents = request.get("contents") or []
        broken: list[Violation] = [] if contents else [Violation(rule="no_messages", index=-1)]
        if contents and contents[0].get("role") != "user":
            broken.append(Violation(rule="first_is_not_user", index=0))
        waiting: list[str] = []
        last_user = max((i for i, one in enumerate(contents) if _is_user(one)), default=-1)
        for index, content in enumerate(contents):
            parts = content.get("parts") or []
            if not parts:
                broken.append(Violation(rule="empty_content", index=index))
            if index and contents[index - 1].get("role") == content.get("role"):
                broken.append(Violation(rule="roles_do_not_alternate", index=index))
            answers = [p["functionResponse"]["name"] for p in parts if "functionResponse" in p]
            is_last = index == len(contents) - 1
            may_wait = is_last and len(answers) == len(parts)
            if not waiting and answers:
                broken.append(Violation(rule="result_without_call", index=index))
            elif len(answers) > len(waiting) or (len(answers) < len(waiting) and not may_wait):
                broken.append(Violation(rule="responses_differ_from_calls", index=index))
            elif unknown := set(answers) - set(waiting):
                detail = f"{sorted(unknown)}"
                broken.append(
                    Violation(rule="responses_differ_from_calls", index=index, detail=detail)
                )
            made = [part for part in parts if "functionCall" in part]
            if made and content.get("role") != "model":
                broken.append(Violation(rule="call_of_a_user", index=index))
            if made and index > last_user and not made[0].get("thoughtSignature"):
                broken.append(Violation(rule="call_without_signature", index=index))
            waiting = [part["functionCall"]["name"] for part in made]
        return broken + rules.gemini(request)


def _of(contents: list[dict[str, Any]], role: str) -> list[dict[str, Any]]:
    if not contents or contents[-1]["role"] != role:
        contents.append({"role": role, "parts": []})
    parts: list[dict[str, Any]] = contents[-1]["parts"]
    return parts


def _is_user(content: Mapping[str, Any]) -> bool:
    """Whether it contains a user's message."""
    is_said = any("functionResponse" not in part for part in content.get("parts") or ())
    return content.get("role") == "user" and is_said


def _sign(contents: list[dict[str, Any]]) -> None:
    """Add the placeholder signature to the first call of each step, if it has none."""
    for content in contents:
        made = [part for part in content["parts"] if "functionCall" in part]
        if made and not made[0].get("thoughtSignature"):
            made[0]["thoughtSignature"] = UNSIGNED

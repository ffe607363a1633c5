"""What only the provider that made it can read: encrypted reasoning, signatures, its own summaries.

It goes back as it came, as long as it goes to its maker and nothing that it rests on is missing; else it
is left out, with whatever is bound to it.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lance_context_core.messages import Message, Part, ReasoningPart, ToolCallPart, UnknownPart
from lance_context_core.window.dialects.common import is_opaque
from lance_context_core.window.groups import Group, replaced

_SIGNATURES = ("thought_signature", "thoughtSignature")

_MAKERS = {
    "google": "gemini",
    "google_genai": "gemini",
    "google_vertexai": "gemini",
    "azure_openai": "openai",
    "openai_responses": "openai",
}


def fitted(group: Group, provider: str | None, *, keeps: bool) -> Group | None:
    """The group as it may go to a provider; what was left out of it is among its notes.

    With `keeps` nothing that came before it is missing or shortened, or the model is still at work on
    what it belongs to. None if nothing is left of it.
    """
    notes = list(group.notes)
    messages = []
    for message in group.messages:
        parts = tuple(
            kept
            for part in message.parts
            if (kept := _kept(part, message, provider, keeps=keeps)) is not None
        )
        if len(parts) < len(message.parts):
            notes.append("reasoning_left_out")
        if parts:
            is_same = all(a is b for a, b in zip(parts, message.parts, strict=False))
            is_same = is_same and len(parts) == len(message.parts)
            messages.append(message if is_same else replaced(message, parts=parts))
    if not messages:
        return None
    return replace(group, messages=tuple(messages), notes=tuple(dict.fromkeys(notes)))


def _kept(part: Part, message: Message, provider: str | None, *, keeps: bool) -> Part | None:
    if isinstance(part, ToolCallPart) and any(name in part.extra for name in _SIGNATURES):
        if provider == "gemini":
            return part
        extra = {name: one for name, one in part.extra.items() if name not in _SIGNATURES}
        return replace(part, extra=extra)
    if not (isinstance(part, ReasoningPart) or is_opaque(part)):
        return part
    is_own = provider is not None and maker(part, message) == provider
    if isinstance(part, UnknownPart) and part.type == "compaction":
        # One that holds nothing is a failure of its maker's.
        holds = part.payload.get("content") or part.payload.get("encrypted_content")
        return part if is_own and holds else None
    return part if is_own and keeps else None


def maker(part: Part, message: Message) -> str | None:
    """Whose provider's it is: as the message says, or as its shape does; None if neither does."""
    extra: Any = part.payload if isinstance(part, UnknownPart) else part.extra
    said = _said([extra, message.metadata, message.metadata.get("response_metadata")])
    if said is not None:
        return _MAKERS.get(said, said)
    if isinstance(part, UnknownPart) and part.type in ("thinking", "redacted_thinking"):
        return "anthropic"
    if "encrypted_content" in extra or str(extra.get("id", "")).startswith("rs_"):
        return "openai"
    is_signed = isinstance(part, ReasoningPart) and part.signature
    return "anthropic" if is_signed or isinstance(part, UnknownPart) else None


def _said(places: Iterable[Any]) -> str | None:
    for place in places:
        for name in ("provider", "model_provider"):
            if isinstance(place, dict) and isinstance(place.get(name), str):
                return str(place[name])
    return None

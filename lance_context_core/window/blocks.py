"""What is quoted in a window: items in one message of the user's, a line each, with their marks."""

import re
from collections.abc import Iterable, Sequence

from lance_context_core.messages import Message
from lance_context_core.window.quoting import quoted
from lance_context_core.window.sections import Section, Snippet


def line(item: Snippet, mark: str | None) -> str:
    """An item with its mark and its label."""
    head = " ".join(
        one
        for one in (f"[{mark}]" if mark else "-", quoted(item.label) if item.label else "")
        if one
    )
    return f"{head}: {quoted(item.text)}" if item.label else f"{head} {quoted(item.text)}"


def block(section: Section, items: Sequence[Snippet], marks: Iterable[str | None]) -> Message:
    """The message that quotes these items, in their order."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", section.name)
    lines = [line(item, mark) for item, mark in zip(items, marks, strict=True)]
    guidance = [section.guidance] if section.guidance else []
    return Message.user("\n".join([f"<{name}>", *guidance, *lines, f"</{name}>"]))

"""What is quoted in a window: items in one message of the user's, which no text of theirs can end.

What was remembered is data. A memory may say «ignore your instructions», and close what looks like the end of
the quotation before it: so what looks like one of our marks in a text is made to look like none.
"""

import re
from collections.abc import Iterable, Sequence

from lance_context_core.messages import Message
from lance_context_core.window.sections import Item, Section

_TAG = re.compile(r"<(?=\s*/?\s*[a-z])", re.IGNORECASE)
_MARK = re.compile(r"\[(m[0-9]+)\]")
_ENDS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def quoted(text: str) -> str:
    """A text that can neither end its quotation, nor begin an item, nor bear a mark."""
    text = _MARK.sub(r"(\1)", _TAG.sub("‹", text))
    return _ENDS.sub("\n    ", text)


def line(item: Item, mark: str | None) -> str:
    """An item with its mark and its label."""
    head = " ".join(
        one for one in (f"[{mark}]" if mark else "-", quoted(item.label) if item.label else "") if one
    )
    return f"{head}: {quoted(item.text)}" if item.label else f"{head} {quoted(item.text)}"


def block(section: Section, items: Sequence[Item], marks: Iterable[str | None]) -> Message:
    """The message that quotes these items, in their order."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", section.name)
    lines = [line(item, mark) for item, mark in zip(items, marks, strict=True)]
    guidance = [section.guidance] if section.guidance else []
    return Message.user("\n".join([f"<{name}>", *guidance, *lines, f"</{name}>"]))

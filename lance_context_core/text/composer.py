"""What a record is found by: the text that is embedded, and the words that are indexed.

A turn of a conversation is asked for by who said it, when, and what was to be seen, none of which
its text says. Both texts serve the search alone; readers get the original back.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.text.analysis import index_words, query_words
from lance_context_core.text.queries import without_names


class Composable(Protocol):
    """What a composition is made of; every `ContextRecord` is one."""

    @property
    def kind(self) -> str:
        """`message` for a turn of a conversation."""

    @property
    def role(self) -> str | None:
        """What the speaker is to the conversation, such as `user`."""

    @property
    def name(self) -> str | None:
        """Who speaks, where that is known by name."""

    @property
    def text(self) -> str | None:
        """The original text."""

    @property
    def captions(self) -> Sequence[str]:
        """What its images show, in order."""

    @property
    def created_at(self) -> datetime:
        """When it was said; aware."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The caller's own data."""


def spoken(record: Composable) -> str | None:
    """`Ann said, "text" (caption)`, for a message whose speaker has a name.

    Without a name, and for what is no message: the text as it is, and the captions. None if there
    is neither text nor caption. The date is left to the words: an embedding blurs numbers.
    """
    _, name, text, captions = _content(record)
    if not (text or captions):
        return None
    if name:
        text = f'{name} said, "{text}"' if text else f"{name} shared"
    return _joined(text, captions)


def dated(record: Composable) -> str | None:
    """`[8 May 2023] Ann: text (caption)` for a message, without `Ann:` if the speaker has no name.

    For what is no message: the text and the captions. None if there is neither. The date is that
    of UTC; the whole goes through `index_words`.
    """
    is_said, name, text, captions = _content(record)
    if not (text or captions):
        return None
    date = f"[{_date(record.created_at)}]" if is_said else ""
    return index_words(_joined(date, f"{name}:" if name else "", text, captions))


@frozen_by_name
class Composer:
    """The compositions of a store; each can be replaced by a function of the same shape.

    `index_text` and `query_text` are a pair: what one does to a word, the other must do too.
    """

    embed_text: Callable[[Composable], str | None] = spoken
    """What of a record is embedded; None if there is nothing to embed."""
    index_text: Callable[[Composable], str | None] = dated
    """What of a record is indexed for words; None if there is nothing to index."""
    query_text: Callable[[str], str] = query_words
    """What of a query is looked up in the words."""
    query_to_embed: Callable[[str, Collection[str]], str] = without_names
    """What of a query is embedded, where speakers are known; it gets their names, too."""


DEFAULT_COMPOSER = Composer()
"""Names and captions for vectors, names, captions and dates for words."""

_MADE_OF_TURNS = ("chunk", "fact")

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip


def _content(record: Composable) -> tuple[bool, str, str, str]:
    """Whether it is said; its speaker; the text as it is; the captions, each in parentheses.

    A turn is said, and what is made of turns: then who said it, and when, is a part of it. What is
    blank is "".
    """
    is_said = record.kind == "message" or (
        record.role is not None and record.kind in _MADE_OF_TURNS
    )
    name = (record.name or "").strip() if is_said else ""
    text = record.text if record.text and not record.text.isspace() else ""
    captions = " ".join(f"({caption})" for caption in record.captions if caption.strip())
    return is_said, name, text, captions


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _date(moment: datetime) -> str:
    # Not strftime: its names follow the locale of the process, and an index outlives it.
    day = moment.astimezone(UTC)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"

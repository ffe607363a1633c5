"""What a reader makes of a file: its text, and what stands where in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from lance_context_core._checks import check_text, shown
from lance_context_core.errors import InvalidRequestError, UnreadableDocumentError

BlockKind = Literal["text", "heading", "whole"]
"""Running text; a heading, which stays with what follows; what is kept whole where it fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a text that is about one thing: running text, a heading, a table, a piece of code."""

    start: int
    end: int
    """Offsets into the text, in characters."""
    kind: BlockKind = "text"
    page: int | None = None
    """Counted from 1."""
    section: str | None = None
    """The headings above it, outermost first, with ` > ` between them; its own, of a heading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDocument:
    """The text of a file, and what stands where in it.

    Raises InvalidRequestError unless the blocks stand one after the other within the text.
    """

    text: str
    blocks: tuple[Block, ...] = ()
    """What no block covers belongs to no chunk; without any, all of it is running text."""
    title: str | None = None
    n_pages: int | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    """What else is to be kept with the document: JSON by key."""

    def __post_init__(self) -> None:
        at = 0
        for block in self.blocks:
            if not at <= block.start <= block.end <= len(self.text):
                raise InvalidRequestError(
                    f"blocks has {shown(block)}: give them in order, within the text's "
                    f"{len(self.text)} characters, none over another"
                )
            at = block.end


@runtime_checkable
class Reader(Protocol):
    """Reads one type of file. It is called in worker threads, from several at once."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text of a file of that name. Raises UnreadableDocumentError if none can be had of it."""


class Headings:
    """The headings above what is read, as a path."""

    def __init__(self) -> None:
        """None yet."""
        self._above: list[tuple[int, str]] = []

    def enter(self, level: int, title: str) -> None:
        """Come to a heading, 1 being the outermost level."""
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        if title := " ".join(title.split()):
            self._above.append((level, title))

    @property
    def path(self) -> str | None:
        """The headings that hold here."""
        return " > ".join(title for _, title in self._above) or None


class Written:
    """A text that is put together of blocks, for readers of what is no text."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._parts: list[str] = []
        self._blocks: list[Block] = []
        self._length = 0

    def add(
        self,
        text: str,
        *,
        kind: BlockKind = "text",
        page: int | None = None,
        section: str | None = None,
    ) -> None:
        """Add a block, a blank line after the one before; a blank one is left out."""
        if not (text := text.strip()):
            return
        if self._parts:
            self._parts.append("\n\n")
            self._length += 2
        start, self._length = self._length, self._length + len(text)
        self._parts.append(text)
        self._blocks.append(
            Block(start=start, end=self._length, kind=kind, page=page, section=section)
        )

    @property
    def n_characters(self) -> int:
        """How many there are by now."""
        return self._length

    def document(self, **about: Any) -> ReadDocument:
        """All of it."""
        return ReadDocument(text="".join(self._parts), blocks=tuple(self._blocks), **about)


def checked(read: object, name: str) -> ReadDocument:
    """What a reader returned. Raises if it is nothing of the kind, or has no text."""
    if not isinstance(read, ReadDocument):
        raise InvalidRequestError(f"the reader of {name!r} returned {shown(read)}: no ReadDocument")
    check_text(read.text, f"the text of {name!r}")
    if not read.text or read.text.isspace():
        raise UnreadableDocumentError(f"{name!r} has no text: nothing could be found in it")
    return read

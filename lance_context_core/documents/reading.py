"""The output of a reader: a file's text, and its blocks, pages and headings."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import IO, Any, Literal, Protocol, TypeVar, runtime_checkable

from lance_context_core._util.checks import check_text, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types import Passage

BlockKind = Literal["text", "heading", "whole"]
"""Running text; a heading, which stays with its text; blocks kept whole where they fit."""


@frozen_by_name
class Block:
    """A part of a text with one topic: running text, a heading, a table, code."""

    start: int
    end: int
    """Offsets into the text, in characters."""
    kind: BlockKind = "text"
    page: int | None = None
    """Counted from 1."""
    section: str | None = None
    """The headings above it, outermost first, with ` > ` between them; of a heading, its own."""
    file: str | None = None
    """The path of the file that it stands in, if the document holds files: no passage spans two."""
    header: int = 0
    """How many of its first characters are a table's header: if a chunker cuts the table, each of
    the passages has the header."""


@frozen_by_name
class ReadDocument:
    """The text of a file, and its blocks.

    Raises InvalidRequestError unless the blocks follow each other within the text.
    """

    text: str
    blocks: tuple[Block, ...] = ()
    """Text outside all blocks belongs to no chunk; without blocks, all of it is running text."""
    title: str | None = None
    n_pages: int | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Further properties to store with the document: JSON by key."""

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
        """Reads a file of that name. Raises UnreadableDocumentError without any text."""


@runtime_checkable
class StreamingReader(Reader, Protocol):
    """A reader that holds neither file nor text in memory: `read_parts` is called, not `read`."""

    def read_parts(self, file: IO[bytes], *, name: str) -> Iterator[ReadDocument]:
        """Yields the text of an open file part by part, such as by page, with blocks.

        The document is the concatenation of the parts: the end of one is the start of the next, so
        white space between them is in one of them. For its title, its pages and each of its
        properties the last value counts.
        """


_MOST_OF_A_TITLE = 500
"""The most characters of a heading in the section path; each chunk below is stored with it."""


class Headings:
    """The path of headings above the current position."""

    def __init__(self) -> None:
        """Starts without headings."""
        self._above: list[tuple[int, str]] = []
        self.path: str | None = None
        """The current headings."""

    def enter(self, level: int, title: str) -> None:
        """Enters a heading; level 1 is the outermost."""
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        if title := " ".join(title.split()):
            if len(title) > _MOST_OF_A_TITLE:
                title = f"{title[: _MOST_OF_A_TITLE - 1]}…"
            self._above.append((level, title))
        # Made once: a page may have ten thousand blocks below them, each of which names them.
        self.path = " > ".join(title for _, title in self._above) or None


class Written:
    """A text built of blocks, for readers of files that are not text."""

    def __init__(self) -> None:
        """Starts empty."""
        self._parts: list[str] = []
        self._blocks: list[Block] = []
        self._length = 0
        self._n_before = 0

    def add(
        self,
        text: str,
        *,
        kind: BlockKind = "text",
        page: int | None = None,
        section: str | None = None,
        header: str = "",
    ) -> None:
        """Adds a block, after a blank line; skips a blank one.

        `header` is the start of a table that applies to all of its rows.
        """
        if not (text := text.strip()):
            return
        if self.n_characters:
            self._parts.append("\n\n")
            self._length += 2
        start, self._length = self._length, self._length + len(text)
        self._parts.append(text)
        header = header.strip()
        self._blocks.append(
            Block(
                start=start,
                end=self._length,
                kind=kind,
                page=page,
                section=section,
                header=len(header) if text.startswith(header) else 0,
            )
        )

    @property
    def n_characters(self) -> int:
        """Returns the number of characters so far."""
        return self._n_before + self._length

    def document(self, **about: Any) -> ReadDocument:
        """Returns the whole text as a document."""
        return ReadDocument(text="".join(self._parts), blocks=tuple(self._blocks), **about)

    def part(self, **about: Any) -> ReadDocument:
        """Returns the text added since the last part: see `StreamingReader`."""
        made = self.document(**about)
        self._parts, self._blocks = [], []
        self._n_before, self._length = self.n_characters, 0
        return made


NOTHING_SAID: Mapping[str, Any] = {"title": None, "n_pages": None, "properties": {}}
"""A document's properties before its first part."""


def joined(parts: Iterable[ReadDocument]) -> ReadDocument:
    """Joins the parts of a `StreamingReader` into one document."""
    texts, blocks, at = list[str](), list[Block](), 0
    about = NOTHING_SAID
    for part in parts:
        blocks += (moved(one, at) for one in blocks_of(part))
        texts.append(part.text)
        at += len(part.text)
        about = last_said(about, part)
    return ReadDocument(text="".join(texts), blocks=tuple(blocks), **about)


def blocks_of(part: ReadDocument) -> tuple[Block, ...]:
    """Returns the blocks of a part: the whole part, if it has none and is not blank."""
    if not part.blocks and part.text.strip():
        return (Block(start=0, end=len(part.text)),)
    return part.blocks


Placed = TypeVar("Placed", Block, Passage)


def moved(one: Placed, by: int) -> Placed:
    """Returns the same block, moved so many characters back."""
    return replace(one, start=one.start + by, end=one.end + by)


def last_said(about: Mapping[str, Any], part: ReadDocument) -> dict[str, Any]:
    """Returns a document's properties after one more part."""
    return {
        "title": about["title"] if part.title is None else part.title,
        "n_pages": about["n_pages"] if part.n_pages is None else part.n_pages,
        "properties": {**about["properties"], **part.properties},
    }


def checked(read: object, name: str) -> ReadDocument:
    """Returns a reader's result, or a part of it. Raises if it has another type."""
    if not isinstance(read, ReadDocument):
        raise InvalidRequestError(f"the reader of {name!r} returned {shown(read)}: no ReadDocument")
    check_text(read.text, f"the text of {name!r}")
    return read

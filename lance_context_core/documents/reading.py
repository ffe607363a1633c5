"""What a reader makes of a file: its text, and what stands where in it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import IO, Any, Literal, Protocol, TypeVar, runtime_checkable

from lance_context_core._util.checks import check_text, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types import Passage

BlockKind = Literal["text", "heading", "whole"]
"""Running text; a heading, which stays with what follows; what is kept whole where it fits."""


@frozen_by_name
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
    header: int = 0
    """How many of its first characters are the header of a table: where a chunker cuts it, each of
    the passages has that."""


@frozen_by_name
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


@runtime_checkable
class StreamingReader(Reader, Protocol):
    """A reader that needs neither a file nor its text in memory: `read_parts` is called, not `read`."""

    def read_parts(self, file: IO[bytes], *, name: str) -> Iterator[ReadDocument]:
        """The text of an open file part by part, such as page by page, each with what stands where in it.

        The document is what they say behind each other: the end of one is where the next begins, so
        that white space between them is in one of them. Of its title, its pages and each of its
        properties what was said last counts.
        """


_MOST_OF_A_TITLE = 500
"""So many characters of a heading name what is below it; each chunk there is kept with them."""


class Headings:
    """The headings above what is read, as a path."""

    def __init__(self) -> None:
        """None yet."""
        self._above: list[tuple[int, str]] = []
        self.path: str | None = None
        """The headings that hold here."""

    def enter(self, level: int, title: str) -> None:
        """Come to a heading, 1 being the outermost level."""
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        if title := " ".join(title.split()):
            if len(title) > _MOST_OF_A_TITLE:
                title = f"{title[: _MOST_OF_A_TITLE - 1]}…"
            self._above.append((level, title))
        # Made once: a page may have ten thousand blocks below them, each of which names them.
        self.path = " > ".join(title for _, title in self._above) or None


class Written:
    """A text that is put together of blocks, for readers of what is no text."""

    def __init__(self) -> None:
        """Nothing yet."""
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
        """Add a block, a blank line after the one before; a blank one is left out.

        `header` is what a table begins with that holds for all of its rows.
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
        """How many there are by now."""
        return self._n_before + self._length

    def document(self, **about: Any) -> ReadDocument:
        """All of it."""
        return ReadDocument(text="".join(self._parts), blocks=tuple(self._blocks), **about)

    def part(self, **about: Any) -> ReadDocument:
        """What was added since the last part: see `StreamingReader`."""
        made = self.document(**about)
        self._parts, self._blocks = [], []
        self._n_before, self._length = self.n_characters, 0
        return made


NOTHING_SAID: Mapping[str, Any] = {"title": None, "n_pages": None, "properties": {}}
"""What is known of a document before its first part."""


def joined(parts: Iterable[ReadDocument]) -> ReadDocument:
    """What a `StreamingReader` reads, as one document."""
    texts, blocks, at = list[str](), list[Block](), 0
    about = NOTHING_SAID
    for part in parts:
        blocks += (moved(one, at) for one in blocks_of(part))
        texts.append(part.text)
        at += len(part.text)
        about = last_said(about, part)
    return ReadDocument(text="".join(texts), blocks=tuple(blocks), **about)


def blocks_of(part: ReadDocument) -> tuple[Block, ...]:
    """The blocks of a part: all of it, if it has none and is not blank."""
    if not part.blocks and part.text.strip():
        return (Block(start=0, end=len(part.text)),)
    return part.blocks


Placed = TypeVar("Placed", Block, Passage)


def moved(one: Placed, by: int) -> Placed:
    """The same in a text in which it stands so many characters further back."""
    return replace(one, start=one.start + by, end=one.end + by)


def last_said(about: Mapping[str, Any], part: ReadDocument) -> dict[str, Any]:
    """What is known of a document after one more part."""
    return {
        "title": about["title"] if part.title is None else part.title,
        "n_pages": about["n_pages"] if part.n_pages is None else part.n_pages,
        "properties": {**about["properties"], **part.properties},
    }


def checked(read: object, name: str) -> ReadDocument:
    """What a reader returned, or a part of it. Raises if it is nothing of the kind."""
    if not isinstance(read, ReadDocument):
        raise InvalidRequestError(f"the reader of {name!r} returned {shown(read)}: no ReadDocument")
    check_text(read.text, f"the text of {name!r}")
    return read

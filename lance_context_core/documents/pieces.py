"""Passages for texts that another library cuts, or that are already cut."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

from lance_context_core._util.checks import listed, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.documents.chunking import by_page
from lance_context_core.documents.reading import Block, ReadDocument
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types import Passage


@frozen
class PieceChunker:
    """Cuts passages with `cut`: the splitter of another library, as a `Chunker`.

    Each page, and each stretch of one section, is cut separately. The pieces may overlap, and may
    differ from the text in white space; blank ones are left out. A piece with several possible
    positions starts where the one before it ends, else as near to that as possible.
    """

    cut: Callable[[str], Sequence[str]]
    """Returns the pieces of a text, in the order of the text."""

    def __post_init__(self) -> None:
        if not callable(self.cut):
            raise InvalidRequestError(f"cut={shown(self.cut)}: give a function of a text")

    def split(self, document: ReadDocument) -> list[Passage]:
        """Returns the offsets of the pieces. Raises InvalidRequestError for one not in the text."""
        text = document.text
        return [
            Passage(
                start=block.start + start,
                end=block.start + end,
                page=block.page,
                section=block.section,
            )
            for block in _stretches(document)
            for start, end in self._places(text[block.start : block.end])
        ]

    def split_parts(self, parts: Iterable[ReadDocument]) -> Iterator[Passage]:
        """As `split`, with one page in memory at a time."""
        return by_page(self.split, parts)

    def _places(self, text: str) -> Iterator[tuple[int, int]]:
        """Yields the start and end of each piece, in characters of the text."""
        # Splitters strip and join anew: only characters other than white space are compared.
        offsets = array("L", (at for at, char in enumerate(text) if not char.isspace()))
        solid = "".join(text.split())
        pieces = list[str]()
        for piece in listed(self.cut(text), "what cut returned"):
            if not isinstance(piece, str):
                raise InvalidRequestError(f"cut returned {shown(piece)}: give texts")
            if compact := "".join(piece.split()):
                pieces.append(compact)
        at, end = -1, 0
        for piece, last in zip(pieces, _latest(solid, pieces), strict=True):
            if end <= last and solid.startswith(piece, end):
                at = end
            else:
                # With the smallest overlap with the one before, or the smallest gap.
                before = solid.rfind(piece, at + 1, min(end, last) + len(piece))
                at = before if before >= 0 else solid.find(piece, max(at + 1, end))
            end = at + len(piece)
            yield offsets[at], offsets[end - 1] + 1


@frozen
class BlockChunker:
    """Makes each block a passage: for texts that are already cut."""

    def split(self, document: ReadDocument) -> list[Passage]:
        """Returns the blocks, of any length; the whole text if it has none."""
        whole = (Block(start=0, end=len(document.text)),)
        return [
            Passage(start=one.start, end=one.end, page=one.page, section=one.section)
            for one in document.blocks or whole
        ]

    def split_parts(self, parts: Iterable[ReadDocument]) -> Iterator[Passage]:
        """As `split`, with one page in memory at a time."""
        return by_page(self.split, parts)


def _latest(text: str, pieces: Sequence[str]) -> list[int]:
    """Returns each piece's latest start that lets all later ones start after it."""
    found, limit = list[int](), len(text)
    for piece in reversed(pieces):
        at = text.rfind(piece, 0, limit - 1 + len(piece) if found else limit)
        if at < 0:
            raise InvalidRequestError(
                f"cut returned {shown(piece)}, which the text does not have at its place: give a "
                "splitter that cuts the text in its order and does not rewrite it"
            )
        found.append(at)
        limit = at
    return found[::-1]


def _stretches(document: ReadDocument) -> Iterator[Block]:
    """Returns the blocks, those on the same page and in the same section joined."""
    held: Block | None = None
    for block in document.blocks or (Block(start=0, end=len(document.text)),):
        if held is None:
            held = block
        elif (held.page, held.section) == (block.page, block.section):
            held = Block(start=held.start, end=block.end, page=held.page, section=held.section)
        else:
            yield held
            held = block
    if held is not None:
        yield held

"""Chunkers: cut the text of a document into the passages that are embedded and found."""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.reading import Block, ReadDocument, blocks_of, moved
from lance_context_core.errors import InvalidRequestError
from lance_context_core.types import Passage

# Places to cut a text: blank lines, lines, words, and sentence ends of many scripts.

BLANK_LINE = "\n\n"
SPACED_BLANK_LINE = re.compile(r"\n[^\S\n]+\n")
PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")
LINE_END = re.compile(r"\n\s*")
WORD_END = re.compile(r"\s+")
_SPACED_STOPS, _STOPS = ".!?…؟։۔।॥", "。！？｡．"  # noqa: RUF001 - what they look like is another matter
SENTENCE_END = re.compile(
    # For scripts with a space after a sentence, and those without. The first character is matched
    # separately, so that the regex engine skips all impossible places in C.
    rf"""[{_SPACED_STOPS}{_STOPS}](?:"""
    rf"""(?<=[{_SPACED_STOPS}])[{_SPACED_STOPS}]*["'”’»)\]]*\s+|"""  # noqa: RUF001
    rf"""(?<=[{_STOPS}])[{_STOPS}]*["”’」』）】]*\s*)"""  # noqa: RUF001
)
_ABBREVIATIONS = frozenset(
    [
        "dr",
        "mr",
        "mrs",
        "ms",
        "prof",
        "st",
        "vs",
        "etc",
        "e.g",
        "i.e",
        "cf",
        "no",
        "fig",
        "vol",
        "pp",
        "ca",
        "approx",
        "bzw",
        "z.b",
        "d.h",
        "usw",
        "nr",
        "inc",
        "ltd",
    ]
)
_LAST_WORD = re.compile(r"[\w.]+$")


def is_abbreviation(text: str, stop: int) -> bool:
    """Whether the full stop at `stop` belongs to the word before it."""
    if text[stop] != ".":
        return False
    word = _LAST_WORD.search(text, max(0, stop - 10), stop)
    if word is None:
        return False
    # A single letter is an initial.
    return word[0].lower() in _ABBREVIATIONS or (len(word[0]) == 1 and word[0].isalpha())


@runtime_checkable
class Chunker(Protocol):
    """Cuts a text into passages; called in worker threads, from several at once."""

    def split(self, document: ReadDocument) -> Sequence[Passage]:
        """Returns the offsets of the passages, ordered by start."""


@runtime_checkable
class StreamingChunker(Chunker, Protocol):
    """A chunker that holds only part of a text in memory, by `split_parts`."""

    def split_parts(self, parts: Iterable[ReadDocument]) -> Iterator[Passage]:
        """Returns the passages of `split` for the whole document: see `StreamingReader`."""


@frozen_by_name
class TextChunker:
    """Cuts passages of about `target` at the natural boundaries of the text.

    Files in a file, pages and headings are boundaries. Within them paragraphs are joined up to the target; blocks
    kept whole, such as tables and code, stay so up to `most`. Longer ones are cut between
    sentences, else between lines, words, and at last characters; each part of a cut table
    has the table's header, where both fit into `most`. Every character but the white space
    between passages is in one, and in two only where they overlap. Raises InvalidRequestError
    unless 0 <= overlap < target <= most and 0 <= least <= target.
    """

    target: int = 1500
    """The target size, in the unit of `measure`: by default characters."""
    most: int = 2500
    """The upper bound of a passage; only a single character with a larger measure exceeds it."""
    least: int = 100
    """A heading starts a new passage only after this much text."""
    overlap: int = 200
    """How much of a passage the next one may repeat: whole sentences of its end, on the same page and
    under the same heading."""
    measure: Callable[[str], int] = len
    """Returns the size of a text, such as its tokens; never smaller than a part's."""

    def __post_init__(self) -> None:
        numbers = (self.target, self.most, self.least, self.overlap)
        if any(isinstance(one, bool) or not isinstance(one, int) for one in numbers) or not (
            0 <= self.overlap < self.target <= self.most and 0 <= self.least <= self.target
        ):
            raise InvalidRequestError(
                f"target={shown(self.target)}, most={shown(self.most)}, least={shown(self.least)}, "
                f"overlap={shown(self.overlap)}: give whole numbers, overlap less than target, target "
                "no more than most, least no more than target"
            )
        if not callable(self.measure):
            raise InvalidRequestError(f"measure={shown(self.measure)}: give a function of a text")

    def split(self, document: ReadDocument) -> list[Passage]:
        """Returns the offsets of the passages."""
        return list(_Splitting(self, document.text).passages(document))

    def split_parts(self, parts: Iterable[ReadDocument]) -> Iterator[Passage]:
        """As `split`, with one page in memory at a time."""
        return by_page(self.split, parts)


SMALL_CHUNKS = TextChunker(target=800, most=1200, least=50, overlap=100)
"""For short answers, and embedders with small input limits."""
DEFAULT_CHUNKS = TextChunker()
"""The default chunker."""
LARGE_CHUNKS = TextChunker(target=3000, most=4500, least=200, overlap=300)
"""For answers that need surrounding text."""


class _Unit(NamedTuple):
    """A piece that is not cut further."""

    start: int
    end: int
    block: Block


class _Splitting:
    """The splitting of one text."""

    def __init__(self, settings: TextChunker, text: str) -> None:
        self._settings = settings
        self._text = text
        self._is_counting_characters = settings.measure is len

    def passages(self, document: ReadDocument) -> Iterator[Passage]:
        blocks = document.blocks or (Block(start=0, end=len(self._text)),)
        start, last = 0, None
        for units in self._packed(blocks):
            first, end = units[0], units[-1].end
            start = first.start
            if last is not None and _are_together(last[-1].block, first.block):
                start = self._overlapping(last, first.start, end)
            yield Passage(
                start=start,
                end=end,
                page=first.block.page,
                section=_section(units),
                header=self._header(first, end),
            )
            last = units

    def _header(self, first: _Unit, end: int) -> str | None:
        """Returns the header of the table that a passage continues, if both fit."""
        block = first.block
        if not block.header or first.start < block.start + block.header:
            return None
        header = self._text[block.start : block.start + block.header].rstrip()
        whole = f"{header}\n{self._text[first.start : end]}"
        return header if header and self._settings.measure(whole) <= self._settings.most else None

    # Joining

    def _packed(self, blocks: Sequence[Block]) -> Iterator[list[_Unit]]:
        """Returns the units of each passage."""
        held = list[_Unit]()
        for block in blocks:
            start, end = self._trimmed(block.start, block.end)
            if block.kind == "text" and self._is_counting_characters and self._is_plain(start, end):
                held = yield from self._packed_plain(start, end, block, held)
            else:
                held = yield from self._packed_on(self._units(start, end, block), held)
        if held:
            yield held

    def _packed_plain(
        self, start: int, end: int, block: Block, held: list[_Unit]
    ) -> Generator[list[_Unit], None, list[_Unit]]:
        """As `_packed_on`, for running text: cuts at the last blank line that fits."""
        text, target = self._text, self._settings.target
        while start < end:
            if not held or held[0].block is block:
                limit = (held[0].start if held else start) + target
                if end <= limit:
                    return [*held, _Unit(start, end, block)]
                if border := self._last_paragraph_end(start, limit):
                    held.append(_Unit(start, self._trimmed(start, border)[1], block))
                    start = self._trimmed(border, end)[0]
                    # A part of a longer paragraph may fit.
                    has_end = text.find(BLANK_LINE, start, start + target) >= 0
                    if has_end or end - start <= target:
                        yield held
                        held = []
                    continue
            # A paragraph too long for the target, or after a part of another block.
            border = text.find(BLANK_LINE, start, end)
            stop = end if border < 0 else border
            held = yield from self._packed_on(self._units(start, stop, block), held)
            start = self._trimmed(stop, end)[0]
        return held

    def _last_paragraph_end(self, start: int, limit: int) -> int | None:
        """Returns the last blank line after a paragraph that ends at `limit` at the latest."""
        text = self._text
        # White space at the limit may continue to a blank line.
        while text[limit].isspace() and limit < len(text) - 1:
            limit += 1
        border = text.rfind(BLANK_LINE, start, limit)
        return None if border < 0 else border

    def _packed_on(
        self, units: Iterable[_Unit], held: list[_Unit]
    ) -> Generator[list[_Unit], None, list[_Unit]]:
        """Yields the units of each passage, starting with the held ones; returns those of the last."""
        settings = self._settings
        for unit in units:
            if held:
                is_border = _place(unit.block) != _place(held[-1].block) or (
                    unit.block.kind == "heading"
                    and held[-1].block.kind != "heading"
                    and not self._fits(held[0].start, held[-1].end, settings.least - 1)
                )
                if is_border:
                    yield held
                    held = []
                elif not self._fits(held[0].start, unit.end, settings.target):
                    # A heading stays with the text after it, if possible.
                    n_kept = len(held)
                    while n_kept > 1 and held[n_kept - 1].block.kind == "heading":
                        n_kept -= 1
                    if held[n_kept - 1].block.kind == "heading":
                        n_kept = len(held)
                        # Only headings: the passage may exceed the target.
                        if self._fits(held[0].start, unit.end, settings.most):
                            held.append(unit)
                            continue
                    rest = held[n_kept:]
                    if rest and not self._fits(rest[0].start, unit.end, settings.most):
                        n_kept, rest = len(held), []
                    yield held[:n_kept]
                    held = rest
            held.append(unit)
        return held

    def _overlapping(self, last: Sequence[_Unit], start: int, end: int) -> int:
        """Returns the start of a passage that repeats the end of the one before."""
        settings = self._settings
        if not settings.overlap:
            return start
        # Never the whole passage; and only running text makes sense from the middle on.
        first = last[0].start + 1
        for unit in reversed(last):
            if unit.block.kind != "text" or unit.block.section != last[-1].block.section:
                first = max(first, unit.end)
                break
        is_counting = self._is_counting_characters
        if is_counting:
            first = max(first, start - settings.overlap, end - settings.most)
        # A little earlier, to include the sentence end.
        for match in SENTENCE_END.finditer(self._text, max(0, first - _WIDEST), start):
            border = match.end()
            if not first <= border < start or is_abbreviation(self._text, match.start()):
                continue
            if is_counting or (
                self._fits(border, start, settings.overlap)
                and self._fits(border, end, settings.most)
            ):
                return border
        return start

    # Cutting

    def _is_plain(self, start: int, end: int) -> bool:
        """Whether all blank lines are empty."""
        return SPACED_BLANK_LINE.search(self._text, start, end) is None

    def _units(self, start: int, end: int, block: Block) -> Iterator[_Unit]:
        if start >= end:
            return
        if block.kind != "text":
            if self._fits(start, end, self._settings.most):
                yield _Unit(start, end, block)
            else:
                yield from self._cut(start, end, block, (LINE_END, WORD_END))
            return
        for a, b in self._between(start, end, PARAGRAPH_END):
            if self._fits(a, b, self._settings.target):
                yield _Unit(a, b, block)
            else:
                yield from self._cut(a, b, block, (SENTENCE_END, LINE_END, WORD_END))

    def _cut(
        self, start: int, end: int, block: Block, ways: Sequence[re.Pattern[str]]
    ) -> Iterator[_Unit]:
        """Returns units that fit, cut in the first way that achieves it, else in the next one."""
        if self._fits(start, end, self._settings.target):
            yield _Unit(start, end, block)
        elif not ways:
            yield from self._hard_cut(start, end, block)
        else:
            way, *further = ways
            if self._is_counting_characters:
                for a, b in self._runs(start, end, way):
                    yield from self._cut(a, b, block, further)
                return
            pending: tuple[int, int] | None = None
            for a, b in self._between(start, end, way):
                # Words and lines are joined here already: there may be very many.
                if pending and self._fits(pending[0], b, self._settings.target):
                    pending = (pending[0], b)
                    continue
                if pending:
                    yield from self._cut(*pending, block, further)
                pending = (a, b)
            if pending:
                yield from self._cut(*pending, block, further)

    def _runs(self, start: int, end: int, separator: re.Pattern[str]) -> Iterator[tuple[int, int]]:
        """Yields the parts of `_between`, joined up to the target: cuts at the last separator that fits.

        A part that exceeds the target stays alone.
        """
        target = self._settings.target
        start, end = self._trimmed(start, end)
        while end - start > target:
            limit = start + target
            # Most have a separator near their end; the others are searched completely.
            border = self._last_border(max(start, limit - _NEAR), start, limit, separator)
            border = border or self._last_border(start, start, limit, separator)
            if border is None:
                # A run of separators that the limit cuts in two ends after it.
                found = (one.end() for one in self._matches(separator, limit - _WIDEST, end))
                border = next((one for one in found if one > limit), end)
            a, b = self._trimmed(start, border)
            yield a, b
            start, end = self._trimmed(border, end)
        if start < end:
            yield start, end

    def _last_border(
        self, at: int, start: int, limit: int, separator: re.Pattern[str]
    ) -> int | None:
        """Returns the last separator end between `at` and `limit`, ignoring white space at it."""
        last = None
        for match in self._matches(separator, at, min(limit + _WIDEST, len(self._text))):
            end = self._trimmed(start, match.end())[1]
            if end > limit:
                break
            if end > start:
                last = match.end()
        return last

    def _matches(self, separator: re.Pattern[str], start: int, end: int) -> Iterator[re.Match[str]]:
        """Returns the separators from `start` to `end`, except full stops that end no sentence."""
        for match in separator.finditer(self._text, max(start, 0), end):
            if separator is not SENTENCE_END or not is_abbreviation(self._text, match.start()):
                yield match

    def _hard_cut(self, start: int, end: int, block: Block) -> Iterator[_Unit]:
        while start < end:
            cut, too_far = start + 1, end + 1
            if self._is_counting_characters:
                cut = too_far = min(end, start + self._settings.target)
            while too_far - cut > 1:
                middle = (cut + too_far) // 2
                if self._fits(start, middle, self._settings.target):
                    cut = middle
                else:
                    too_far = middle
            yield _Unit(start, cut, block)
            start = cut

    def _between(
        self, start: int, end: int, separator: re.Pattern[str]
    ) -> Iterator[tuple[int, int]]:
        """Returns the parts between the separators, without surrounding white space."""
        at = start
        for match in separator.finditer(self._text, start, end):
            if separator is SENTENCE_END and is_abbreviation(self._text, match.start()):
                continue
            a, b = self._trimmed(at, match.end())
            at = match.end()
            if a < b:
                yield a, b
        a, b = self._trimmed(at, end)
        if a < b:
            yield a, b

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        text = self._text
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        return start, end

    def _fits(self, start: int, end: int, size: int) -> bool:
        if self._is_counting_characters:
            return end - start <= size
        return self._settings.measure(self._text[start:end]) <= size


def by_page(
    split: Callable[[ReadDocument], Sequence[Passage]], parts: Iterable[ReadDocument]
) -> Iterator[Passage]:
    """Returns the passages of `split` for the joined parts, if it treats each page separately."""
    held, start = _Held("", 0), 0
    for part in parts:
        # Blank text is on no page.
        said = [one for one in blocks_of(part) if part.text[one.start : one.end].strip()]
        if held.place is not None and said and _place(said[0]) != held.place:
            yield from held.passages(split)
            held = held.next()
        held.texts.append(part.text)
        held.blocks += (moved(one, start) for one in blocks_of(part))
        held.place = _place(said[-1]) if said else held.place
        start += len(part.text)
    yield from held.passages(split)


class _Held:
    """The parts on one page, or on several if they start within a part; with some text before."""

    def __init__(self, before: str, start: int) -> None:
        self.texts = [before]
        self.blocks: list[Block] = []
        self.place: tuple[str | None, int | None] | None = None
        """The file and page of the last part."""
        self._start = start

    def passages(self, split: Callable[[ReadDocument], Sequence[Passage]]) -> Iterator[Passage]:
        if not self.blocks:
            return
        blocks = (moved(one, -self._start) for one in self.blocks)
        document = ReadDocument(text="".join(self.texts), blocks=tuple(blocks))
        for one in split(document):
            yield moved(one, self._start)

    def next(self) -> "_Held":
        """Returns the next page's buffer."""
        text = "".join(self.texts)
        before = text[-_WIDEST:]
        return _Held(before, self._start + len(text) - len(before))


_NEAR = 400
"""Most sentences start at most this far before the end of a passage."""
_WIDEST = 40
"""The longest separator in characters, without white space."""


def _section(units: Sequence[_Unit]) -> str | None:
    """Returns a passage's section: the headings of all of it, or of its start and its end."""
    if units[0].block is units[-1].block:  # as most are
        return units[0].block.section
    # A heading without text under it is not the passage's topic.
    blocks = [unit.block for unit in units if unit.block.kind != "heading"]
    sections = [one.section for one in blocks] or [unit.block.section for unit in units]
    first, last = sections[0], sections[-1]
    if first is None or last is None or first == last:
        return first if first == last else None
    if last.startswith(f"{first} > "):
        return first
    return last if first.startswith(f"{last} > ") else f"{first} to {last}"


def _place(block: Block) -> tuple[str | None, int | None]:
    """The file and the page that a block stands on."""
    return block.file, block.page


def _are_together(one: Block, other: Block) -> bool:
    """Whether both blocks' texts may be read in one go."""
    if one is other:
        return one.kind == "text"
    return (_place(one), one.section) == (
        _place(other),
        other.section,
    ) and one.kind == other.kind == "text"

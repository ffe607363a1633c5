"""reStructuredText and AsciiDoc: the text as it is, with its headings."""

import re
from collections.abc import Iterator

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.encodings import decoded
from lance_context_core.documents.readers.text import Encoded
from lance_context_core.documents.reading import Block, Headings, ReadDocument

_SIGNS = re.compile(r"([!-/:-@\[-`{-~])\1+[ \t]*$")
"""A line of one sign over and over: over and under a title of reStructuredText, or between paragraphs."""
_TITLE = re.compile(r"(={1,6})[ \t]+(\S.*?)(?:[ \t]+\1)?[ \t]*$")
_BLOCK = re.compile(r"(-{4,}|\.{4,}|_{4,}|\*{4,}|\+{4,}|/{4,}|`{3,})[ \t]*$")
"""What begins and ends a listing of AsciiDoc, in which nothing is a heading."""


Heading = tuple[int, int, int, str]
"""Where a heading starts and ends, its level, 1 being the outermost, and its title."""


@frozen_by_name
class RstReader(Encoded):
    """Reads reStructuredText. Offsets count in the file itself; the first title is the document's."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """Returns the text as it is, a block a section."""
        text, encoding = decoded(content, name=name, encoding=self.encoding)
        return _in_sections(text, _of_rst(text), encoding)


@frozen_by_name
class AsciidocReader(Encoded):
    """Reads AsciiDoc. Offsets count in the file itself; the first title is the document's."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """Returns the text as it is, a block a section."""
        text, encoding = decoded(content, name=name, encoding=self.encoding)
        return _in_sections(text, _of_asciidoc(text), encoding)


def _in_sections(text: str, found: Iterator[Heading], encoding: str) -> ReadDocument:
    blocks, headings, at = list[Block](), Headings(), 0
    title: str | None = None

    def running(end: int) -> None:
        if text[at:end].strip():
            blocks.append(Block(start=at, end=end, section=headings.path))

    for start, end, level, said in found:
        running(start)
        headings.enter(level, said)
        blocks.append(Block(start=start, end=end, kind="heading", section=headings.path))
        title, at = title or said, end
    running(len(text))
    about = {"encoding": encoding}
    return ReadDocument(text=text, blocks=tuple(blocks), title=title, properties=about)


def _lines(text: str) -> list[tuple[int, str]]:
    lines, at = [], 0
    for line in text.splitlines(keepends=True):
        lines.append((at, line.rstrip("\r\n")))
        at += len(line)
    return [*lines, (at, "")]


def _of_rst(text: str) -> Iterator[Heading]:
    """The titles: a line of text over a line of signs that is as long, perhaps under one, too."""
    lines, levels, index = _lines(text), list[tuple[str, bool]](), 0
    while index < len(lines) - 1:
        start, line = lines[index]
        is_over = bool(_SIGNS.match(line)) and index + 2 < len(lines)
        said = lines[index + 1][1] if is_over else line
        under = lines[index + 1 + is_over][1]
        is_title = (
            bool(said.strip())
            and bool(_SIGNS.match(under))
            and not _SIGNS.match(said)
            and len(under.rstrip()) >= len(said.rstrip())
            and (under.rstrip() == line.rstrip() if is_over else not said[0].isspace())
            and (index == 0 or not lines[index - 1][1].strip() or is_over)
        )
        if not is_title:
            index += 1
            continue
        style = (under[0], is_over)
        if style not in levels:
            levels.append(style)
        index += 2 + is_over
        yield start, lines[index - 1][0] + len(under), levels.index(style) + 1, said.strip()


def _of_asciidoc(text: str) -> Iterator[Heading]:
    """The titles: as many signs of equality as the level."""
    ends = ""
    for start, line in _lines(text):
        if ends:
            ends = "" if line.rstrip() == ends else ends
        elif block := _BLOCK.match(line):
            ends = block[1]
        elif title := _TITLE.match(line):
            yield start, start + len(line), len(title[1]), title[2]

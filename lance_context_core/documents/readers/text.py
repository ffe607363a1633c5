"""Plain text in any encoding, and CSV."""

import re
from collections.abc import Iterator
from itertools import islice

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.encodings import check_encoding, decoded
from lance_context_core.documents.reading import Block, ReadDocument


@frozen_by_name
class Encoded:
    """Reads what is written in an encoding."""

    encoding: str | None = None
    """Found out where it is absent."""

    def __post_init__(self) -> None:
        check_encoding(self.encoding)


@frozen_by_name
class TextReader(Encoded):
    """Reads plain text; the paragraphs are what blank lines part."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The text as it is."""
        text, encoding = decoded(content, name=name, encoding=self.encoding)
        return ReadDocument(text=text, properties={"encoding": encoding})


# Tables as text: a line a row, in which each value stands with the name of its column.

_DELIMITERS = "\t;|,"
"""Those that stand in numbers and sentences come last: of two that fit alike, the first is meant."""
_ROWS_LOOKED_AT = 20
_SAID = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
"""What Excel writes before the rows."""


@frozen_by_name
class CsvReader:
    """Reads CSV, TSV and their like, whose first row names the columns.

    A row becomes the line `name: value; name: value`, so that it can be understood alone, and its
    section is its number in the file, the first row being 1.
    """

    encoding: str | None = None
    delimiter: str | None = None
    """Found out where it is absent: what parts the first rows into as many values as the names."""

    def __post_init__(self) -> None:
        check_encoding(self.encoding)

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The rows, a line each."""
        text, encoding = decoded(content, name=name, encoding=self.encoding)
        said = _SAID.match(text)
        start = said.end() if said else 0
        delimiter = self.delimiter or (said[1] if said else _delimiter(text))
        rows = _rows(text, delimiter, start)
        lines, blocks, at = list[str](), list[Block](), 0
        names = [one.strip() for one in next(rows, [])]
        for number, row in enumerate(rows, 2 + bool(said)):
            line = line_of(names, row)
            if not line:
                continue
            lines.append(line)
            blocks.append(
                Block(start=at, end=at + len(line), kind="whole", section=f"row {number}")
            )
            at += len(line) + 1
        if not lines:  # names without rows are still a text
            return ReadDocument(text=", ".join(names), properties={"encoding": encoding})
        return ReadDocument(
            text="\n".join(lines),
            blocks=tuple(blocks),
            properties={"encoding": encoding, "columns": names, "n_rows": len(lines)},
        )


def _rows(text: str, delimiter: str, start: int = 0) -> Iterator[list[str]]:
    """The values of each row, however long they are; a quote that never ends is a sign like others."""
    mark = re.escape(delimiter)
    value = re.compile(
        rf'(?:"((?:[^"]++|"")*+)"(?=[^"]|$)([^{mark}\r\n]*+)|([^{mark}\r\n]*+))({mark}|\r\n?|\n|$)'
    )
    row, at = list[str](), start
    while at < len(text) or row:
        found = value.match(text, at)
        assert found is not None
        quoted, behind, plain, end = found.groups()
        row.append(plain if quoted is None else quoted.replace('""', '"') + behind)
        at = found.end()
        if end != delimiter:
            yield row
            row = []


def _delimiter(text: str) -> str:
    def fits(delimiter: str) -> tuple[float, int]:
        rows = [row for row in islice(_rows(text, delimiter), _ROWS_LOOKED_AT) if any(row)]
        n_names = len(rows[0]) if rows else 0
        if n_names < 2:
            return 0, 0
        return sum(len(row) == n_names for row in rows) / len(rows), n_names

    return max(_DELIMITERS, key=fits)


def line_of(names: list[str], row: list[str]) -> str:
    """A row, each value with the name of its column."""
    pairs = []
    for index, value in enumerate(row):
        if plain := " ".join(value.split()):
            name = names[index] if index < len(names) else ""
            pairs.append(f"{name}: {plain}" if name else plain)
    return "; ".join(pairs)

"""Plain text in any encoding, and CSV."""

import codecs
import csv
import io
import re

from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.reading import Block, ReadDocument
from lance_context_core.errors import InvalidRequestError, UnreadableDocumentError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LOOKED_AT = 4096
_CONTROLS = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
"""What stands in no text but those of terminals, and in every third byte of anything else."""
_MOST_CONTROLS = 0.01


def check_encoding(encoding: str | None) -> None:
    """Raise InvalidRequestError unless Python knows it."""
    if encoding is None:
        return
    try:
        codecs.lookup(encoding)
    except (LookupError, TypeError) as error:
        raise InvalidRequestError(
            f"encoding={shown(encoding)} is none that Python knows: give one such as 'shift_jis'"
        ) from error


def decoded(content: bytes, *, name: str, encoding: str | None = None) -> tuple[str, str]:
    """The text of some bytes, and the encoding that they are in.

    That is the one that is given, else the one whose mark they begin with, else UTF-8, else what
    the zeros of UTF-16 and UTF-32 tell, else Windows-1252, in which every text of Western Europe
    can be read. Raises UnreadableDocumentError for what is no text.
    """
    used = encoding or _marked(content) or _with_zeros(content)
    if used is None:
        try:
            return _plain(content.decode(), name), "utf-8"
        except UnicodeDecodeError:
            used = "cp1252"
    try:
        return _plain(content.decode(used), name), used
    except (UnicodeDecodeError, UnicodeError) as error:
        if encoding is None and used == "cp1252":
            return _plain(content.decode("latin-1"), name), "latin-1"
        raise UnreadableDocumentError(f"{name!r} is not in {used}: {error}") from error


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


def _marked(content: bytes) -> str | None:
    return next((encoding for mark, encoding in _MARKS if content.startswith(mark)), None)


def _with_zeros(content: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark: where the zeros of its Latin letters stand."""
    head = content[: _LOOKED_AT - _LOOKED_AT % 4]
    if not (n_zeros := head.count(0)) or len(head) < 2:
        return None
    if n_zeros > len(head) * 0.6:
        return "utf-32-le" if head[0] else "utf-32-be"
    if head[1::2].count(0) > len(head) * 0.2 and not head[::2].count(0):
        return "utf-16-le"
    if head[::2].count(0) > len(head) * 0.2 and not head[1::2].count(0):
        return "utf-16-be"
    return None


def _plain(text: str, name: str) -> str:
    n_controls = len(_CONTROLS.findall(text))
    if "\0" in text or n_controls > len(text) * _MOST_CONTROLS:
        raise UnreadableDocumentError(
            f"{name!r} is no text, it is full of control characters: pass type= or a reader= for what "
            "it is"
        )
    return text


# Tables as text: a line a row, in which each value stands with the name of its column.

_DELIMITERS = ",;\t|"


@frozen_by_name
class CsvReader:
    """Reads CSV, TSV and their like, whose first row names the columns.

    A row becomes the line `name: value; name: value`, so that it can be understood by itself, and its
    section is its number in the file, the first row being 1.
    """

    encoding: str | None = None
    delimiter: str | None = None
    """Found out where it is absent: what stands most often in the first line."""

    def __post_init__(self) -> None:
        check_encoding(self.encoding)

    def read(self, content: bytes, *, name: str) -> ReadDocument:
        """The rows, a line each."""
        text, encoding = decoded(content, name=name, encoding=self.encoding)
        first = text[: text.find("\n")] if "\n" in text else text
        delimiter = self.delimiter or max(_DELIMITERS, key=first.count)
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        lines, blocks, at = list[str](), list[Block](), 0
        try:
            names = [one.strip() for one in next(rows, [])]
            for number, row in enumerate(rows, 2):
                line = _line(names, row)
                if not line:
                    continue
                lines.append(line)
                blocks.append(
                    Block(start=at, end=at + len(line), kind="whole", section=f"row {number}")
                )
                at += len(line) + 1
        except csv.Error as error:
            raise UnreadableDocumentError(f"{name!r} is no CSV: {error}") from error
        if not lines:  # names without rows are still a text
            return ReadDocument(text=", ".join(names), properties={"encoding": encoding})
        return ReadDocument(
            text="\n".join(lines),
            blocks=tuple(blocks),
            properties={"encoding": encoding, "columns": names, "n_rows": len(lines)},
        )


def _line(names: list[str], row: list[str]) -> str:
    pairs = []
    for index, value in enumerate(row):
        if plain := " ".join(value.split()):
            name = names[index] if index < len(names) else ""
            pairs.append(f"{name}: {plain}" if name else plain)
    return "; ".join(pairs)

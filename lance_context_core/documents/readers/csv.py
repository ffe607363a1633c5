"""Tables as text: a line a row, in which each value stands with the name of its column."""

import csv
import io

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.readers.text import check_encoding, decoded
from lance_context_core.documents.reading import Block, ReadDocument
from lance_context_core.errors import UnreadableDocumentError

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

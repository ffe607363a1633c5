"""What a command prints: data to stdout, for people or for programs; words to stderr."""

import csv
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from typing import Any, Literal

import click

from lance_context_cli.safe import escaped, shown, shown_in_lines

Format = Literal["people", "json", "jsonl", "csv", "arrow"]


@dataclass(frozen=True, slots=True)
class Line:
    """One thing of a list: its cells for people, and the same for programs."""

    cells: tuple[object, ...]
    plain: object


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command's answer goes, and in which form."""

    format: Format = "people"
    is_local: bool = False
    """Whether moments are told in the time zone of this machine rather than in UTC."""
    arrow: str | None = None
    """The file that a list is written to as Arrow, rather than printed."""

    def rows(self, heading: Sequence[str], lines: Iterable[Line]) -> None:
        """Print a list: a table on a terminal, columns parted by tabs elsewhere."""
        if self.arrow is not None:
            self.table(arrow_of([one.plain for one in lines]))
        elif self.format == "json":
            click.echo(_json([one.plain for one in lines], indent=2))
        elif self.format == "jsonl":
            for one in lines:
                click.echo(_json(one.plain))
        elif self.format == "csv":
            csv_rows(heading, (one.cells for one in lines))
        elif sys.stdout.isatty():
            _table(heading, (self._cells(one) for one in lines))
        else:
            for one in lines:
                click.echo("\t".join(self._cells(one)))

    def fields(self, value: Mapping[str, object]) -> None:
        """Print one thing: a line for each of its fields that has a value, or an object of JSON."""
        if self.arrow is not None:
            raise click.UsageError("--arrow writes lists, and this answer is none: leave it out")
        if self.format == "csv":
            csv_rows([*value], [value.values()])
            return
        if self.format != "people":
            click.echo(_json(value, indent=2 if self.format == "json" else None))
            return
        told = {name: one for name, one in value.items() if one not in (None, "", (), [], {})}
        width = max(map(len, told), default=0)
        for name, one in told.items():
            click.echo(f"{click.style(name.ljust(width), bold=True)}  {self._cell(one)}")

    def table(self, found: Any) -> None:
        """Write a table of Arrow to the file of `--arrow`, and tell a person how much there is."""
        import pyarrow as pa  # Help is told without it.

        with pa.OSFile(self.arrow, "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
            writer.write_table(found)
        self.note(f"{found.num_rows} rows are in {self.arrow}")

    def text(self, text: str) -> None:
        """Print a text that was remembered, in its own lines; nothing for programs."""
        if self.format == "people":
            click.echo(shown_in_lines(text))

    def heading(self, who: str, when: datetime | None) -> None:
        """Print who says what follows, and when."""
        click.echo(f"{click.style(shown(who), bold=True)}  {self._cell(when)}".rstrip())

    def note(self, words: str) -> None:
        """Tell a person something that is no data."""
        click.echo(shown(words), err=True)

    def _cells(self, line: Line) -> list[str]:
        return [self._cell(cell) for cell in line.cells]

    def _cell(self, value: object) -> str:
        if value is None:
            return ""
        if isinstance(value, datetime):
            return self._moment(value)
        if isinstance(value, float):
            return f"{value:.3f}"
        if isinstance(value, str):
            return shown(value)
        if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
            return shown(", ".join(value))
        if isinstance(value, Mapping | list | tuple):
            return shown(_json(value))
        if isinstance(value, bytes):  # Of any kind: nothing of it shall reach a terminal.
            return f"<{len(value)} bytes>"
        return shown(str(value))

    def _moment(self, moment: datetime) -> str:
        if self.is_local:
            return moment.astimezone().isoformat(" ", "seconds")
        return moment.astimezone(UTC).isoformat(" ", "seconds").replace("+00:00", "Z")


def plain(value: Any) -> Any:
    """The value in what JSON knows."""
    from lance_context_core import adapting  # Help is told without it.

    return adapting.plain(value)


def arrow_of(values: Sequence[object]) -> Any:
    """Things of a list as a table: moments stay moments, what is nested is written as JSON."""
    import pyarrow as pa

    rows = [_flat(one) for one in values]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pa.table({name: _column(column) for name, column in columns.items()})


def _column(values: list[object]) -> list[object]:
    """The values if they are of one kind, else each as JSON."""
    kinds = {type(one) for one in values if one is not None}
    if len(kinds) <= 1 and kinds <= {str, bool, int, float, datetime}:
        return values
    return [None if one is None else _json(one) for one in values]


def _flat(value: object) -> Mapping[str, object]:
    names = getattr(value, "__dataclass_fields__", None)
    if names is not None:
        return {name: getattr(value, name) for name in names}
    return value if isinstance(value, Mapping) else {"value": value}


def csv_rows(heading: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print CSV; what a spreadsheet would take for a formula has a quote before it."""
    writer = csv.writer(sys.stdout)
    writer.writerow([_csv_cell(one) for one in heading])
    for row in rows:
        writer.writerow([_csv_cell(one) for one in row])


def _csv_cell(value: object) -> object:
    if isinstance(value, Mapping | list | tuple):
        value = _json(value)
    if isinstance(value, bytes | datetime | date):
        value = plain(value)
    if not isinstance(value, str):
        return value
    return shown("'" + value if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value)


def _json(value: object, *, indent: int | None = None) -> str:
    return escaped(json.dumps(plain(value), ensure_ascii=False, indent=indent, default=str))


_WHOLE = ("id", "job", "created", "since", "updated")
_LONGEST_CELL = 2_000
"""So much of a text is in a table: to break ten million letters into lines takes minutes."""


def _table(heading: Sequence[str], rows: Iterator[list[str]]) -> None:
    """A table as wide as the screen; where it is longer than that, in the user's pager."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for one in heading:  # An id is there to be copied: it is never cut, and other columns wrap.
        table.add_column(one, no_wrap=one in _WHOLE, overflow="fold")
    height = shutil.get_terminal_size().lines - 2

    def add(row: list[str]) -> None:
        cells = zip(heading, row, strict=True)
        table.add_row(*(Text(one if name in _WHOLE else _begun(one)) for name, one in cells))

    first = list(islice(rows, height + 1))
    for row in first:
        add(row)
    if len(first) <= height:
        console.print(table)
        return
    for row in rows:
        add(row)
    with console.pager(styles=not console.no_color):
        console.print(table)


def _begun(text: str) -> str:
    n_more = len(text) - _LONGEST_CELL
    return text if n_more <= 0 else f"{text[:_LONGEST_CELL]}… ({n_more:,} more characters)"

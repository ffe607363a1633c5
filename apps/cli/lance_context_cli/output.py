"""What a command prints: data to stdout, for people or for programs; words to stderr."""

import csv
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal

import click

from lance_context_cli.ids import shortened
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
    names: tuple[str, ...] = ()
    """The columns or fields that are printed, in this order; all, if empty."""
    width: int | None = None
    """How wide a table is; as wide as the screen, if None."""
    is_whole: bool = False
    """Whether long texts are printed to their end where columns are parted by tabs."""
    is_screen: bool = False
    """Whether a person reads it: on a terminal, through a pager or not."""

    def rows(self, heading: Sequence[str], lines: Iterable[Line]) -> None:
        """Print a list: a table on a terminal, columns parted by tabs elsewhere."""
        if self.names:
            heading, lines = self._chosen(heading, lines)
        if self.arrow is not None:
            self.table(arrow_of([one.plain for one in lines]))
        elif self.format == "json":
            click.echo(_json([one.plain for one in lines], indent=2))
        elif self.format == "jsonl":
            for one in lines:
                click.echo(_json(one.plain))
        elif self.format == "csv":
            csv_rows(heading, (one.cells for one in lines))
        elif self.is_screen or self.width is not None:
            self._table(heading, [one.cells for one in lines])
        else:
            for one in lines:
                cells = self._cells(one)
                click.echo("\t".join(cells if self.is_whole else map(_first_of, cells)))

    def _chosen(
        self, heading: Sequence[str], lines: Iterable[Line]
    ) -> tuple[Sequence[str], Iterable[Line]]:
        """The columns, and of what programs read the fields, that were asked for."""
        is_of_fields = self.format in ("json", "jsonl", "arrow")
        if not is_of_fields:
            if unknown := [name for name in self.names if name not in heading]:
                raise _no_such(unknown, heading)
            places = [[*heading].index(name) for name in self.names]
            return self.names, (
                Line(tuple(one.cells[place] for place in places), one.plain) for one in lines
            )
        return heading, (Line(one.cells, self._fields_of(one.plain)) for one in lines)

    def _fields_of(self, value: object) -> dict[str, object]:
        fields = _flat(value)
        if unknown := [name for name in self.names if name not in fields]:
            raise _no_such(unknown, [*fields])
        return {name: fields[name] for name in self.names}

    def _table(self, heading: Sequence[str], rows: Sequence[tuple[object, ...]]) -> None:
        ids = (one for row in rows for name, cell in zip(heading, row, strict=True)
               if name in _IDS for one in (cell if isinstance(cell, list | tuple) else [cell]))  # fmt: skip
        short = shortened(one for one in ids if isinstance(one, str))
        cells = [
            [self._short(name, cell, short) for name, cell in zip(heading, row, strict=True)]
            for row in rows
        ]
        width = self.width or shutil.get_terminal_size().columns
        kept = heading if self.names else fitting(heading, cells, width)
        if left_out := [one for one in heading if one not in kept]:
            self.note(
                f"left out, for want of room: {', '.join(left_out)}; see --fields and --width"
            )
        places = [place for place, name in enumerate(heading) if name in kept]
        _printed(
            [heading[place] for place in places],
            [[row[place] for place in places] for row in cells],
            width,
            is_screen=self.is_screen,
        )

    def _short(self, name: str, cell: object, short: Mapping[str, str]) -> str:
        if name in _IDS and isinstance(cell, list | tuple):
            return shown(", ".join(short.get(str(one), str(one)) for one in cell))
        if name in _IDS and isinstance(cell, str):
            return shown(short[cell])
        if isinstance(cell, datetime):
            there = cell.astimezone(None if self.is_local else UTC)
            return f"{there:%Y-%m-%d %H:%M}{'' if self.is_local else 'Z'}"
        return self._cell(cell)

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
    sys.stdout.flush()


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


_IDS = ("id", "job", "session", "turns", "ids")
_WHOLE = ("id", "job", "created", "since", "updated", "at", "score", "kind", "messages", "version")
"""The columns that are never broken into lines; the others wrap between words."""
_GIVING_WAY = ("turns", "agent", "who", "kind", "attempts", "created", "updated", "since")
"""The columns that are left out of a table that is too wide, in this order."""
_NARROWEST = 16
_GAP = 2
"""So wide is a column of texts at least, if its texts are."""
_LONGEST_CELL = 2_000
"""So much of a text is in a table: to break ten million letters into lines takes minutes."""
_LONGEST_PIECE = 200
"""So much of a text is on a line whose columns are parted by tabs."""


def fitting(heading: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The columns that a table of this width has: those that give way are left out, one by one."""
    needed = dict(zip(heading, _needed(heading, rows), strict=True))
    for name in _GIVING_WAY:
        if sum(needed.values()) - _GAP <= width:
            break
        needed.pop(name, None)
    return [*needed]


def _needed(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column is at least, with the gap behind it."""
    from rich.cells import cell_len  # Help is told without it.

    needed = []
    for place, name in enumerate(heading):
        longest = max((cell_len(row[place][:_LONGEST_CELL]) for row in rows), default=0)
        own = longest if name in _WHOLE else min(longest, _NARROWEST)
        needed.append(max(own, cell_len(name)) + _GAP)
    return needed


def _printed(
    heading: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, is_screen: bool
) -> None:
    """A table, with colours where a person reads it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(
        highlight=False, markup=False, emoji=False, width=width, force_terminal=is_screen
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    least = [one - _GAP for one in _needed(heading, rows)]
    for place, name in enumerate(heading):
        is_whole = name in _WHOLE
        table.add_column(
            name,
            no_wrap=is_whole,
            overflow="fold",
            min_width=None
            if is_whole or sum(least) + _GAP * (len(least) - 1) > width
            else least[place],
        )
    for row in rows:
        table.add_row(*(Text(_begun(cell)) for cell in row))
    with console.capture() as printed:  # On a pipe that is closed, rich would end the process.
        console.print(table)
    click.echo(printed.get(), nl=False)


def _no_such(unknown: Sequence[str], known: Sequence[str]) -> click.UsageError:
    named = ", ".join(filter(None, known))
    return click.UsageError(f"--fields {', '.join(unknown)}: there are {named}")


def _first_of(text: str) -> str:
    return text if len(text) <= _LONGEST_PIECE else f"{text[:_LONGEST_PIECE]}…"


def _begun(text: str) -> str:
    n_more = len(text) - _LONGEST_CELL
    return text if n_more <= 0 else f"{text[:_LONGEST_CELL]}… ({n_more:,} more characters)"

"""Lists that are filtered, sorted and paged by their columns, all of it in the address."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lance_context_core.errors import InvalidRequestError
from lance_context_inspector.page import Part
from lance_context_inspector.view import View


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list."""

    name: str
    """The name in the address, as in `sort=name` or `sort=-name`, and in the heading."""
    value: Callable[[Any], Any]
    """Returns the value of a row: a text, a number, a moment, or None."""
    is_filter: bool = False
    """Whether `name=text` keeps the rows whose value contains that text, ignoring case."""
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """A part of a list, and how it was filtered and sorted."""

    part: Part[Any]
    columns: Sequence[Column]
    sort: str
    """The column, with a minus sign if the largest comes first."""
    filters: dict[str, str]
    total: int

    def next_sort(self, column: Column) -> str:
        """The order after a click on the heading: numbers and moments begin with the largest."""
        return f"-{column.name}" if self.sort == column.name else column.name

    def order(self, column: Column) -> str | None:
        """`ascending` or `descending`, if the list is sorted by this column."""
        if self.sort.removeprefix("-") != column.name:
            return None
        return "descending" if self.sort.startswith("-") else "ascending"


def listing(
    view: View, rows: Sequence[Any], columns: Sequence[Column], *, sort: str, size: int
) -> Listing:
    """The part of `rows` that an address asks for: `sort` where it names no order.

    Rows without a value come last in either order. Raises InvalidRequestError for an unknown column.
    """
    asked = asked_sort(view, columns, sort)
    filters = asked_filters(view, columns)
    by = {one.name: one for one in columns}
    kept = [
        row
        for row in rows
        if all(_has(by[name].value(row), text) for name, text in filters.items())
    ]
    of = by[asked.removeprefix("-")].value
    is_down = asked.startswith("-")
    with_value = [row for row in kept if of(row) is not None]
    without = [row for row in kept if of(row) is None]
    ordered = sorted(with_value, key=lambda row: _comparable(of(row)), reverse=is_down) + without
    number = view.number("page", 1, most=1_000_000)
    part = Part.of(ordered[(number - 1) * size :], number, size)
    return Listing(part, columns, asked, filters, len(kept))


def asked_sort(view: View, columns: Sequence[Column], usual: str) -> str:
    """The order of the address. Raises InvalidRequestError for an unknown column."""
    asked = view.params.get("sort") or usual
    names = [one.name for one in columns]
    if asked.removeprefix("-") not in names:
        raise InvalidRequestError(f"sort={asked[:80]!r}: sort by {', '.join(names)}")
    return asked


def asked_filters(view: View, columns: Sequence[Column]) -> dict[str, str]:
    """The filters of the address, by column."""
    return {
        one.name: text for one in columns if one.is_filter and (text := view.params.get(one.name))
    }


def is_plain(view: View, columns: Sequence[Column]) -> bool:
    """Whether an address asks for the usual order of all rows."""
    return not view.params.get("sort") and not asked_filters(view, columns)


def _has(value: object, text: str) -> bool:
    return value is not None and text.casefold() in str(value).casefold()


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return value.casefold()
    return value.timestamp() if isinstance(value, datetime) else value

"""Quoting, and the small clauses that conditions are put together from.

A clause that is NULL for a row does not match it. Join clauses with `all_of` and `any_of`, and never
negate one by NOT alone: the negation of NULL does not match either.
"""

from collections.abc import Iterable
from datetime import datetime

from lance_context_core._checks import (
    check_text,
    check_time,
    shown,
)
from lance_context_core.errors import InvalidRequestError

EVERYTHING = "true"
NOTHING = "false"
SIGNS = {"eq": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
"""The operators of `Comparison`, as SQL."""


def quote_identifier(name: str) -> str:
    """A column's name, as SQL. Raises InvalidRequestError for one that no table can have."""
    if not name or "`" in name or "." in name:
        raise InvalidRequestError(f"{shown(name)} cannot be the name of a column")
    return f"`{check_text(name, 'the name of a column')}`"


def quote_string(text: str) -> str:
    """A text, as SQL: any but one with a lone surrogate; NULs and backslashes mean themselves."""
    return "'" + check_text(text, "a text in a condition").replace("'", "''") + "'"


def timestamp(moment: datetime) -> str:
    """An instant, as SQL; raises InvalidRequestError if it has no time zone."""
    utc = check_time(moment, "a time in a condition").replace(tzinfo=None)
    return f"timestamp '{utc.isoformat(sep=' ', timespec='microseconds')}'"


def literal(value: str | int | datetime) -> str:
    """A text, an integer or an instant, as SQL."""
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, str):
        return quote_string(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    raise InvalidRequestError(f"{shown(value)} cannot stand in a condition on a column")


def equals(column: str, value: str | int | datetime | None) -> str:
    """That `column` is `value`, or is absent if that is None."""
    name = quote_identifier(column)
    return f"{name} IS NULL" if value is None else f"{name} = {literal(value)}"


def in_list(column: str, values: Iterable[str | int | datetime]) -> str:
    """That `column` is one of `values`, of which there may be many thousands, or none."""
    listed = ", ".join(literal(value) for value in values)
    return f"{quote_identifier(column)} IN ({listed})" if listed else NOTHING


def all_of(clauses: Iterable[str]) -> str:
    """That all of `clauses` hold; the empty clause, which restricts nothing, if there are none."""
    return _joined(" AND ", [clause for clause in clauses if clause])


def any_of(clauses: Iterable[str]) -> str:
    """That at least one of `clauses` holds; none of none does."""
    return _joined(" OR ", list(clauses)) or NOTHING


def _joined(word: str, clauses: list[str]) -> str:
    return clauses[0] if len(clauses) == 1 else word.join(f"({clause})" for clause in clauses)

"""Clauses about a column with lists of texts; a null is an empty list."""

from collections.abc import Callable, Iterable, Sequence

from lance_context_core.engine.sql.clauses import (
    EVERYTHING,
    NOTHING,
    Clause,
    quote_identifier,
    quote_string,
)


def is_empty(column: str) -> Clause:
    """That nothing is in the list."""
    text = f"coalesce(array_length({quote_identifier(column)}), 0) = 0"
    return Clause(text, lambda row: not row.get(column))


def is_not_empty(column: str) -> Clause:
    """That something is in the list."""
    text = f"array_length({quote_identifier(column)}) > 0"
    return Clause(text, lambda row: bool(row.get(column)))


def is_list(column: str, texts: Sequence[str]) -> Clause:
    """That the list holds these texts in this order, of which there is at least one."""
    wanted = list(texts)
    return Clause(
        f"{quote_identifier(column)} = {_array(wanted)}",
        lambda row: (found := row.get(column)) is not None and list(found) == wanted,
    )


def has_element(column: str, text: str) -> Clause:
    """That `text` is in the list."""
    return Clause(
        f"array_has({quote_identifier(column)}, {quote_string(text)})",
        lambda row: text in (row.get(column) or ()),
    )


def has_any(column: str, texts: Sequence[str]) -> Clause:
    """That at least one of `texts` is in the list."""
    return _compared(
        column, "array_has_any", texts, lambda wanted, found: not wanted.isdisjoint(found), NOTHING
    )


def has_all(column: str, texts: Sequence[str]) -> Clause:
    """That all of `texts` are in the list; none are in every one."""
    return _compared(column, "array_has_all", texts, frozenset.issubset, EVERYTHING)


def _compared(
    column: str,
    function: str,
    texts: Sequence[str],
    holds: Callable[[frozenset[str], Iterable[str]], bool],
    without: Clause,
) -> Clause:
    """The engine's function of a list and of texts, and what it is here; `without` any texts it is known."""
    if not texts:
        return without
    wanted = frozenset(texts)
    return Clause(
        f"{function}({quote_identifier(column)}, {_array(texts)})",
        lambda row: holds(wanted, row.get(column) or ()),
    )


def _array(texts: Iterable[str]) -> str:
    return f"make_array({', '.join(map(quote_string, texts))})"

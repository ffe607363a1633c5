"""What was found, each row once: who said it, when, and what was said before."""

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, NamedTuple

import numpy as np

from lance_context_core.engine.schema import KEY
from lance_context_core.engine.table.found import Found
from lance_context_core.hot.answering import joined
from lance_context_core.hot.block import LINK
from lance_context_core.search.boosts import (
    Boost,
    Neighbours,
    Period,
    Preceding,
    Recency,
    Role,
    Speaker,
    Turn,
)
from lance_context_core.search.candidates import Candidates

_TURN = Turn._fields
"""What is read of a candidate for a boost of which is not known what it asks for."""

_ASKED: Mapping[type, Sequence[str]] = {
    Neighbours: (),
    Preceding: ("text",),
    Speaker: ("name",),
    Role: ("role",),
    Recency: ("created_at",),
    Period: ("created_at",),
}
"""And for those that are known."""

OURS = tuple(_ASKED)
"""The boosts of this package."""


class Placed(NamedTuple):
    """All rows that were found, each once, in the order of writing."""

    candidates: Candidates
    numbers: Sequence[np.ndarray]
    """Which candidates the rows of each query are."""


def placed(found: Sequence[Found], boosts: Sequence[Boost]) -> Placed:
    """The rows as candidates, of which is known what the boosts may ask for."""
    asked = asked_by(boosts)
    if (known := joined(found)) is not None:
        listed, parts, rows = known.ids, known.parts, known.rows
        previous = known.previous

        def column(name: str) -> Sequence[Any]:
            return [row.get(name) for row in rows]

    else:
        listed, parts = _listed(found)
        some = [(part.tolist(), one) for part, one in zip(parts, found, strict=True)]
        previous = _previous(some, len(listed), boosts)

        def column(name: str) -> Sequence[Any]:
            return _column(some, name, len(listed))

    def told(name: str) -> Sequence[Any]:
        if name not in asked:
            return [None] * len(listed)
        if name == "created_at":
            return [one and one.replace(tzinfo=UTC) for one in column(name)]
        return column(name)

    return Placed(Candidates(listed, previous, told), parts)


def asked_by(boosts: Sequence[Boost]) -> list[str]:
    """What of a turn the boosts may ask for."""
    asked = {name for one in boosts for name in _ASKED.get(type(one), _TURN)}
    return [name for name in _TURN if name in asked]


def _listed(found: Sequence[Found]) -> tuple[list[int], list[np.ndarray]]:
    """The ids of the rows, each once, rising; and which of them each query found."""
    each = [np.array(one.ids, np.uint64) for one in found]
    ids, numbers = np.unique(np.concatenate(each), return_inverse=True)
    ends = np.cumsum([len(one) for one in each])[:-1]
    return ids.tolist(), np.split(numbers, ends)


def _column(rows: Sequence[tuple[Sequence[int], Found]], name: str, n: int) -> list[Any]:
    values: list[Any] = [None] * n
    for numbers, some in rows:
        for number, value in zip(numbers, some.column(name), strict=True):
            values[number] = value
    return values


def _previous(
    rows: Sequence[tuple[Sequence[int], Found]], n: int, boosts: Sequence[Boost]
) -> np.ndarray:
    """The number of the turn before each, if that is a candidate, too; else -1."""
    if not boosts:
        return np.full(n, -1)
    known = {key: number for number, key in enumerate(_column(rows, KEY, n))}
    return np.array([known.get(link, -1) for link in _column(rows, LINK, n)], np.int64)

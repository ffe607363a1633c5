"""Candidates: each found row once, by number, in the order of writing, as arrays."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lance_context_core.errors import InvalidRequestError
from lance_context_core.memory_index.segment_search import joined
from lance_context_core.search.boosts import (
    Boost,
    Candidate,
    Neighbours,
    Period,
    Preceding,
    Questions,
    Recency,
    Role,
    Speaker,
    Turn,
)
from lance_context_core.storage.lance.reads import Found
from lance_context_core.storage.lance.schema import KEY, LINK
from lance_context_core.types import ChannelScore

_TURN = Turn._fields
"""The fields read for an unknown boost."""

_ASKED: Mapping[type, Sequence[str]] = {
    Neighbours: (),
    Preceding: ("text",),
    Speaker: ("name",),
    Questions: ("name", "role", "text"),
    Role: ("role",),
    Recency: ("created_at",),
    Period: ("created_at",),
}
"""The fields read for known boosts."""

OURS = tuple(_ASKED)
"""The boosts of this package."""

_NOWHERE = -np.inf

_key = "{:020}".format
"""The row id as a fixed-length text, which sorts in the order of writing."""


class Channel:
    """The scores of one channel: arrays over all candidates, by number."""

    def __init__(
        self,
        candidates: "Candidates",
        numbers: np.ndarray,
        raw: np.ndarray,
        *,
        highest: float = 1.0,
    ) -> None:
        """Create it for the `candidates` with these numbers; the best is normalised to `highest`.

        Raises InvalidRequestError for a score that is not finite.
        """
        self.low = self.high = 0.0
        if len(raw):
            self.low, self.high = float(np.minimum.reduce(raw)), float(np.maximum.reduce(raw))
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            place = int(np.argmin(np.isfinite(raw)))
            key, score = candidates.keys[numbers[place]], float(raw[place])
            raise InvalidRequestError(
                f"the raw score of {key!r:.80} is {score!r}: it must be finite"
            )
        self.numbers = numbers
        """The candidates that it found, in its own order."""
        self.raw = np.full(len(candidates), _NOWHERE)
        """Cosines, or BM25; below all numbers for candidates that it did not find."""
        self.raw[numbers] = raw
        self.highest = highest
        self.normalised = np.zeros(len(candidates))
        """Min-max over its own candidates, all of them `highest` if equal; 0 for others."""
        self.normalised[numbers] = highest * self.shares(raw)
        self._whole: Channel | None = None
        """The channel of which this is a part, and whose ranks it uses."""

    @cached_property
    def has(self) -> np.ndarray:
        """Whether it found each candidate."""
        found: np.ndarray = self.raw > _NOWHERE
        return found

    @cached_property
    def ranks(self) -> np.ndarray:
        """1 + the number of candidates with higher scores, for each that it found."""
        return self._ranks(self.raw) if self._whole is None else self._whole.ranks

    def shares(self, raw: np.ndarray) -> np.ndarray:
        """Scale the scores to (score - lowest) / (highest - lowest); 1 if equal."""
        if self.high == self.low:
            return np.ones(len(raw))
        shares: np.ndarray = (raw - self.low) / (self.high - self.low)
        return shares

    def scores(self, numbers: np.ndarray) -> list[ChannelScore | None]:
        """Return its scores of these candidates; None for those that it did not find."""
        raw = self.raw[numbers]
        ranks = self._ranks(raw) if self._whole is None else self.ranks[numbers]
        said = zip(raw.tolist(), self.normalised[numbers].tolist(), ranks.tolist(), strict=True)
        return [
            None if one == _NOWHERE else ChannelScore(raw=one, normalised=normalised, rank=rank)
            for one, normalised, rank in said
        ]

    def by_key(self, keys: Sequence[str]) -> dict[str, ChannelScore]:
        """Return its scores by key, in its own order."""
        said = zip(self.numbers.tolist(), self.scores(self.numbers), strict=True)
        return {keys[number]: score for number, score in said if score is not None}

    def by_own_words(self, own: np.ndarray) -> "Channel":
        """Return the channel of candidates with own words, scored by these alone."""
        alone: Channel = object.__new__(Channel)
        there = self.numbers[own[self.numbers] > 0]
        alone.numbers, alone._whole = there, self
        alone.highest, alone.low, alone.high = self.highest, self.low, self.high
        alone.raw, alone.normalised = np.full_like(self.raw, _NOWHERE), np.zeros(len(self.raw))
        alone.raw[there] = self.raw[there]
        shares = self.highest * np.maximum(0.0, self.shares(own[there]))
        alone.normalised[there] = np.minimum(self.normalised[there], shares)
        return alone

    def _ranks(self, raw: np.ndarray) -> np.ndarray:
        order = self.raw[self.numbers]
        order.sort()
        ranks: np.ndarray = 1 + len(order) - order.searchsorted(raw, side="right")
        return ranks


class Candidates:
    """All possible hits: rows that a channel found, and turns that neither did."""

    def __init__(
        self,
        ids: Sequence[int],
        previous: np.ndarray,
        told: Callable[[str], Sequence[Any]],
        *,
        key: Callable[[int], str] = _key,
    ) -> None:
        """Create it for rows with these ascending ids; `previous` has the previous turns' numbers.

        `previous` is -1 without a previous turn. `told` returns the values of a field of `Turn`,
        None if unknown. `key` maps an id to the key for fusions and boosts.
        """
        self.ids = ids
        self._key = key
        self.previous = previous
        self._told = told

    def __len__(self) -> int:
        return len(self.previous)

    @cached_property
    def keys(self) -> Sequence[str]:
        """The keys for fusions and boosts."""
        return [*map(self._key, self.ids)]

    def told(self, name: str) -> Sequence[Any]:
        """Return the values of a field of `Turn`."""
        return self._told(name)

    def without(self, gone: np.ndarray) -> "Candidates":
        """Return a copy in which the `gone` ones have no neighbours."""
        before = np.where(gone | gone[self.previous], -1, self.previous)
        return Candidates(self.ids, before, self._told, key=self._key)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The numbers by key."""
        return {key: number for number, key in enumerate(self.keys)}

    def by_key(
        self, scores: np.ndarray, vector: Channel, text: Channel, among: np.ndarray
    ) -> dict[str, Candidate]:
        """Return those of `among` with all scores, as passed to boosts."""
        keys, previous = self.keys, self.previous.tolist()
        turns = map(Turn, *map(self._told, Turn._fields))
        said = (one.scores(np.arange(len(self))) for one in (vector, text))
        seen = zip(keys, among.tolist(), scores.tolist(), *said, turns, previous, strict=True)
        return {
            key: Candidate(
                score, near, matching, turn, keys[before] if before >= 0 and among[before] else None
            )
            for key, is_among, score, near, matching, turn, before in seen
            if is_among
        }


class Placed(NamedTuple):
    """All found rows, each once, in the order of writing."""

    candidates: Candidates
    numbers: Sequence[np.ndarray]
    """The candidates of each query's rows."""


def placed(found: Sequence[Found], boosts: Sequence[Boost]) -> Placed:
    """Return the rows as candidates, with the fields that the boosts may read."""
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
    """Return the fields of a turn that the boosts may read."""
    asked = {name for one in boosts for name in _ASKED.get(type(one), _TURN)}
    return [name for name in _TURN if name in asked]


def _listed(found: Sequence[Found]) -> tuple[list[int], list[np.ndarray]]:
    """Return the unique row ids, ascending; and the indexes of each query's rows."""
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
    """Return the number of each candidate's previous turn, if it is a candidate; else -1."""
    if not boosts:
        return np.full(n, -1)
    known = {key: number for number, key in enumerate(_column(rows, KEY, n))}
    return np.array([known.get(link, -1) for link in _column(rows, LINK, n)], np.int64)

"""Caches all hashes of a document store at one version, for callers that ask one by one."""

from collections.abc import Mapping
from typing import NamedTuple

from lance_context_core.adapting import emptied_with_stores

_ITEMS_PER_QUESTION = 500
"""Earlier questions for each hash that make one read of all worth its cost."""

_MAX_ITEMS = 250_000
"""Some 50 MB; more hashes are read one by one."""


class _Asked(NamedTuple):
    version: int
    n_questions: int
    n_items: int | None


class _Known(NamedTuple):
    version: int
    hashes: Mapping[str, str]


class KnownHashes:
    """The hashes read at one version of the items, and the number of questions at that version.

    A pipeline asks for the hash of each document, one by one. The first few are read singly; then
    all are read together, once that costs little more than the reads so far. They are valid at that
    version of the items, which each question reads first, so another process's write is seen as
    soon as by any other read.
    """

    def __init__(self) -> None:
        # Each is replaced as a whole, so any number of threads may ask.
        self._known = _Known(-1, {})
        self._asked = _Asked(-1, 0, None)
        emptied_with_stores(self)

    def empty(self) -> None:
        """Clears the cache."""
        self._known = _Known(-1, {})

    def at(self, version: int) -> Mapping[str, str] | None:
        """All hashes, if they were read at this version."""
        known = self._known
        return known.hashes if known.version == version else None

    def ask(self, version: int) -> bool:
        """Counts a question at this version; returns whether the number of items is needed."""
        asked = self._asked
        if asked.version != version:
            asked = _Asked(version, 0, None)
        self._asked = asked._replace(n_questions=asked.n_questions + 1)
        return asked.n_questions > 0 and asked.n_items is None

    def count(self, version: int, n_items: int) -> None:
        """Sets the number of items at this version."""
        if self._asked.version == version:
            self._asked = self._asked._replace(n_items=n_items)

    def should_read_all(self, version: int) -> bool:
        """Whether all hashes are worth reading together now."""
        asked = self._asked
        return (
            asked.version == version
            and asked.n_items is not None
            and asked.n_items <= min(_MAX_ITEMS, asked.n_questions * _ITEMS_PER_QUESTION)
        )

    def keep(self, version: int, hashes: Mapping[str, str]) -> None:
        """Sets all hashes at this version, or a later one."""
        self._known = _Known(version, hashes)

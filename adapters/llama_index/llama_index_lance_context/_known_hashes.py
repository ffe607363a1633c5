"""All hashes of a document store, kept while it stays as it is, for who asks for one after the other."""

from collections.abc import Mapping
from typing import NamedTuple

from lance_context_core.adapting import emptied_with_stores

_ITEMS_PER_QUESTION = 500
"""Reading so many hashes together is worth it for each question that was asked before."""

_MAX_ITEMS = 250_000
"""Some 50 MB; more hashes are looked up one by one."""


class _Asked(NamedTuple):
    version: int
    n_questions: int
    n_items: int | None


class _Known(NamedTuple):
    version: int
    hashes: Mapping[str, str]


class KnownHashes:
    """What was read at one version of the items, and how often it was asked for at that version.

    A pipeline asks for the hash of each of its documents, one by one. The first few are looked up;
    then all are read together, as soon as that costs not much more than looking up what has been
    asked for already. They hold as long as the items' version, which anyone who asks has just read:
    what any process has written is seen as soon as in any other read.
    """

    def __init__(self) -> None:
        # Each is replaced as a whole: any number of threads may ask.
        self._known = _Known(-1, {})
        self._asked = _Asked(-1, 0, None)
        emptied_with_stores(self)

    def empty(self) -> None:
        """Know no hashes."""
        self._known = _Known(-1, {})

    def at(self, version: int) -> Mapping[str, str] | None:
        """All hashes, if they were read at this version."""
        known = self._known
        return known.hashes if known.version == version else None

    def ask(self, version: int) -> bool:
        """Count a question at this version; returns whether one should know how many items there are."""
        asked = self._asked
        if asked.version != version:
            asked = _Asked(version, 0, None)
        self._asked = asked._replace(n_questions=asked.n_questions + 1)
        return asked.n_questions > 0 and asked.n_items is None

    def count(self, version: int, n_items: int) -> None:
        """At this version there are so many items."""
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
        """These are all hashes at this version, or at a later one."""
        self._known = _Known(version, hashes)

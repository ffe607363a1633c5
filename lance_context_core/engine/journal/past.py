"""What was seen of the journal lately: who reads a page by its ids has it after it was folded, too."""

from collections import OrderedDict
from collections.abc import Iterable

from lance_context_core.engine.journal.entries import Entry
from lance_context_core.engine.journal.statements import Part

MOST_PAST = 2048
_MOST_BYTES = 4 * 1024 * 1024
"""How much is remembered of what is folded, of all tables together."""

_MOST_KEYS = 16 * 1024
"""How many more are known by their keys alone."""


class Past:
    """The entries, until there are too many; of others their keys."""

    def __init__(self) -> None:
        """None yet."""
        self._entries: OrderedDict[tuple[Part, int], Entry] = OrderedDict()
        self._n_bytes = 0
        self._keys: OrderedDict[tuple[Part, int], str] = OrderedDict()

    def find(self, part: Part, seq: int) -> Entry | str | None:
        """The entry; its key if that is all that is left of it."""
        return self._entries.get((part, seq)) or self._keys.get((part, seq))

    def reduce(self, part: Part) -> None:
        """Leave nothing but the keys of what was seen of a table: the rest may be erased by now."""
        for place in [place for place in self._entries if place[0] == part]:
            entry = self._entries.pop(place)
            self._n_bytes -= entry.size
            self._keys[place] = entry.key

    def reduce_all(self) -> None:
        """As `reduce`, of every table."""
        for part in {part for part, _ in self._entries}:
            self.reduce(part)

    def add(self, part: Part, entries: Iterable[Entry]) -> None:
        """Have seen these of a table."""
        for entry in entries:
            former = self._entries.pop((part, entry.seq), None)
            self._n_bytes += entry.size - (former.size if former else 0)
            self._entries[part, entry.seq] = entry
        while len(self._entries) > MOST_PAST or self._n_bytes > _MOST_BYTES:
            place, entry = self._entries.popitem(last=False)
            self._n_bytes -= entry.size
            self._keys[place] = entry.key
        while len(self._keys) > _MOST_KEYS:
            self._keys.popitem(last=False)

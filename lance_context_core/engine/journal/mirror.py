"""What the journal holds of one table, as this process saw it last."""

from collections.abc import Sequence

from lance_context_core.engine.journal.entries import Entry, View

_MOST_PAST = 10_000
"""How many entries are remembered, from when on, once they are folded."""


class Mirror:
    """What the journal holds of one table, as this process saw it last."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.last = 0
        """The last entry that was seen."""
        self._at: tuple[int, ...] = ()
        self._entries: tuple[Entry, ...] = ()
        self._size = 0
        self._past: dict[int, Entry] = {}
        self._view: View | None = None

    @property
    def view(self) -> View:
        """All of it, as it is now."""
        if self._view is None:
            _, version, _, token, _ = self._at
            self._view = View(version, token, self._entries, self.id, self._size)
        return self._view

    def is_at(self, *state: int) -> bool:
        """Whether nothing has changed since."""
        return state == self._at

    def move(
        self, version: int, folded: int, token: int, stamp: int, entries: Sequence[Entry]
    ) -> None:
        """Be what the journal holds now: those that are folded are gone, and these are new."""
        self._at = (self.id, version, folded, token, stamp)
        kept = self._entries
        if kept and kept[0].seq <= folded:
            # Only those of the last folds: who reads a page by its ids does so at once.
            past = {} if len(self._past) > _MOST_PAST else self._past
            self._past = past | {entry.seq: entry for entry in kept if entry.seq <= folded}
            kept = tuple(entry for entry in kept if entry.seq > folded)
            self._size = sum(entry.size for entry in kept)
        self._size += sum(entry.size for entry in entries)
        self._entries = (*kept, *entries)
        self.last = max(self.last, folded, entries[-1].seq if entries else 0)
        self._view = None

    def recall(self, seqs: Sequence[int]) -> list[Entry]:
        """The entries of those places, as far as they are known."""
        known = self._past | {entry.seq: entry for entry in self._entries}
        return [known[seq] for seq in seqs if seq in known]

    def add(self, entries: Sequence[Entry]) -> None:
        """Follow what was written here and now, on top of what was seen."""
        if entries:
            _, version, folded, token, stamp = self._at
            self.move(version, folded, token + 1, stamp + 1, entries)

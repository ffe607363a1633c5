"""What a saver remembers of threads, so that it need not read what it has just written or read."""

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from lance_context_core import Item, ItemsAppended
from langchain_lance_context._checkpoints import Place, Value, ValueKey, owner
from langchain_lance_context._own_versions import OwnVersions

_MAX_BYTES = 64 * 1024 * 1024
"""How much of the values is kept in memory."""
_MAX_PLACES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A checkpoint that was there when it was last looked at, and values that it has."""

    checkpoint_id: str
    """Empty if there was none."""
    values: Mapping[str, Value]
    """By channel; of some channels alone. They are what later values are stored on top of."""
    items: tuple[Item, ...]
    """The checkpoint's own, and those of its writes, in the order of their keys."""
    early: tuple[Item, ...] = ()
    """Writes of later checkpoints, which LangGraph may store before these."""
    version: int | None = None
    """A version of the items at which nothing newer was there. What this process has written since
    then is known, too. None if one would have to look."""
    whole: frozenset[ValueKey] = frozenset()
    """The versions of channels whose rows were there, with all that their values are made of."""
    whole_at: int | None = None
    """In which version of the items they were."""

    @property
    def n_bytes(self) -> int:
        """How much memory it takes, about."""
        values = sum(len(one.rope.data) for one in self.values.values())
        return values + sum(len(one.data or b"") for one in (*self.items, *self.early))

    def trusted(self, done: ItemsAppended) -> frozenset[ValueKey]:
        """The rows of values that are there after a commit: nobody can have deleted them."""
        if self.whole_at is None or self.whole_at < done.grows_since:
            return frozenset()
        parts = {ValueKey(name, v) for name, one in self.values.items() for v in one.rope.versions}
        return self.whole | parts


class Memory:
    """What is known of each namespace of each thread, of those used last; for any number of threads."""

    def __init__(self) -> None:
        """Know nothing."""
        self._lock = threading.Lock()
        self._known: OrderedDict[Place, Known] = OrderedDict()
        self._n_bytes = 0
        self._n_puts: dict[Place, int] = {}
        self._own = OwnVersions()
        self._n_dropped = 0

    def __getitem__(self, place: Place) -> Known | None:
        """What is known of a place."""
        with self._lock:
            if place in self._known:
                self._known.move_to_end(place)
            return self._known.get(place)

    @property
    def n_dropped(self) -> int:
        """How often something was forgotten."""
        return self._n_dropped

    def is_all(self, known: Known, *, version: int) -> bool:
        """Whether in that version of the items nothing newer can be there than what is known."""
        with self._lock:
            return known.version is not None and self._own.cover(after=known.version, until=version)

    def read(self, place: Place, known: Known, *, instead_of: Known | None, n_dropped: int) -> None:
        """Know what was read, unless something was written meanwhile; tell what was known before."""
        with self._lock:
            if self._known.get(place) is instead_of and self._n_dropped == n_dropped:
                self._keep(place, known)

    def put(self, place: Place, known: Known, done: ItemsAppended, *, n_items: int) -> None:
        """Know a checkpoint that was written, as one of so many items."""
        with self._lock:
            self._own.note(done, n_items=n_items)
            before = self._known.get(place)
            if before is not None and before.checkpoint_id < known.checkpoint_id:
                id_ = known.checkpoint_id
                known = replace(
                    known,
                    items=(*known.items, *(one for one in before.early if owner(one) == id_)),
                    early=tuple(one for one in before.early if owner(one) > id_),
                    version=before.version,
                )
            self._keep(place, known)

    def add(self, place: Place, item: Item, done: ItemsAppended) -> None:
        """Know one more item of a checkpoint, which was written."""
        with self._lock:
            self._own.note(done, n_items=1)
            known = self._known.get(place)
            if known is None or item.key in _keys((*known.items, *known.early)):
                return
            if owner(item) == known.checkpoint_id:
                self._keep(place, replace(known, items=(*known.items, item)))
            elif owner(item) > known.checkpoint_id:
                self._keep(place, replace(known, early=(*known.early, item)))

    def forget(self, place: Place) -> None:
        """Know nothing of a place."""
        with self._lock:
            self._drop(place)

    def forget_thread(self, thread: str) -> None:
        """Know nothing of a thread."""
        with self._lock:
            for place in [one for one in self._known if one.thread == thread]:
                self._drop(place)

    def is_due(self, place: Place, every: int) -> bool:
        """Count a put; whether it is the first one, or so many have been made since it was due."""
        with self._lock:
            if len(self._n_puts) > _MAX_PLACES:
                self._n_puts.clear()
            n_puts = self._n_puts.get(place, every - 1) + 1
            self._n_puts[place] = n_puts % every
            return n_puts >= every

    def _keep(self, place: Place, known: Known) -> None:
        if (before := self._known.pop(place, None)) is not None:
            self._n_bytes -= before.n_bytes
        self._known[place] = known
        self._n_bytes += known.n_bytes
        while self._n_bytes > _MAX_BYTES or len(self._known) > _MAX_PLACES:
            self._drop(next(iter(self._known)))

    def _drop(self, place: Place) -> None:
        if (known := self._known.pop(place, None)) is not None:
            self._n_bytes -= known.n_bytes
            self._n_dropped += 1


def _keys(items: Collection[Item]) -> set[str]:
    return {one.key for one in items}

"""Caches of a saver, which save reads of its own recent writes and reads."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from lance_context_core import Item
from lance_context_core.adapting import emptied_with_stores
from lance_context_core.results import ItemsAppended
from langchain_lance_context._checkpoints import Place, Value, ValueKey, owner

_MAX_BYTES = 64 * 1024 * 1024
"""Bytes of checkpoints and values in memory."""
_MAX_ROW_BYTES = 32 * 1024 * 1024
"""Bytes of value rows in memory, from which older checkpoints are reassembled."""
_MAX_PLACES = 10_000
_MAX_CHECKPOINTS = 128
"""Number of cached checkpoints of a place."""
_MAX_OLDER = 1_024
"""Number of earlier checkpoints that were read."""
_MAX_VERSIONS = 4_096
"""Number of cached versions that this process wrote; after a longer time a read is needed."""
_ITEM_BYTES = 1_000
"""Approximate overhead of an item in bytes, without its data."""


@dataclass(frozen=True, slots=True)
class Window:
    """Items of some checkpoints of a place."""

    by_owner: Mapping[str, tuple[Item, ...]]
    """By checkpoint id: its own item and those of its writes, in the order of their keys."""
    n_bytes: int
    """Approximate size in bytes."""

    @classmethod
    def of(cls, by_owner: Mapping[str, tuple[Item, ...]]) -> "Window":
        """One of these items."""
        return cls(by_owner, sum(_n_bytes(one) for some in by_owner.values() for one in some))

    def plus(self, checkpoint_id: str, items: tuple[Item, ...]) -> "Window":
        """A copy with these as the items of a checkpoint."""
        before = self.by_owner.get(checkpoint_id, ())
        n_more = sum(map(_n_bytes, items)) - sum(map(_n_bytes, before))
        return Window({**self.by_owner, checkpoint_id: items}, self.n_bytes + n_more)

    def without(self, checkpoint_ids: AbstractSet[str]) -> "Window":
        """A copy without the items of these checkpoints."""
        if not checkpoint_ids & self.by_owner.keys():
            return self
        return Window.of(
            {id_: own for id_, own in self.by_owner.items() if id_ not in checkpoint_ids}
        )


NOTHING = Window({}, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The newest known checkpoint, and values that it has."""

    checkpoint_id: str
    """Empty if no checkpoint existed."""
    values: Mapping[str, Value]
    """By channel, for some channels. Later values are stored as differences to them."""
    window: Window
    """Of `since` and all later ones. LangGraph may store writes before their checkpoint."""
    older: Window = NOTHING
    """Of some before `since`, as they were at `version`; later writes of this process alone are
    included."""
    since: str
    """Empty if the cache holds all of the place."""
    version: int | None = None
    """A version of the items at which nothing newer existed; this process's later writes are
    included. None requires a read."""
    whole: frozenset[ValueKey] = frozenset()
    """The channel versions with stored rows, and the rows that their values use."""
    whole_at: int | None = None
    """The version of the items at which they existed."""

    @property
    def n_bytes(self) -> int:
        """Approximate size in bytes."""
        values = sum(len(one.rope.data) for one in self.values.values())
        return self.window.n_bytes + self.older.n_bytes + values

    def has(self, checkpoint_id: str) -> bool:
        """Whether the cached window covers that checkpoint."""
        return checkpoint_id >= self.since

    def items_of(self, checkpoint_id: str) -> tuple[Item, ...] | None:
        """The items of a checkpoint, none if it does not exist; None requires a read."""
        if self.has(checkpoint_id):
            return self.window.by_owner.get(checkpoint_id, ())
        return self.older.by_owner.get(checkpoint_id)

    def has_rows(self, keys: AbstractSet[ValueKey], done: ItemsAppended) -> bool:
        """Whether these value rows exist after a commit, because nothing can have deleted them."""
        if not keys:
            return True
        if self.whole_at is None or self.whole_at < done.grows_since:
            return False
        asked = keys - self.whole
        names = {name for name, _ in asked} & self.values.keys()
        versions = {name: self.values[name].rope.versions for name in names}
        return all(version in versions.get(name, ()) for name, version in asked)


class Memory:
    """The cached state of the namespaces of recent threads; safe for any number of threads."""

    def __init__(self) -> None:
        """Clears the cache."""
        self._lock = threading.Lock()
        self._known: OrderedDict[Place, Known] = OrderedDict()
        self._sizes: dict[Place, int] = {}
        self._n_bytes = 0
        self.rows = ValueRows()
        self._n_puts: dict[Place, int] = {}
        self._own = OwnVersions()
        self._n_dropped = 0
        self._lost: OrderedDict[tuple[Place, str], None] = OrderedDict()
        emptied_with_stores(self)

    def __getitem__(self, place: Place) -> Known | None:
        """The cached state of a place."""
        with self._lock:
            if place in self._known:
                self._known.move_to_end(place)
            return self._known.get(place)

    @property
    def n_dropped(self) -> int:
        """Number of invalidations."""
        return self._n_dropped

    def lose(self, checkpoint: tuple[Place, str]) -> None:
        """Records that a checkpoint was not stored, since its thread had been deleted."""
        with self._lock:
            self._drop(checkpoint[0])
            self._lost[checkpoint] = None
            if len(self._lost) > _MAX_PLACES:
                self._lost.popitem(last=False)

    def has_lost(self, checkpoint: tuple[Place, str]) -> bool:
        """Whether a checkpoint was not stored."""
        return checkpoint in self._lost

    def is_all(self, known: Known, *, version: int) -> bool:
        """Whether nothing newer than the cache can exist at that version of the items."""
        with self._lock:
            return known.version is not None and self._own.cover(after=known.version, until=version)

    def read(self, place: Place, known: Known, *, instead_of: Known | None, n_dropped: int) -> None:
        """Caches a read unless a write happened meanwhile; returns the previous state."""
        with self._lock:
            if self._known.get(place) is instead_of and self._n_dropped == n_dropped:
                self._keep(place, known)

    def read_older(
        self, place: Place, read: Mapping[str, tuple[Item, ...]], *, known: Known, n_dropped: int
    ) -> None:
        """Caches a read of checkpoints before the window, unless a write happened meanwhile.

        `known` is the state of the place before the read.
        """
        further = {id_: own for id_, own in read.items() if own and not known.has(id_)}
        if further:
            there = {**known.older.by_owner, **further}
            kept = [*there.items()][-_MAX_OLDER:]
            older = replace(known, older=Window.of(dict(kept)))
            self.read(place, older, instead_of=known, n_dropped=n_dropped)

    def put(
        self,
        place: Place,
        item: Item,
        done: ItemsAppended,
        *,
        n_items: int,
        values: Mapping[str, Value],
        whole: frozenset[ValueKey],
    ) -> None:
        """Caches the checkpoint of an item that was written, and some of its values."""
        with self._lock:
            self._own.note(done, n_items=n_items)
            before, version, older = self._known.get(place), None, NOTHING
            if before is None or before.checkpoint_id >= item.key:
                window, since = Window.of({item.key: (item,)}), item.key
            else:
                own = (item, *before.window.by_owner.get(item.key, ()))
                window, since = _shortened(before.window.plus(item.key, own), before.since)
                version, older = before.version, before.older
            known = Known(
                checkpoint_id=item.key,
                values=values,
                window=window,
                since=since,
                older=older,
                version=version,
                whole=whole,
                whole_at=done.version,
            )
            self._keep(place, known)

    def add(self, place: Place, item: Item, done: ItemsAppended) -> None:
        """Caches one more written item of a checkpoint."""
        with self._lock:
            self._own.note(done, n_items=1)
            known = self._known.get(place)
            if known is None:
                return
            if not known.has(id_ := owner(item)):
                self._keep(place, replace(known, older=known.older.without({id_})))
                return
            own = known.window.by_owner.get(id_, ())
            if item.key not in {one.key for one in own}:
                self._keep(place, replace(known, window=known.window.plus(id_, (*own, item))))

    def forget(self, place: Place) -> None:
        """Removes a place from the cache."""
        with self._lock:
            self._drop(place)

    def without(self, place: Place, checkpoint_ids: AbstractSet[str]) -> None:
        """Removes these checkpoints of a place; of the newest only its existence is kept."""
        with self._lock:
            known = self._known.get(place)
            if known is None or known.checkpoint_id in checkpoint_ids:
                self._drop(place)
                return
            self._n_dropped += 1
            window = known.window.without(checkpoint_ids)
            self._keep(
                place, replace(known, window=window, older=known.older.without(checkpoint_ids))
            )

    def empty(self) -> None:
        """Clears all places; a read in progress is not cached either."""
        with self._lock:
            for place in list(self._known):
                self._drop(place)
            self.rows.empty()
            self._n_puts.clear()
            self._n_dropped += 1

    def forget_thread(self, thread: str) -> None:
        """Removes a thread from the cache."""
        with self._lock:
            for place in [one for one in self._known if one.thread == thread]:
                self._drop(place)

    def is_due(self, place: Place, every: int) -> bool:
        """Counts a put; whether it is the first one, or a removal is due."""
        with self._lock:
            if len(self._n_puts) > _MAX_PLACES:
                self._n_puts.clear()
            n_puts = self._n_puts.get(place, every - 1) + 1
            self._n_puts[place] = n_puts % every
            return n_puts >= every

    def _keep(self, place: Place, known: Known) -> None:
        self._known.pop(place, None)
        self._known[place] = known
        self._n_bytes -= self._sizes.get(place, 0)
        self._sizes[place] = known.n_bytes
        self._n_bytes += self._sizes[place]
        while self._n_bytes > _MAX_BYTES or len(self._known) > _MAX_PLACES:
            self._drop(next(iter(self._known)))

    def _drop(self, place: Place) -> None:
        self.rows.forget(place)
        if self._known.pop(place, None) is not None:
            self._n_bytes -= self._sizes.pop(place)
            self._n_dropped += 1


class ValueRows:
    """Cached value rows of recent places; a row with a unique version never changes."""

    def __init__(self) -> None:
        """Clears the cache."""
        self._lock = threading.Lock()
        self._rows: OrderedDict[Place, dict[ValueKey, Item | None]] = OrderedDict()
        self._n_bytes = 0

    def get(self, place: Place, keys: Iterable[ValueKey]) -> dict[ValueKey, Item | None]:
        """The cached rows; None for a channel without a value."""
        with self._lock:
            if place in self._rows:
                self._rows.move_to_end(place)
            there = self._rows.get(place, {})
            return {key: there[key] for key in keys if key in there}

    def note(self, place: Place, found: Mapping[ValueKey, Item | None]) -> None:
        """Caches rows of a place, read or written with their data."""
        with self._lock:
            there = self._rows.setdefault(place, {})
            for key, item in found.items():
                if key.is_unique and key not in there:
                    there[key] = item
                    self._n_bytes += _n_bytes(item)
            while self._n_bytes > _MAX_ROW_BYTES:
                self._forget_some(next(iter(self._rows)))

    def forget(self, place: Place) -> None:
        """Removes a place from the cache."""
        with self._lock:
            self._n_bytes -= sum(map(_n_bytes, self._rows.pop(place, {}).values()))

    def empty(self) -> None:
        """Clears the cache."""
        with self._lock:
            self._rows.clear()
            self._n_bytes = 0

    def _forget_some(self, place: Place) -> None:
        there = self._rows[place]
        for key in list(there)[: len(there) // 2 + 1]:
            self._n_bytes -= _n_bytes(there.pop(key))
        if not there:
            del self._rows[place]


class OwnVersions:
    """The versions of a table that only appends of this process made.

    Not thread-safe.
    """

    def __init__(self) -> None:
        """Clears the log."""
        self._n_missing: dict[int, int] = {}
        """By version, oldest first: the number of its items that are not recorded yet."""
        self._since = self._until = 0
        """The range of versions that were all found to be this process's own."""

    def note(self, done: ItemsAppended, *, n_items: int) -> None:
        """Adds `n_items` known items to the commit that wrote them."""
        if done.n_items is None:
            return
        self._n_missing[done.version] = self._n_missing.get(done.version, done.n_items) - n_items
        if len(self._n_missing) > _MAX_VERSIONS:
            del self._n_missing[next(iter(self._n_missing))]

    def cover(self, *, after: int, until: int) -> bool:
        """Whether nothing unknown was written between two versions."""
        if until < after:
            return False
        if not self._since <= after <= self._until:
            self._since = self._until = after
        # An earlier result is reused: a thread looks back to its first read.
        while self._until < until and self._n_missing.get(self._until + 1) == 0:
            self._until += 1
        return until <= self._until


def _shortened(window: Window, since: str) -> tuple[Window, str]:
    if len(window.by_owner) <= _MAX_CHECKPOINTS:
        return window, since
    kept = sorted(window.by_owner)[-_MAX_CHECKPOINTS * 3 // 4 :]
    return Window.of({id_: window.by_owner[id_] for id_ in kept}), kept[0]


def _n_bytes(item: Item | None) -> int:
    return _ITEM_BYTES + (0 if item is None else len(item.data or b""))

"""What a saver remembers of threads, so that it need not read what it has just written or read."""

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
"""How much of checkpoints and their values is kept in memory."""
_MAX_ROW_BYTES = 32 * 1024 * 1024
"""How much of the rows of values, from which those of older checkpoints are put together."""
_MAX_PLACES = 10_000
_MAX_CHECKPOINTS = 128
"""How many of a place are remembered."""
_MAX_OLDER = 1_024
"""How many before these, which were read."""
_MAX_VERSIONS = 4_096
"""How many of the versions that this process wrote are remembered; where a longer time has passed, one must look."""
_ITEM_BYTES = 1_000
"""What an item takes beside its data, about."""


@dataclass(frozen=True, slots=True)
class Window:
    """Items of some checkpoints of a place."""

    by_owner: Mapping[str, tuple[Item, ...]]
    """By the id of a checkpoint its own item and those of its writes, in the order of their keys."""
    n_bytes: int
    """How much memory they take, about."""

    @classmethod
    def of(cls, by_owner: Mapping[str, tuple[Item, ...]]) -> "Window":
        """One of these items."""
        return cls(by_owner, sum(_n_bytes(one) for some in by_owner.values() for one in some))

    def plus(self, checkpoint_id: str, items: tuple[Item, ...]) -> "Window":
        """With these as the items of a checkpoint."""
        before = self.by_owner.get(checkpoint_id, ())
        n_more = sum(map(_n_bytes, items)) - sum(map(_n_bytes, before))
        return Window({**self.by_owner, checkpoint_id: items}, self.n_bytes + n_more)

    def without(self, checkpoint_ids: AbstractSet[str]) -> "Window":
        """Without the items of these checkpoints."""
        if not checkpoint_ids & self.by_owner.keys():
            return self
        return Window.of(
            {id_: own for id_, own in self.by_owner.items() if id_ not in checkpoint_ids}
        )


NOTHING = Window({}, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A checkpoint that was there when it was last looked at, and values that it has."""

    checkpoint_id: str
    """Empty if there was none."""
    values: Mapping[str, Value]
    """By channel; of some channels alone. They are what later values are stored on top of."""
    window: Window
    """Of `since` and all later ones. LangGraph may store writes before their checkpoint."""
    older: Window = NOTHING
    """Of some before `since`, as they were at `version`; only what this process writes is known since."""
    since: str
    """Empty if it is all that there is of the place."""
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
        return self.window.n_bytes + self.older.n_bytes + values

    def has(self, checkpoint_id: str) -> bool:
        """Whether that checkpoint stands in the window, if it is there at all."""
        return checkpoint_id >= self.since

    def items_of(self, checkpoint_id: str) -> tuple[Item, ...] | None:
        """The items of a checkpoint, none if it is not there; None if one has to look."""
        if self.has(checkpoint_id):
            return self.window.by_owner.get(checkpoint_id, ())
        return self.older.by_owner.get(checkpoint_id)

    def has_rows(self, keys: AbstractSet[ValueKey], done: ItemsAppended) -> bool:
        """Whether these rows of values are there after a commit: no one can have deleted them."""
        if not keys:
            return True
        if self.whole_at is None or self.whole_at < done.grows_since:
            return False
        asked = keys - self.whole
        names = {name for name, _ in asked} & self.values.keys()
        versions = {name: self.values[name].rope.versions for name in names}
        return all(version in versions.get(name, ()) for name, version in asked)


class Memory:
    """What is known of each namespace of each thread, of those used last; for any number of threads."""

    def __init__(self) -> None:
        """Know nothing."""
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
        """What is known of a place."""
        with self._lock:
            if place in self._known:
                self._known.move_to_end(place)
            return self._known.get(place)

    @property
    def n_dropped(self) -> int:
        """How often something was forgotten."""
        return self._n_dropped

    def lose(self, checkpoint: tuple[Place, str]) -> None:
        """Know that a checkpoint was not kept, since its thread had been deleted."""
        with self._lock:
            self._drop(checkpoint[0])
            self._lost[checkpoint] = None
            if len(self._lost) > _MAX_PLACES:
                self._lost.popitem(last=False)

    def has_lost(self, checkpoint: tuple[Place, str]) -> bool:
        """Whether a checkpoint was not kept."""
        return checkpoint in self._lost

    def is_all(self, known: Known, *, version: int) -> bool:
        """Whether in that version of the items nothing newer can be there than what is known."""
        with self._lock:
            return known.version is not None and self._own.cover(after=known.version, until=version)

    def read(self, place: Place, known: Known, *, instead_of: Known | None, n_dropped: int) -> None:
        """Know what was read, unless something was written meanwhile; tell what was known before."""
        with self._lock:
            if self._known.get(place) is instead_of and self._n_dropped == n_dropped:
                self._keep(place, known)

    def read_older(
        self, place: Place, read: Mapping[str, tuple[Item, ...]], *, known: Known, n_dropped: int
    ) -> None:
        """Know what was read of checkpoints before the window, unless something was written meanwhile.

        `known` was what there is of the place before they were read.
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
        """Know the checkpoint of an item that was written as one of so many, and values of it."""
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
        """Know one more item of a checkpoint, which was written."""
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
        """Know nothing of a place."""
        with self._lock:
            self._drop(place)

    def without(self, place: Place, checkpoint_ids: AbstractSet[str]) -> None:
        """Know no more of these checkpoints of a place, and of the newest only that it stays."""
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
        """Know nothing of any place; a read that is under way is not kept, either."""
        with self._lock:
            for place in list(self._known):
                self._drop(place)
            self.rows.empty()
            self._n_puts.clear()
            self._n_dropped += 1

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
    """Rows of values, of the places used last: what has a version of its own never changes."""

    def __init__(self) -> None:
        """Know none."""
        self._lock = threading.Lock()
        self._rows: OrderedDict[Place, dict[ValueKey, Item | None]] = OrderedDict()
        self._n_bytes = 0

    def get(self, place: Place, keys: Iterable[ValueKey]) -> dict[ValueKey, Item | None]:
        """Those of the rows that are known; None for one of a channel without a value."""
        with self._lock:
            if place in self._rows:
                self._rows.move_to_end(place)
            there = self._rows.get(place, {})
            return {key: there[key] for key in keys if key in there}

    def note(self, place: Place, found: Mapping[ValueKey, Item | None]) -> None:
        """Remember rows of a place, read or written with their data."""
        with self._lock:
            there = self._rows.setdefault(place, {})
            for key, item in found.items():
                if key.is_unique and key not in there:
                    there[key] = item
                    self._n_bytes += _n_bytes(item)
            while self._n_bytes > _MAX_ROW_BYTES:
                self._forget_some(next(iter(self._rows)))

    def forget(self, place: Place) -> None:
        """Know none of a place."""
        with self._lock:
            self._n_bytes -= sum(map(_n_bytes, self._rows.pop(place, {}).values()))

    def empty(self) -> None:
        """Know none."""
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
    """Which versions of a table came about by appending what this process knows, and nothing else.

    Not safe to share between threads.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._n_missing: dict[int, int] = {}
        """By version, oldest first: the number of its items that were not noted yet."""
        self._since = self._until = 0
        """After which version, and until which, all were found to be one's own."""

    def note(self, done: ItemsAppended, *, n_items: int) -> None:
        """Count `n_items`, which are known from now on, to the commit that wrote them."""
        if done.n_items is None:
            return
        self._n_missing[done.version] = self._n_missing.get(done.version, done.n_items) - n_items
        if len(self._n_missing) > _MAX_VERSIONS:
            del self._n_missing[next(iter(self._n_missing))]

    def cover(self, *, after: int, until: int) -> bool:
        """Whether nothing unknown was written after one version, until another one."""
        if until < after:
            return False
        if not self._since <= after <= self._until:
            self._since = self._until = after
        # What was found before is not asked about again: a thread looks back to its first read.
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

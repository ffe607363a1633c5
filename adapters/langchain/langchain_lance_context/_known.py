"""What a saver remembers of threads, so that it need not read what it has just written or read."""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lance_context_core import Item
from langchain_lance_context._checkpoints import Place, Value

_MAX_BYTES = 64 * 1024 * 1024
"""How much of the values is kept in memory."""
_MAX_PLACES = 10_000
_TRUSTED_SECONDS = 10.0
"""For how long after it was seen a checkpoint is taken to be there still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A checkpoint that was there when it was last looked at, and values that it has."""

    checkpoint_id: str
    values: Mapping[str, Value]
    """By channel; of some channels alone. They are what later values are stored on top of."""
    items: tuple[Item, ...]
    """The checkpoint's own, and those of its writes, in the order of their keys."""
    seen_at: float = field(default_factory=time.monotonic)

    @property
    def n_bytes(self) -> int:
        """How much memory it takes, about."""
        values = sum(len(one.rope.data) for one in self.values.values())
        return values + sum(len(one.data or b"") for one in self.items)

    @property
    def is_fresh(self) -> bool:
        """Whether it need not be looked at again."""
        return time.monotonic() - self.seen_at < _TRUSTED_SECONDS


class Memory:
    """What is known of each namespace of each thread, of those used last; for any number of threads."""

    def __init__(self) -> None:
        """Know nothing."""
        self._lock = threading.Lock()
        self._known: OrderedDict[Place, Known] = OrderedDict()
        self._n_bytes = 0
        self._n_puts: dict[Place, int] = {}

    def __getitem__(self, place: Place) -> Known | None:
        """What is known of a place."""
        with self._lock:
            if place in self._known:
                self._known.move_to_end(place)
            return self._known.get(place)

    def __setitem__(self, place: Place, known: Known) -> None:
        """Know this, and no more what was known before."""
        with self._lock:
            self._drop(place)
            self._known[place] = known
            self._n_bytes += known.n_bytes
            while self._n_bytes > _MAX_BYTES or len(self._known) > _MAX_PLACES:
                self._drop(next(iter(self._known)))

    def add(self, place: Place, checkpoint_id: str, item: Item) -> None:
        """Know one more item of a checkpoint, if it is the one that is known there."""
        with self._lock:
            known = self._known.get(place)
            if known is not None and known.checkpoint_id == checkpoint_id:
                self._known[place] = replace(known, items=(*known.items, item))
                self._n_bytes += len(item.data or b"")

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

    def _drop(self, place: Place) -> None:
        if (known := self._known.pop(place, None)) is not None:
            self._n_bytes -= known.n_bytes

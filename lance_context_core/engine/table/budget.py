"""How much of tables is kept in memory, of all tables of the process together."""

import threading
import weakref
from typing import Protocol


class Forgetting(Protocol):
    """What keeps something of one table."""

    def forget(self) -> None:
        """Keep nothing."""


class Budget:
    """Bytes that many share; who asked for more first makes room. Safe to share between threads."""

    def __init__(self, most_bytes: int) -> None:
        """Let them keep so many bytes together; one alone may keep more."""
        self._most_bytes = most_bytes
        self._sizes: weakref.WeakKeyDictionary[Forgetting, int] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def make_room(self, newest: Forgetting, n_bytes: int) -> list[Forgetting]:
        """Those that are to forget what they know, now that one keeps so much."""
        with self._lock:
            self._sizes.pop(newest, None)
            sizes = list(self._sizes.items())
            self._sizes[newest] = n_bytes
            too_many = n_bytes + sum(size for _, size in sizes) - self._most_bytes
            former = []
            for one, size in sizes:
                if too_many <= 0:
                    break
                too_many -= size
                former.append(one)
                del self._sizes[one]
            return former

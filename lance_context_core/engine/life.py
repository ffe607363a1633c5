"""Whether a store may be used: until it is closed, and in no process that was forked since it was opened."""

import os
from weakref import WeakSet

from lance_context_core.errors import StoreClosedError


class Life:
    """That of one store in this process; whoever uses it asks `is_open` before anything else."""

    def __init__(self, uri: str) -> None:
        """Of the store at `uri`, which is open from now on."""
        self.is_open = True
        self._uri = uri
        self._is_forked = False
        _lives.add(self)

    def require(self) -> None:
        """Raise StoreClosedError where `is_open` is false."""
        if self._is_forked:
            raise StoreClosedError(
                f"the store at {self._uri!r} was opened before this process was forked: "
                "start children with 'spawn' or 'forkserver', and open it there"
            )
        if not self.is_open:
            raise StoreClosedError(f"the store at {self._uri!r} was closed: open it again")

    def close(self) -> None:
        """Let nobody use it any more."""
        self.is_open = False

    def fork(self) -> None:
        """Let nobody use it in this process: what the engine has open here may crash it."""
        self.is_open, self._is_forked = False, self.is_open


_lives: WeakSet[Life] = WeakSet()


def _fork() -> None:
    """In a child: the engine's threads do not survive a fork."""
    for life in _lives:
        life.fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork)

"""Whether a store is usable: until it is closed, and in no later fork.

Also whether it is writable. A store is usable only while its directory is at its path: otherwise
reads would find nothing, and the next write would create a new store there.
"""

import asyncio
import os
import threading
import weakref
from pathlib import Path
from weakref import WeakSet

from lance_context_core.errors import NotFoundError, ReadOnlyError, StoreClosedError

_LOOKING = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
"""The flags that open a directory without reading it."""


class Lifecycle:
    """The lifecycle of one store in this process; each use checks `is_open` first."""

    def __init__(self, uri: str, *, is_read_only: bool = False) -> None:
        """The lifecycle of the store at `uri`, which is open from now on."""
        self.is_open = True
        self.is_read_only = is_read_only
        """Whether the store is read-only, and leaves the disk unchanged."""
        self._uri = uri
        self._is_forked = False
        self._is_local = Path(uri).is_absolute()
        self._identity: tuple[int, int] | None = None
        """Of the directory, once it was first seen."""
        self._holding: weakref.finalize[..., Lifecycle] | None = None
        self._lock = threading.Lock()
        _lives.add(self)
        self.is_there()
        self.hold()

    def require(self) -> None:
        """Raise StoreClosedError if `is_open` is false."""
        if self._is_forked:
            raise StoreClosedError(
                f"the store at {self._uri!r} was opened before this process was forked: "
                "start children with 'spawn' or 'forkserver', and open it there"
            )
        if not self.is_open:
            raise StoreClosedError(f"the store at {self._uri!r} was closed: open it again")

    def require_writable(self) -> None:
        """Raise ReadOnlyError if the store was opened read-only."""
        if self.is_read_only:
            raise ReadOnlyError(
                f"the store at {self._uri!r} was opened with read_only=True, and nothing was written: "
                "open it without, to write"
            )

    def is_there(self) -> bool:
        """Whether its directory exists, by one system call; True for object stores.

        Raises NotFoundError if the directory existed, and was moved, removed or replaced since.
        """
        if not self._is_local:
            return True
        known = (
            self._identity
        )  # First, because another thread may see the directory created meanwhile.
        try:
            status = os.stat(self._uri)  # noqa: PTH116 - a `Path` asks in thrice the time
        except FileNotFoundError:
            identity = None
        except NotADirectoryError:
            identity = None
            if known is None:
                return True  # the engine reports a path that never was a directory
        except OSError:
            return True  # or one that cannot be read
        else:
            identity = status.st_dev, status.st_ino
        if identity == known:
            return identity is not None
        if known is None:
            self._identity = identity
            return True
        now = "no longer exists" if identity is None else "was replaced by another one"
        raise NotFoundError(
            f"the directory of the store at {self._uri!r} {now}, since it was opened: nothing is read "
            "or written. Open the store where it is now, or put it back"
        )

    def close(self) -> None:
        """Close the store to all users."""
        self.is_open = False
        if self._holding is not None:
            self._holding()

    def fork(self) -> None:
        """Close the store in this process: the engine's open resources may crash it."""
        self.is_open, self._is_forked = False, self.is_open

    def hold(self) -> None:
        """Open the directory, once seen, so that no other one gets its inode number.

        Blocks for a moment: does nothing on an event loop; call it in a thread.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            return
        with self._lock:
            if self._identity is None or self._holding is not None or not self.is_open:
                return
            try:
                descriptor = os.open(self._uri, _LOOKING)
            except OSError:
                return  # gone again, or this system opens no directories
            status = os.fstat(descriptor)
            if self._identity != (status.st_dev, status.st_ino):
                os.close(descriptor)
                return  # replaced since, which the next check reports
            self._holding = weakref.finalize(self, os.close, descriptor)
            self._holding.atexit = False


_lives: WeakSet[Lifecycle] = WeakSet()


def _fork() -> None:
    """In a child process: the engine's threads do not survive a fork."""
    for life in _lives:
        life.fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork)

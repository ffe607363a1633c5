"""Whether a store may be used: until it is closed, and in no process that was forked since it was opened.

Whether it may be written to, too. And only as long as its directory is at its path: else reads would find nothing, and the next write would
make a new store there.
"""

import asyncio
import os
import threading
import weakref
from pathlib import Path
from weakref import WeakSet

from lance_context_core.errors import NotFoundError, ReadOnlyError, StoreClosedError

_LOOKING = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
"""How a directory is opened that nothing is read of."""


class Lifecycle:
    """That of one store in this process; whoever uses it asks `is_open` before anything else."""

    def __init__(self, uri: str, *, is_read_only: bool = False) -> None:
        """Of the store at `uri`, which is open from now on."""
        self.is_open = True
        self.is_read_only = is_read_only
        """Whether nothing may be written through it, and nothing on the disk changes."""
        self._uri = uri
        self._is_forked = False
        self._is_local = Path(uri).is_absolute()
        self._identity: tuple[int, int] | None = None
        """Of the directory, since it was first seen."""
        self._holding: weakref.finalize[..., Lifecycle] | None = None
        self._lock = threading.Lock()
        _lives.add(self)
        self.is_there()
        self.hold()

    def require(self) -> None:
        """Raise StoreClosedError where `is_open` is false."""
        if self._is_forked:
            raise StoreClosedError(
                f"the store at {self._uri!r} was opened before this process was forked: "
                "start children with 'spawn' or 'forkserver', and open it there"
            )
        if not self.is_open:
            raise StoreClosedError(f"the store at {self._uri!r} was closed: open it again")

    def require_writable(self) -> None:
        """Raise ReadOnlyError if the store was opened for reading only."""
        if self.is_read_only:
            raise ReadOnlyError(
                f"the store at {self._uri!r} was opened with read_only=True, and nothing was written: "
                "open it without, to write"
            )

    def is_there(self) -> bool:
        """Whether its directory exists, which is one look at the disk; True for what is in none.

        Raises NotFoundError if the directory was there, and was moved, removed or replaced since.
        """
        if not self._is_local:
            return True
        known = (
            self._identity
        )  # Before the look: another thread may see the directory made meanwhile.
        try:
            status = os.stat(self._uri)  # noqa: PTH116 - a `Path` asks in thrice the time
        except FileNotFoundError:
            identity = None
        except NotADirectoryError:
            identity = None
            if known is None:
                return True  # What never was one is for the engine to complain about,
        except OSError:
            return True  # and so is what cannot be looked at.
        else:
            identity = status.st_dev, status.st_ino
        if identity == known:
            return identity is not None
        if known is None:
            self._identity = identity
            return True
        now = "is not there any more" if identity is None else "was replaced by another one"
        raise NotFoundError(
            f"the directory of the store at {self._uri!r} {now}, since it was opened: nothing is read "
            "or written. Open the store where it is now, or put it back"
        )

    def close(self) -> None:
        """Let nobody use it any more."""
        self.is_open = False
        if self._holding is not None:
            self._holding()

    def fork(self) -> None:
        """Let nobody use it in this process: what the engine has open here may crash it."""
        self.is_open, self._is_forked = False, self.is_open

    def hold(self) -> None:
        """Open the directory, once it was seen: as long as it is open, no other one has its number.

        It blocks for a moment: on an event loop it does nothing, and is to be called in a thread.
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
                return  # It is gone again, or this system opens no directories.
            status = os.fstat(descriptor)
            if self._identity != (status.st_dev, status.st_ino):
                os.close(descriptor)
                return  # It was replaced since, which the next look says.
            self._holding = weakref.finalize(self, os.close, descriptor)
            self._holding.atexit = False


_lives: WeakSet[Lifecycle] = WeakSet()


def _fork() -> None:
    """In a child: the engine's threads do not survive a fork."""
    for life in _lives:
        life.fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork)

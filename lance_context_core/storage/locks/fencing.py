"""Fencing: this task's writes are refused once a lock they depend on is lost."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

from lance_context_core._util.frozen import frozen
from lance_context_core.errors import ConflictError, StaleLockError
from lance_context_core.storage.locks.requests import LockRequest

if TYPE_CHECKING:
    from lance_context_core.storage.wal.log import LogSession, Part


@frozen
class Fence:
    """One lock that the writes to one store depend on."""

    place: object
    """The store: its URI, or the connection of one in memory."""
    seq: int
    token: int
    resource: str
    now: Callable[[], float]
    ask: Callable[[], Awaitable[LockRequest | None]] | None
    """Checks the stored lock; None if the write's own transaction does."""

    async def check(self) -> None:
        """Raise StaleLockError if the lock is lost, and no transaction checks it."""
        if self.ask is not None:
            self.require(await self.ask())

    def check_in(self, session: "LogSession") -> None:
        """Raise StaleLockError if the lock is lost, in the transaction of a write."""
        self.require(session.lock_request(self.seq))

    def require(self, ticket: LockRequest | None) -> None:
        """Raise StaleLockError unless this stored request shows that the lock is held."""
        if ticket is None or not ticket.is_held_with(self.token, self.now()):
            raise StaleLockError(
                f"the lock on {self.resource!r} with token {self.token} is held no more: nothing was "
                "written. Acquire it again, and look what others have done meanwhile"
            )


@frozen
class ServerFence:
    """A lock on a server that the writes to one store depend on."""

    place: object
    """As in `Fence`."""
    require: Callable[[], None]
    """Raises StorageError if it is lost; asks the server."""

    async def check(self) -> None:
        """Raise StorageError if the lock is lost."""
        await asyncio.to_thread(self.require)

    def check_in(self, session: "LogSession") -> None:
        """Raise StorageError if the lock is lost, just before the transaction of a write."""
        del session
        self.require()


class TableChangedError(ConflictError):
    """The table of a `TableFence` has changed: nothing was written."""


@frozen
class TableFence:
    """A table that the writes to one store depend on: they are refused once it has changed."""

    place: object
    """As in `Fence`."""
    part: "Part"
    token: int
    """As `Table.token`; 0 if the table was missing."""
    ask: Callable[[], Awaitable[int]]
    """Returns the current token."""

    async def check(self) -> None:
        """Raise TableChangedError if it has changed."""
        self._require(await self.ask())

    def check_in(self, session: "LogSession") -> None:
        """Raise TableChangedError if it has changed, in the transaction of a write."""
        state = session.state(self.part)
        self._require(0 if state is None else state.token)

    def _require(self, token: int) -> None:
        if token != self.token:
            raise TableChangedError(
                f"others changed what a write to {self.place!r} depends on: nothing was written. "
                "Call again"
            )


AnyFence: TypeAlias = Fence | ServerFence | TableFence

_fences: ContextVar[tuple[AnyFence, ...]] = ContextVar("_fences", default=())


def at(place: object) -> list[AnyFence]:
    """The fences of this task for that store."""
    return [one for one in _fences.get() if one.place == place]


def are_any() -> bool:
    """Whether this task has fences, so that its writes must not be grouped."""
    return bool(_fences.get())


@contextmanager
def fenced(fence: AnyFence) -> Iterator[None]:
    """Make the writes in this context depend on that lock, too."""
    token = _fences.set((*_fences.get(), fence))
    try:
        yield
    finally:
        _fences.reset(token)


@contextmanager
def unfenced() -> Iterator[None]:
    """Make the writes in this context depend on no lock: for the locks' own storage."""
    token = _fences.set(())
    try:
        yield
    finally:
        _fences.reset(token)


async def require(place: object) -> None:
    """Raise StaleLockError, or StorageError, if a lock is lost that no transaction checks."""
    for fence in at(place):
        await fence.check()

"""Fencing: this task's writes are refused once a lock they depend on is lost."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lance_context_core._util.frozen import frozen
from lance_context_core.errors import StaleLockError
from lance_context_core.storage.locks.requests import LockRequest


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

    def require(self, ticket: LockRequest | None) -> None:
        """Raise StaleLockError unless this stored request shows that the lock is held."""
        if ticket is None or not ticket.is_held_with(self.token, self.now()):
            raise StaleLockError(
                f"the lock on {self.resource!r} with token {self.token} is held no more: nothing was "
                "written. Acquire it again, and look what others have done meanwhile"
            )


_fences: ContextVar[tuple[Fence, ...]] = ContextVar("_fences", default=())


def at(place: object) -> list[Fence]:
    """The fences of this task for that store."""
    return [one for one in _fences.get() if one.place == place]


def are_any() -> bool:
    """Whether this task has fences, so that its writes must not be grouped."""
    return bool(_fences.get())


@contextmanager
def fenced(fence: Fence) -> Iterator[None]:
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
    """Raise StaleLockError if a lock is lost that no transaction checks."""
    for fence in at(place):
        if fence.ask is not None:
            fence.require(await fence.ask())

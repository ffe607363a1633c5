"""Which locks the writes of this task depend on: they are refused once one of these is lost."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lance_context_core._util.frozen import frozen
from lance_context_core.errors import StaleLockError
from lance_context_core.storage.locks.requests import LockRequest


@frozen
class Fence:
    """One lock that writes to one place depend on."""

    place: object
    """Which store: its URI, or of one in memory its connection."""
    seq: int
    token: int
    resource: str
    now: Callable[[], float]
    ask: Callable[[], Awaitable[LockRequest | None]] | None
    """Looks where the lock is kept; None where the write's own transaction does."""

    def require(self, ticket: LockRequest | None) -> None:
        """Raise StaleLockError unless this ticket, which is there now, says that the lock is held."""
        if ticket is None or not ticket.is_held_with(self.token, self.now()):
            raise StaleLockError(
                f"the lock on {self.resource!r} with token {self.token} is held no more: nothing was "
                "written. Acquire it again, and look what others have done meanwhile"
            )


_fences: ContextVar[tuple[Fence, ...]] = ContextVar("_fences", default=())


def at(place: object) -> list[Fence]:
    """The fences of this task around that store."""
    return [one for one in _fences.get() if one.place == place]


def are_any() -> bool:
    """Whether this task has any, so that its writes are not to be mixed with those of others."""
    return bool(_fences.get())


@contextmanager
def fenced(fence: Fence) -> Iterator[None]:
    """Have what is written in here depend on that lock too."""
    token = _fences.set((*_fences.get(), fence))
    try:
        yield
    finally:
        _fences.reset(token)


@contextmanager
def unfenced() -> Iterator[None]:
    """Have what is written in here depend on none: what keeps the locks themselves."""
    token = _fences.set(())
    try:
        yield
    finally:
        _fences.reset(token)


async def require(place: object) -> None:
    """Raise StaleLockError if a lock that writes depend on is lost, where no transaction tells it."""
    for fence in at(place):
        if fence.ask is not None:
            fence.require(await fence.ask())

"""Locks, from synchronous code."""

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Self, TypedDict

from lance_context_core._loop import LATER, block_on
from lance_context_core.coordination.conversations import current_owner
from lance_context_core.coordination.locks import LEASE, Acquiring, AsyncLock, AsyncLocks
from lance_context_core.sync._blocking import Blocking, blocking, field, handing

_ACQUIRE = AsyncLocks.acquire
"""As it is here: where it is replaced, as by what tells of calls, that is called."""


class Lock(Blocking[AsyncLock]):
    """A lock that is held until it is released; `AsyncLock` is the asynchronous one."""

    resource = field(AsyncLock.resource, "What is locked.")
    mode = field(AsyncLock.mode, "Which others it excludes.")
    owner = field(AsyncLock.owner, "Who holds it.")
    token = field(
        AsyncLock.token, "The fencing token, larger than that of every lock granted before it."
    )

    release = blocking(AsyncLock.release, at_once=AsyncLock._release_at_once)  # noqa: SLF001
    renew = blocking(AsyncLock.renew)
    is_held = blocking(AsyncLock.is_held)

    def fencing(self) -> AbstractContextManager[None]:
        """A block whose writes depend on the lock. See `AsyncLock.fencing`."""
        return self._aio.fencing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if not self.release() and kind is None:
            raise self._aio._lost()  # noqa: SLF001


class Locks(Blocking[AsyncLocks]):
    """The locks of a store; `AsyncLocks` is the asynchronous one. An owner is the current thread."""

    using = handing(AsyncLocks.using)

    def acquire(
        self,
        resource: str,
        *,
        mode: str = "exclusive",
        lease: timedelta = LEASE,
        wait: timedelta | None = None,
        owner: str | None = None,
    ) -> Lock:
        """The lock on `resource`, also for a `with` block. See `AsyncLocks.acquire`."""
        owner = current_owner() if owner is None else owner
        asked: Asked = {"mode": mode, "lease": lease, "wait": wait, "owner": owner}
        if getattr(type(self._aio), "acquire", None) is _ACQUIRE:
            held = self._aio._acquire_at_once(resource, **asked)  # noqa: SLF001
            if held is not LATER:
                return Lock(held)
        return Lock(block_on(_got(self._aio.acquire(resource, **asked))))

    def try_acquire(
        self,
        resource: str,
        *,
        mode: str = "exclusive",
        lease: timedelta = LEASE,
        owner: str | None = None,
    ) -> Lock | None:
        """The lock on `resource` if it is free; else None. See `AsyncLocks.try_acquire`."""
        owner = current_owner() if owner is None else owner
        held = block_on(self._aio.try_acquire(resource, mode=mode, lease=lease, owner=owner))
        return None if held is None else Lock(held)

    list = blocking(AsyncLocks.list)
    stats = blocking(AsyncLocks.stats)
    force_release = blocking(AsyncLocks.force_release)
    release_stale = blocking(AsyncLocks.release_stale)


class Asked(TypedDict):
    """How a lock is asked for."""

    mode: str
    lease: timedelta
    wait: timedelta | None
    owner: str


async def _got(asked: Acquiring) -> AsyncLock:
    return await asked

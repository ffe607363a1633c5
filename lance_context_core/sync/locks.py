"""Locks, from synchronous code."""

import builtins
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self

from lance_context_core._loop import block_on
from lance_context_core.coordination.conflicts import Conflicts
from lance_context_core.coordination.lock import Acquiring, AsyncLock
from lance_context_core.coordination.locks import LEASE, AsyncLocks, LockInfo, LockStats
from lance_context_core.coordination.owners import current_owner


@dataclass(frozen=True, slots=True)
class Locks:
    """The locks of a store; `AsyncLocks` is the asynchronous one. An owner is the current thread."""

    _aio: AsyncLocks

    def using(self, conflicts: Conflicts) -> Self:
        """The same locks with modes of one's own. See `AsyncLocks.using`."""
        return type(self)(self._aio.using(conflicts))

    def acquire(
        self,
        resource: str,
        *,
        mode: str = "exclusive",
        lease: timedelta = LEASE,
        wait: timedelta | None = None,
        owner: str | None = None,
    ) -> "Lock":
        """The lock on `resource`, also for a `with` block. See `AsyncLocks.acquire`."""
        owner = current_owner() if owner is None else owner
        asked = self._aio.acquire(resource, mode=mode, lease=lease, wait=wait, owner=owner)
        return Lock(block_on(_got(asked)))

    def try_acquire(
        self,
        resource: str,
        *,
        mode: str = "exclusive",
        lease: timedelta = LEASE,
        owner: str | None = None,
    ) -> "Lock | None":
        """The lock on `resource` if it is free; else None. See `AsyncLocks.try_acquire`."""
        owner = current_owner() if owner is None else owner
        held = block_on(self._aio.try_acquire(resource, mode=mode, lease=lease, owner=owner))
        return None if held is None else Lock(held)

    def list(self, resource: str | None = None) -> builtins.list[LockInfo]:
        """The locks that are held or waited for. See `AsyncLocks.list`."""
        return block_on(self._aio.list(resource))

    def stats(self) -> LockStats:
        """How many locks there are. See `AsyncLocks.stats`."""
        return block_on(self._aio.stats())

    def force_release(self, resource: str, *, token: int | None = None) -> int:
        """Take the locks on `resource` from their holders. See `AsyncLocks.force_release`."""
        return block_on(self._aio.force_release(resource, token=token))

    def release_stale(self) -> int:
        """Remove what nobody holds any more. See `AsyncLocks.release_stale`."""
        return block_on(self._aio.release_stale())


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that is held until it is released; `AsyncLock` is the asynchronous one."""

    _aio: AsyncLock = field(repr=False)

    @property
    def resource(self) -> str:
        """What is locked."""
        return self._aio.resource

    @property
    def mode(self) -> str:
        """Which others it excludes."""
        return self._aio.mode

    @property
    def owner(self) -> str:
        """Who holds it."""
        return self._aio.owner

    @property
    def token(self) -> int:
        """The fencing token: larger than that of every lock granted before."""
        return self._aio.token

    def release(self) -> bool:
        """Let others have it; returns whether it was held. See `AsyncLock.release`."""
        return block_on(self._aio.release())

    def renew(self) -> None:
        """Have its lease begin anew. See `AsyncLock.renew`."""
        return block_on(self._aio.renew())

    def is_held(self) -> bool:
        """Whether it is held still. See `AsyncLock.is_held`."""
        return block_on(self._aio.is_held())

    def fencing(self) -> AbstractContextManager[None]:
        """A block whose writes depend on the lock. See `AsyncLock.fencing`."""
        return self._aio.fencing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        block_on(self._aio.__aexit__(*raised))


async def _got(asked: Acquiring) -> AsyncLock:
    return await asked

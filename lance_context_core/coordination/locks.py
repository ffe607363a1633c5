"""Locks between tasks, threads, processes and machines that share a store."""

import asyncio
import builtins
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeVar

from lance_context_core._handle import handle
from lance_context_core._loop import WOULD_BLOCK, WouldBlock
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_count, check_name, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.coordination import queueing
from lance_context_core.coordination.changes import STANDARD_CONFLICTS, Conflicts
from lance_context_core.coordination.conversations import current_owner
from lance_context_core.errors import (
    ContextStoreError,
    DeadlockError,
    InvalidRequestError,
    LockTimeoutError,
    StaleLockError,
)
from lance_context_core.storage import leases
from lance_context_core.storage.locks import fencing
from lance_context_core.storage.locks.fencing import Fence
from lance_context_core.storage.locks.requests import (
    LockBackend,
    LockRenewer,
    LockRequest,
    LockTable,
)

# A held lock.


@frozen_by_name
class AsyncLock:
    """A lock that is held until its release; `async with` releases it.

    If it was lost before, because its lease expired while the process was stopped, or another
    process took it, the end of the block raises StaleLockError: its work may have overlapped with
    others'.
    """

    resource: str
    """The locked resource."""
    mode: str
    """The mode, see `Conflicts`."""
    owner: str
    """The holder."""
    token: int
    """The fencing token, larger than that of every lock granted before it.

    A resource that refuses smaller tokens refuses late writes.
    """
    _seq: int = field(repr=False)
    _keeper: LockRenewer = field(repr=False)
    _now: Callable[[], float] = field(repr=False)
    _place: object = field(repr=False)

    async def release(self) -> bool:
        """Release the lock; returns whether it was held until now."""
        self._keeper.let_go(self._seq)
        return await self._keeper.shelf.change(self._removing, resource=self.resource)

    async def renew(self) -> None:
        """Renew the lease now, which also happens automatically. Raises StaleLockError if lost."""

        def decide(book: LockTable) -> bool:
            ticket = book.tickets.get(self._seq)
            if ticket is None or not self._is_held(ticket):
                return False
            book.put(ticket.renewed_at(self._now()))
            return True

        if not await self._keeper.shelf.change(decide, resource=self.resource):
            raise self._lost()

    async def is_held(self) -> bool:
        """Whether it is still held."""
        return self._is_held(await self._ticket())

    def fencing(self) -> AbstractContextManager[None]:
        """Return a block in which writes to the store fail once the lock is lost.

        Such a write raises StaleLockError. In a directory the check of the lock and the write are
        one transaction. Elsewhere the lock is checked before the write begins: a write that began
        while it was held may end after it is lost.
        """
        ask = None if self._keeper.shelf.is_transactional else self._ticket
        fence = Fence(self._place, self._seq, self.token, self.resource, self._now, ask)
        return fencing.fenced(fence)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if not await self.release() and kind is None:
            raise self._lost()

    # Helpers

    def _release_at_once(self) -> bool | WouldBlock:
        """As `release`, in any thread without waiting; WOULD_BLOCK if it must wait."""
        self._keeper.let_go(self._seq)
        return self._keeper.shelf.change_now(self._removing, resource=self.resource)

    def _removing(self, book: LockTable) -> bool:
        is_held = self._is_held(book.tickets.get(self._seq))
        book.remove(self._seq)
        return is_held

    async def _ticket(self) -> LockRequest | None:
        found = await self._keeper.shelf.tickets(resource=self.resource)
        return next((one for one in found if one.seq == self._seq), None)

    def _is_held(self, ticket: LockRequest | None) -> bool:
        return ticket is not None and ticket.is_held_with(self.token, self._now())

    def _lost(self) -> StaleLockError:
        return StaleLockError(
            f"the lock on {self.resource!r} with token {self.token} was lost before it was released: "
            "its lease passed while this process was stopped, or it was taken by force_release(). "
            "What was done meanwhile may have met others: look, and acquire it again"
        )


class Acquiring:
    """A request for a lock, made when it is awaited, or entered with `async with`."""

    def __init__(self, acquire: Callable[[], Coroutine[Any, Any, "AsyncLock"]]) -> None:
        """Created by `AsyncLocks.acquire`."""
        self._acquire = acquire
        self._lock: AsyncLock | None = None

    def __await__(self) -> Generator[Any, None, "AsyncLock"]:
        return self._acquire().__await__()

    async def __aenter__(self) -> "AsyncLock":
        self._lock = await self
        return self._lock

    async def __aexit__(self, *raised: object) -> None:
        assert self._lock is not None
        await self._lock.__aexit__(*raised)


# Waiting for a lock, first come, first served.

T = TypeVar("T", LockRequest, LockRequest | None)

_LEASE_SECONDS = 10.0
"""A stopped waiter loses its place after this time."""

_LOOK_AT_ALL_EVERY_SECONDS = 1.0
"""The request that closes a cycle finds it; others only find cycles that arise otherwise."""


async def asked_of(
    shelf: LockBackend, decide: Callable[[LockTable], T], *, resource: str | None
) -> T:
    """Apply `decide` to the lock table; a cancelled caller keeps no ticket.

    The change may be committed when its caller is cancelled, and would never learn of it.
    """
    if shelf.is_transactional:
        return await shelf.change(decide, resource=resource)
    change = asyncio.ensure_future(shelf.change(decide, resource=resource))
    try:
        return await asyncio.shield(change)
    except asyncio.CancelledError:
        await asyncio.shield(_given_back(shelf, change))
        raise


async def _given_back(shelf: LockBackend, change: asyncio.Future[T]) -> None:
    with suppress(ContextStoreError):
        if (ticket := await change) is not None:
            seq = ticket.seq
            await shelf.change(lambda book: book.remove(seq), resource=ticket.resource)


class Waiting:
    """A waiter in the queue of a resource."""

    def __init__(
        self,
        shelf: LockBackend,
        wanted: LockRequest,
        conflicts: Conflicts,
        now: Callable[[], float],
    ) -> None:
        """Does nothing before the first `look`."""
        self._shelf = shelf
        self._ticket = replace(wanted, lease=_LEASE_SECONDS)
        self._lease = wanted.lease
        self._conflicts = conflicts
        self._now = now
        self._looked_at = 0.0
        self._pause, self._longest = shelf.pauses_seconds

    async def until_granted(self, wait: float | None) -> LockRequest:
        """Return the lock. Raises LockTimeoutError after `wait` seconds, and DeadlockError."""
        began = time.monotonic()
        while (granted := await self._look()) is None:
            left = None if wait is None else wait - (time.monotonic() - began)
            if wait is not None and left is not None and left <= 0:
                raise await self._timeout(wait)
            await asyncio.sleep(self._pause if left is None else min(self._pause, left))
            self._pause = min(self._pause * 1.5, self._longest)
        return granted

    async def leave(self) -> None:
        """Leave the queue."""
        seq = self._ticket.seq
        await self._shelf.change(lambda book: book.remove(seq), resource=self._ticket.resource)

    # Helpers

    async def _look(self) -> LockRequest | None:
        """Return the lock, if its turn has come."""
        if await self._must_wait():
            return None
        self._looked_at = time.monotonic()
        ticket = await asked_of(self._shelf, self._advance, resource=None)
        if ticket.token is None:
            self._ticket = ticket
            return None
        return ticket

    async def _timeout(self, wait: float) -> LockTimeoutError:
        """Return the error with the blocking owners."""
        found = await self._shelf.tickets(resource=self._ticket.resource)
        others = queueing.blocking(self._ticket, found, self._conflicts)
        names = ", ".join(
            f"{one.owner!r} ({leases.shown(one.process)}, {one.mode}"
            f"{'' if one.token else ', waiting'})"
            for one in others[:3]
        )
        return LockTimeoutError(
            f"the lock on {self._ticket.resource!r} was not free for {wait:g} seconds: "
            f"{names or 'others'} had it. Wait longer, or see locks.list()"
        )

    async def _must_wait(self) -> bool:
        """Whether a read without a transaction shows that it must wait."""
        if time.monotonic() - self._looked_at > _LOOK_AT_ALL_EVERY_SECONDS:
            return False
        found = await self._shelf.tickets(resource=self._ticket.resource)
        if self._ticket.seq not in {one.seq for one in found}:
            return False
        before = queueing.blocking(self._ticket, found, self._conflicts)
        now = self._now()
        return bool(before) and not any(one.is_free(now) for one in before)

    def _advance(self, book: LockTable) -> LockRequest:
        now = self._now()
        ticket = queueing.advance(book, self._ticket, now, self._conflicts)
        if ticket.token is not None:
            book.put(granted := replace(ticket, lease=self._lease).renewed_at(now))
            return granted
        queueing.sweep(book, now)
        if (found := queueing.cycle(ticket, book.tickets.values(), self._conflicts)) is not None:
            error = DeadlockError(
                f"to wait for the lock on {ticket.resource!r} would be a deadlock: "
                f"{queueing.told(found)}, held by {ticket.owner!r}. Release the held locks, and "
                "acquire them again in one order"
            )
            error.cycle = tuple((one.owner, one.resource) for one in found)
            raise error
        return ticket


LEASE = timedelta(seconds=30)
_SHORTEST, _LONGEST = timedelta(milliseconds=100), timedelta(days=1)


@frozen_by_name
class LockInfo:
    """A lock that a process holds or waits for."""

    resource: str
    mode: str
    owner: str
    """The given owner, or a generated name of the process and task or thread."""
    token: int | None
    """The fencing token; None while it waits."""
    since: datetime
    """The time when it was granted, or requested."""
    lease: timedelta
    is_stale: bool
    """Whether the next acquirer takes it: its lease has expired, or its process has ended."""


@frozen_by_name
class LockStats:
    """Numbers of locks."""

    n_held: int
    n_waiting: int
    n_stale: int
    """Number of expired ones among both."""
    by_mode: Mapping[str, int]
    """Held locks by mode."""
    oldest: LockInfo | None
    """The longest-held lock."""


@handle
class AsyncLocks:
    """The locks of a store, shared by all its branches and scopes.

    A resource is any name. The owner is the current task, unless another name is given; an owner's
    locks do not block its other requests in the same process.
    """

    _resources: Resources
    _conflicts: Conflicts = field(default=STANDARD_CONFLICTS)

    def using(self, conflicts: Conflicts) -> Self:
        """Return the same locks with other modes, and the modes that these exclude."""
        if not isinstance(conflicts, Conflicts):
            raise InvalidRequestError(f"conflicts={shown(conflicts)}: give Conflicts")
        return replace(self, _conflicts=conflicts)

    def acquire(
        self,
        resource: str,
        *,
        mode: str = "exclusive",
        lease: timedelta = LEASE,
        wait: timedelta | None = None,
        owner: str | None = None,
    ) -> Acquiring:
        """Acquire the lock on `resource`: await the result, or enter it with `async with`.

        - `mode`: determines the locks that it excludes; see `using`.
        - `lease`: the time it is held if this process stops; while the process lives, the lock is
          renewed. From 0.1 seconds to a day.
        - `wait`: maximum time to wait for others, None for ever. Locks are granted in the order of
          the requests. Raises LockTimeoutError after that.
        - `owner`: the owner.

        Raises DeadlockError, which names them, if the holders wait for a lock of this owner.
        """
        asked, seconds = self._asked(resource, mode, lease, owner), _seconds(wait)
        return Acquiring(lambda: self._acquired(asked, seconds))

    async def try_acquire(
        self,
        resource: str,
        *,
        mode: str = "exclusive",
        lease: timedelta = LEASE,
        owner: str | None = None,
    ) -> AsyncLock | None:
        """Acquire the lock on `resource` if it is free without waiters; else return None."""
        asked = self._asked(resource, mode, lease, owner)
        keeper = await self._keeper()
        granted = await self._entered(keeper, asked)
        return None if granted is None else self._held(keeper, granted)

    async def list(self, resource: str | None = None) -> builtins.list[LockInfo]:
        """Return held and requested locks, of one resource or all, in the order of requests."""
        if resource is not None:
            resource = check_name(resource, "resource")
        found = await (await self._keeper()).shelf.tickets(resource=resource)
        now = self._now()
        return [_info(one, now) for one in found]

    async def stats(self) -> LockStats:
        """Return the numbers of locks."""
        every = await self.list()
        held = [one for one in every if one.token is not None]
        return LockStats(
            n_held=len(held),
            n_waiting=len(every) - len(held),
            n_stale=sum(one.is_stale for one in every),
            by_mode=dict(Counter(one.mode for one in held)),
            oldest=min(held, key=lambda one: one.since, default=None),
        )

    async def force_release(self, resource: str, *, token: int | None = None) -> int:
        """Revoke the locks on `resource`, or the one with `token`; returns their number.

        A holder gets StaleLockError at the end of its block, and its fenced writes are refused.
        """
        resource = check_name(resource, "resource")
        if token is not None:
            check_count(token, "token")
        keeper = await self._keeper()

        def decide(book: LockTable) -> int:
            held = [
                one
                for one in book.tickets.values()
                if one.resource == resource and one.token is not None and token in (None, one.token)
            ]
            for one in held:
                book.remove(one.seq)
            return len(held)

        return await keeper.shelf.change(decide, resource=resource)

    async def release_stale(self) -> int:
        """Remove expired locks and waiters; returns the number of removed held locks.

        Optional: the next acquirer of a resource does it for that resource.
        """
        keeper = await self._keeper()
        now = self._now()
        stale = await keeper.shelf.change(lambda book: queueing.sweep(book, now), resource=None)
        return sum(one.token is not None for one in stale)

    # Helpers

    def _acquire_at_once(
        self,
        resource: str,
        *,
        mode: str,
        lease: timedelta,
        wait: timedelta | None,
        owner: str,
    ) -> AsyncLock | WouldBlock:
        """As `acquire`, in any thread without waiting; WOULD_BLOCK if it must wait."""
        asked = self._asked(resource, mode, lease, owner)
        _seconds(wait)
        if (keeper := self._resources.writable().locks_now()) is None:
            return WOULD_BLOCK
        enter = self._entering(asked)
        granted = keeper.shelf.change_now(enter, resource=asked.resource)
        return self._held(keeper, granted) if isinstance(granted, LockRequest) else WOULD_BLOCK

    def _now(self) -> float:
        return self._resources.clock.now().timestamp()

    async def _keeper(self) -> LockRenewer:
        return await self._resources.current().locks()

    def _asked(self, resource: str, mode: str, lease: timedelta, owner: str | None) -> LockRequest:
        if not isinstance(lease, timedelta) or not _SHORTEST <= lease <= _LONGEST:
            raise InvalidRequestError(
                f"lease={shown(lease)}: give a timedelta of 0.1 seconds to a day"
            )
        return LockRequest(
            seq=0,
            token=None,
            resource=check_name(resource, "resource"),
            mode=self._conflicts.checked(mode),
            owner=current_owner() if owner is None else check_name(owner, "owner"),
            process=leases.mine(),
            since=self._now(),
            lease=lease.total_seconds(),
        )

    def _held(self, keeper: LockRenewer, ticket: LockRequest) -> AsyncLock:
        assert ticket.token is not None
        keeper.keep(ticket.seq, (ticket, self._now), ticket.lease)
        return AsyncLock(
            resource=ticket.resource,
            mode=ticket.mode,
            owner=ticket.owner,
            token=ticket.token,
            _seq=ticket.seq,
            _keeper=keeper,
            _now=self._now,
            _place=self._resources.writable().connection.place,
        )

    async def _entered(self, keeper: LockRenewer, asked: LockRequest) -> LockRequest | None:
        """Return the lock, if it is free."""
        return await asked_of(keeper.shelf, self._entering(asked), resource=asked.resource)

    def _entering(self, asked: LockRequest) -> Callable[[LockTable], LockRequest | None]:
        return lambda book: queueing.enter(book, asked, self._now(), self._conflicts)

    async def _acquired(self, asked: LockRequest, wait: float | None) -> AsyncLock:
        keeper = await self._keeper()
        granted = await self._entered(keeper, asked)
        if granted is None:
            waiting = Waiting(keeper.shelf, asked, self._conflicts, self._now)
            try:
                granted = await waiting.until_granted(wait)
            except BaseException:
                # Also if the caller is cancelled.
                await asyncio.shield(waiting.leave())
                raise
        return self._held(keeper, granted)


def _seconds(wait: timedelta | None) -> float | None:
    if wait is None:
        return None
    if not isinstance(wait, timedelta) or wait < timedelta(0):
        raise InvalidRequestError(f"wait={shown(wait)}: give a timedelta, or None to wait for ever")
    return wait.total_seconds()


def _info(ticket: LockRequest, now: float) -> LockInfo:
    return LockInfo(
        resource=ticket.resource,
        mode=ticket.mode,
        owner=ticket.owner,
        token=ticket.token,
        since=datetime.fromtimestamp(ticket.since, UTC),
        lease=timedelta(seconds=ticket.lease),
        is_stale=ticket.is_free(now),
    )

"""Locks between tasks, threads, processes and machines that share a store."""

import asyncio
import builtins
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from lance_context_core._handle import handle
from lance_context_core._loop import LATER, Later
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_count, check_name, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.coordination import queueing
from lance_context_core.coordination.conflicts import STANDARD_CONFLICTS, Conflicts
from lance_context_core.coordination.lock import Acquiring, AsyncLock
from lance_context_core.coordination.owners import current_owner
from lance_context_core.coordination.waiting import Waiting, asked_of
from lance_context_core.errors import InvalidRequestError
from lance_context_core.storage.locks import processes
from lance_context_core.storage.locks.renewal import Keeper
from lance_context_core.storage.locks.requests import Book, Ticket

LEASE = timedelta(seconds=30)
_SHORTEST, _LONGEST = timedelta(milliseconds=100), timedelta(days=1)


@frozen_by_name
class LockInfo:
    """A lock that somebody holds, or waits for."""

    resource: str
    mode: str
    owner: str
    """As it was given; else which process, and which task or thread of it, made up by us."""
    token: int | None
    """The fencing token; None while it is waited for."""
    since: datetime
    """When it was granted, or asked for."""
    lease: timedelta
    is_stale: bool
    """Whether whoever comes next takes it: it was not renewed in time, or its process is no more."""


@frozen_by_name
class LockStats:
    """How many locks there are."""

    n_held: int
    n_waiting: int
    n_stale: int
    """Those among both that nobody holds, or waits for, any more."""
    by_mode: Mapping[str, int]
    """Those that are held, by their mode."""
    oldest: LockInfo | None
    """The one that is held the longest."""


@handle
class AsyncLocks:
    """The locks of a store; the same on all its branches and in all its scopes.

    A resource is any name. An owner is who asks: the current task, unless another name is given;
    what one owner holds does not keep that owner of the same process from more.
    """

    _resources: Resources
    _conflicts: Conflicts = field(default=STANDARD_CONFLICTS)

    def using(self, conflicts: Conflicts) -> Self:
        """The same locks with modes of one's own, and what these exclude."""
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
        """The lock on `resource`, to be awaited, or entered with `async with`.

        - `mode`: which others it excludes; see `using`.
        - `lease`: for how long it is held if this process does nothing more; while it lives, the
          lock is renewed. From 0.1 seconds to a day.
        - `wait`: how long to wait for others, None for ever. They get it in the order in which
          they asked. Raises LockTimeoutError after that.
        - `owner`: who asks.

        Raises DeadlockError, which names them, if those who hold it wait for what this owner holds.
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
        """The lock on `resource` if it is free, and nobody waits for it; else None."""
        asked = self._asked(resource, mode, lease, owner)
        keeper = await self._keeper()
        granted = await self._entered(keeper, asked)
        return None if granted is None else self._held(keeper, granted)

    async def list(self, resource: str | None = None) -> builtins.list[LockInfo]:
        """The locks that are held or waited for, of one resource or all, in the order of asking."""
        if resource is not None:
            resource = check_name(resource, "resource")
        found = await (await self._keeper()).shelf.tickets(resource=resource)
        now = self._now()
        return [_info(one, now) for one in found]

    async def stats(self) -> LockStats:
        """How many locks there are."""
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
        """Take the locks on `resource` from whoever holds them, or that with `token`; returns how many.

        Who held one is told when its block ends, and its fenced writes are refused.
        """
        resource = check_name(resource, "resource")
        if token is not None:
            check_count(token, "token")
        keeper = await self._keeper()

        def decide(book: Book) -> int:
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
        """Remove what nobody holds, or waits for, any more; returns how many of them were held.

        It need not be called: whoever comes next does that for the resource it wants.
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
    ) -> AsyncLock | Later:
        """As `acquire`, in any thread and without a wait; LATER where one would have to wait."""
        asked = self._asked(resource, mode, lease, owner)
        _seconds(wait)
        if (keeper := self._resources.writable().locks_now()) is None:
            return LATER
        enter = self._entering(asked)
        granted = keeper.shelf.change_now(enter, resource=asked.resource)
        return self._held(keeper, granted) if isinstance(granted, Ticket) else LATER

    def _now(self) -> float:
        return self._resources.clock.now().timestamp()

    async def _keeper(self) -> Keeper:
        return await self._resources.current().locks()

    def _asked(self, resource: str, mode: str, lease: timedelta, owner: str | None) -> Ticket:
        if not isinstance(lease, timedelta) or not _SHORTEST <= lease <= _LONGEST:
            raise InvalidRequestError(
                f"lease={shown(lease)}: give a timedelta of 0.1 seconds to a day"
            )
        return Ticket(
            seq=0,
            token=None,
            resource=check_name(resource, "resource"),
            mode=self._conflicts.checked(mode),
            owner=current_owner() if owner is None else check_name(owner, "owner"),
            process=processes.mine(),
            since=self._now(),
            until=0.0,
            ticks=0.0,
            lease=lease.total_seconds(),
        )

    def _held(self, keeper: Keeper, ticket: Ticket) -> AsyncLock:
        assert ticket.token is not None
        keeper.keep(ticket, self._now)
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

    async def _entered(self, keeper: Keeper, asked: Ticket) -> Ticket | None:
        """The lock, if it is free."""
        return await asked_of(keeper.shelf, self._entering(asked), resource=asked.resource)

    def _entering(self, asked: Ticket) -> Callable[[Book], Ticket | None]:
        return lambda book: queueing.enter(book, asked, self._now(), self._conflicts)

    async def _acquired(self, asked: Ticket, wait: float | None) -> AsyncLock:
        keeper = await self._keeper()
        granted = await self._entered(keeper, asked)
        if granted is None:
            waiting = Waiting(keeper.shelf, asked, self._conflicts, self._now)
            try:
                granted = await waiting.until_granted(wait)
            except BaseException:
                # Also where the caller is cancelled.
                await asyncio.shield(waiting.leave())
                raise
        return self._held(keeper, granted)


def _seconds(wait: timedelta | None) -> float | None:
    if wait is None:
        return None
    if not isinstance(wait, timedelta) or wait < timedelta(0):
        raise InvalidRequestError(f"wait={shown(wait)}: give a timedelta, or None to wait for ever")
    return wait.total_seconds()


def _info(ticket: Ticket, now: float) -> LockInfo:
    return LockInfo(
        resource=ticket.resource,
        mode=ticket.mode,
        owner=ticket.owner,
        token=ticket.token,
        since=datetime.fromtimestamp(ticket.since, UTC),
        lease=timedelta(seconds=ticket.lease),
        is_stale=ticket.is_stale(now),
    )

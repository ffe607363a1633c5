"""Requests for locks in a log: each change of them is a transaction of it."""

from collections.abc import Callable
from typing import TypeVar

from lance_context_core.storage.locks.fencing import Fence
from lance_context_core.storage.locks.requests import LockTable
from lance_context_core.storage.wal.log import LogSession

T = TypeVar("T")


def require(session: LogSession, fence: Fence) -> None:
    """Raise StaleLockError unless that lock is held, as the transaction of `session` sees it."""
    fence.require(session.lock_request(fence.seq))


def change(session: LogSession, decide: Callable[[LockTable], T], resource: str | None) -> T:
    """As `LockBackend.change`, in the transaction of `session`."""
    book = LockTable.of(session.lock_requests(resource), session.next_lock_number)
    outcome = decide(book)
    there = [seq for seq in book.changed if seq in book.tickets]
    session.put_lock_requests(
        [book.tickets[seq] for seq in there], [*book.changed.difference(there)]
    )
    return outcome

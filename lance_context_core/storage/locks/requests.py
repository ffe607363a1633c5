"""Lock requests: one for each lock that is held or waited for."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

from lance_context_core._loop import WouldBlock
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.storage.leases import Lease, LeaseRenewer


@frozen_by_name
class LockRequest(Lease):
    """One lock that is held, or waited for, under a lease of its process."""

    process: str
    seq: int
    """Its position in the order of arrival."""
    resource: str
    mode: str
    owner: str
    since: float
    """When it was granted, or requested; seconds since 1970."""
    lease: float
    """The seconds for which it is renewed."""

    @property
    def party(self) -> tuple[str, str]:
        """The requesting party: one owner name in two processes is two parties."""
        return self.owner, self.process

    def renewed_at(self, now: float) -> Self:
        """The same request, with a lease that begins at `now`."""
        return self.renewed(self.lease, now)


@dataclass(slots=True)
class LockTable:
    """The requests in a transaction, and their pending changes."""

    tickets: dict[int, LockRequest]
    number: Callable[[], int]
    """Returns a number larger than all that were ever given out."""
    changed: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, tickets: Iterable[LockRequest], number: Callable[[], int]) -> Self:
        """The table of these requests."""
        return cls({one.seq: one for one in tickets}, number)

    def put(self, ticket: LockRequest) -> None:
        """Put this request, replacing the one with its number."""
        self.tickets[ticket.seq] = ticket
        self.changed.add(ticket.seq)

    def remove(self, seq: int) -> None:
        """Remove it."""
        if self.tickets.pop(seq, None) is not None:
            self.changed.add(seq)


COLUMNS = (
    *("seq", "token", "resource", "mode", "owner", "process"),
    *("since", "until", "ticks", "lease"),
)
"""The columns of a stored request, in this order."""


def written(tickets: Iterable[LockRequest], last: int) -> str:
    """All requests as one text."""
    rows = [[getattr(one, name) for name in COLUMNS] for one in tickets]
    return json.dumps({"last": last, "tickets": rows}, ensure_ascii=False)


def read(text: str) -> tuple[list[LockRequest], int]:
    """The requests of such a text, and the last number that was given out."""
    book: dict[str, Any] = json.loads(text)
    return [request_of(row) for row in book["tickets"]], book["last"]


def request_of(row: Iterable[Any]) -> LockRequest:
    """The request of a row of `COLUMNS`."""
    return LockRequest(**dict(zip(COLUMNS, row, strict=True)))


# The storage of a store's requests: one contract of two backends, the log and a table.

T = TypeVar("T")


class LockBackend(Protocol):
    """Stores lock requests; each change is a transaction."""

    is_transactional: bool
    """Whether writes of the store check it in their own transactions; then no caller is cancelled
    between a change and its result."""
    pauses_seconds: tuple[float, float]
    """The shortest and the longest interval of a waiter's checks."""

    async def change(self, decide: Callable[[LockTable], T], *, resource: str | None) -> T:
        """Change the requests by `decide`; returns its result.

        `decide` gets the requests of `resource`; None for all. It must be quick and change nothing
        else, and is called again after another writer; its errors leave everything as it was.
        """

    def change_now(
        self, decide: Callable[[LockTable], T], *, resource: str | None
    ) -> T | WouldBlock:
        """As `change`, in any thread, without a wait; WOULD_BLOCK if it would have to wait."""

    async def tickets(self, *, resource: str | None = None) -> list[LockRequest]:
        """The requests of one resource, or all, in the order of arrival."""


# The locks of this process, which are renewed while it holds them.

Now = Callable[[], float]


class LockRenewer(LeaseRenewer[int, tuple[LockRequest, Now]]):
    """Renews the held locks, all in one transaction."""

    def __init__(self, shelf: LockBackend) -> None:
        """Starts idle, until a lock is held."""
        super().__init__(self._renewed, "a lock")
        self.shelf = shelf

    async def _renewed(self, held: Mapping[int, tuple[LockRequest, Now]]) -> list[int]:
        def decide(book: LockTable) -> list[int]:
            kept = []
            for seq, (known, now) in held.items():
                ticket = book.tickets.get(seq)
                if ticket is not None and ticket.is_held_with(known.token, now()):
                    book.put(ticket.renewed_at(now()))
                    kept.append(seq)
            return kept

        return await self.shelf.change(decide, resource=None)

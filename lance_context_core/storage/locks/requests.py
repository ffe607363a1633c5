"""What is kept of locks: a ticket for each that is held or waited for, and the book of all tickets."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

from lance_context_core._loop import WouldBlock
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.storage.leases import Lease, LeaseRenewer


@frozen_by_name
class LockRequest(Lease):
    """One lock that somebody holds, or waits for, under a lease of its process."""

    process: str
    seq: int
    """Its place in the order of arrival."""
    resource: str
    mode: str
    owner: str
    since: float
    """When it was granted, or asked for; seconds since 1970."""
    lease: float
    """Seconds for which it is renewed."""

    @property
    def party(self) -> tuple[str, str]:
        """Who it is: the same owner's name in two processes is two."""
        return self.owner, self.process

    def renewed_at(self, now: float) -> Self:
        """The same, whose lease begins at `now`."""
        return self.renewed(self.lease, now)


@dataclass(slots=True)
class LockTable:
    """Tickets as they are in a transaction, and what is to become of them."""

    tickets: dict[int, LockRequest]
    number: Callable[[], int]
    """A number that was never given out before, and is larger than all that were."""
    changed: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, tickets: Iterable[LockRequest], number: Callable[[], int]) -> Self:
        """That of these tickets."""
        return cls({one.seq: one for one in tickets}, number)

    def put(self, ticket: LockRequest) -> None:
        """Have this ticket, in the place of the one with its number."""
        self.tickets[ticket.seq] = ticket
        self.changed.add(ticket.seq)

    def remove(self, seq: int) -> None:
        """Have it no more."""
        if self.tickets.pop(seq, None) is not None:
            self.changed.add(seq)


COLUMNS = (
    *("seq", "token", "resource", "mode", "owner", "process"),
    *("since", "until", "ticks", "lease"),
)
"""What a ticket is written as, in this order."""


def written(tickets: Iterable[LockRequest], last: int) -> str:
    """A whole book as one text."""
    rows = [[getattr(one, name) for name in COLUMNS] for one in tickets]
    return json.dumps({"last": last, "tickets": rows}, ensure_ascii=False)


def read(text: str) -> tuple[list[LockRequest], int]:
    """The tickets of a book, and the last number that was given out."""
    book: dict[str, Any] = json.loads(text)
    return [request_of(row) for row in book["tickets"]], book["last"]


def request_of(row: Iterable[Any]) -> LockRequest:
    """The ticket of a row of `COLUMNS`."""
    return LockRequest(**dict(zip(COLUMNS, row, strict=True)))


# Where the tickets of a store are: one contract of two places, the journal and a table.

T = TypeVar("T")


class LockBackend(Protocol):
    """Keeps tickets; each change is a transaction."""

    is_transactional: bool
    """Whether the writes of the store look at it in their own transactions; nobody is cancelled then
    between a change and being told of it."""
    pauses_seconds: tuple[float, float]
    """The shortest and the longest time between two looks of who waits."""

    async def change(self, decide: Callable[[LockTable], T], *, resource: str | None) -> T:
        """Do to the tickets what `decide` does to their book; returns what it returns.

        `resource` is the only one whose tickets are in the book; None for all. It must be quick and
        change nothing else, and is called again where somebody else was writing; what it raises
        leaves all as it was.
        """

    def change_now(
        self, decide: Callable[[LockTable], T], *, resource: str | None
    ) -> T | WouldBlock:
        """As `change`, in any thread and without a wait; WOULD_BLOCK where one would have to wait."""

    async def tickets(self, *, resource: str | None = None) -> list[LockRequest]:
        """Those of one resource, or all, in the order of arrival."""


# The locks that this process holds, which are renewed for as long as it does.

Now = Callable[[], float]


class LockRenewer(LeaseRenewer[int, tuple[LockRequest, Now]]):
    """Renews what is held, all of it in one transaction."""

    def __init__(self, shelf: LockBackend) -> None:
        """Nothing runs until something is held."""
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

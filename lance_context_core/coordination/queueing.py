"""The queue of a lock: blocking tickets, and cycles of waiting owners."""

from collections.abc import Iterable
from dataclasses import replace

from lance_context_core.coordination.changes import Conflicts
from lance_context_core.storage import leases
from lance_context_core.storage.locks.requests import LockRequest, LockTable

Party = tuple[str, str]

_LAST = 2**63
"""Sorts after all numbers."""


def blocking(
    ticket: LockRequest, tickets: Iterable[LockRequest], conflicts: Conflicts
) -> list[LockRequest]:
    """Return others' locks that exclude `ticket`, and earlier requests for such locks."""
    return [
        one
        for one in tickets
        if one.resource == ticket.resource
        and one.party != ticket.party
        and (one.token is not None or one.seq < ticket.seq)
        and conflicts.are_between(one.mode, ticket.mode)
    ]


def sweep(book: LockTable, now: float, *, resource: str | None = None) -> list[LockRequest]:
    """Remove and return expired entries, and those of ended processes."""
    stale = [
        one
        for one in book.tickets.values()
        if resource in (None, one.resource) and one.is_free(now)
    ]
    for one in stale:
        book.remove(one.seq)
    return stale


def enter(
    book: LockTable, asked: LockRequest, now: float, conflicts: Conflicts
) -> LockRequest | None:
    """Grant a request at once, if nothing is before it; else return None without changes.

    `asked` has no number yet; expired entries are removed.
    """
    sweep(book, now, resource=asked.resource)
    if blocking(replace(asked, seq=_LAST), book.tickets.values(), conflicts):
        return None
    number = book.number()
    return _grant(book, replace(asked, seq=number), number, now)


def advance(book: LockTable, ticket: LockRequest, now: float, conflicts: Conflicts) -> LockRequest:
    """Grant a waiting ticket if nothing is before it; else renew its place.

    A ticket that was removed, because its process was stopped for long, is added at the end again.
    """
    kept = book.tickets.get(ticket.seq)
    sweep(book, now, resource=ticket.resource)
    if kept is None:
        ticket = replace(ticket, seq=book.number())
    if blocking(ticket, book.tickets.values(), conflicts):
        book.put(waiting := ticket.renewed_at(now))
        return waiting
    return _grant(book, ticket, book.number(), now)


def cycle(
    ticket: LockRequest, tickets: Iterable[LockRequest], conflicts: Conflicts
) -> list[LockRequest] | None:
    """Return the cycle of waiting tickets through `ticket`, starting with it."""
    everything = list(tickets)
    waiting: dict[Party, list[LockRequest]] = {}
    for one in everything:
        if one.token is None:
            waiting.setdefault(one.party, []).append(one)
    seen = set[Party]()

    def search(at: LockRequest, path: list[LockRequest]) -> list[LockRequest] | None:
        for other in blocking(at, everything, conflicts):
            if other.party == ticket.party:
                return path
            if other.party not in seen:
                seen.add(other.party)
                for step in waiting.get(other.party, ()):
                    if (found := search(step, [*path, step])) is not None:
                        return found
        return None

    return search(ticket, [ticket])


def told(tickets: list[LockRequest]) -> str:
    """Return a description of a cycle."""
    steps = [
        f"{one.owner!r} ({leases.shown(one.process)}) waits for {one.resource!r}" for one in tickets
    ]
    return ", held by or asked for before by whom ".join(steps)


def _grant(book: LockTable, ticket: LockRequest, token: int, now: float) -> LockRequest:
    granted = replace(ticket, token=token, since=now).renewed_at(now)
    book.put(granted)
    return granted

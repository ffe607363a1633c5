"""Where the tickets of a store are: one contract of two places, the journal and a table."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from lance_context_core._loop import Later
from lance_context_core.engine.locks.tickets import Book, Ticket

T = TypeVar("T")


class Shelf(Protocol):
    """Keeps tickets; each change is a transaction."""

    is_transactional: bool
    """Whether the writes of the store look at it in their own transactions; nobody is cancelled then
    between a change and being told of it."""
    pauses_seconds: tuple[float, float]
    """The shortest and the longest time between two looks of who waits."""

    async def change(self, decide: Callable[[Book], T], *, resource: str | None) -> T:
        """Do to the tickets what `decide` does to their book; returns what it returns.

        `resource` is the only one whose tickets are in the book; None for all. It must be quick and
        change nothing else, and is called again where somebody else was writing; what it raises
        leaves all as it was.
        """

    def change_now(self, decide: Callable[[Book], T], *, resource: str | None) -> T | Later:
        """As `change`, in any thread and without a wait; LATER where one would have to wait."""

    async def tickets(self, *, resource: str | None = None) -> list[Ticket]:
        """Those of one resource, or all, in the order of arrival."""

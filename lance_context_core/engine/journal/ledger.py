"""The journal as one table sees it, and the moments in which that table is committed to."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TypeVar

from lance_context_core._loop import Later
from lance_context_core.engine.journal.closed import Closed
from lance_context_core.engine.journal.entries import New, News, View
from lance_context_core.engine.journal.journal import Journal
from lance_context_core.engine.journal.mirror import Recalled
from lance_context_core.engine.journal.policy import JournalPolicy
from lance_context_core.engine.journal.statements import Part
from lance_context_core.engine.journal.transactions import Amending

T = TypeVar("T")

_section: ContextVar["tuple[Journal, Closed] | None"] = ContextVar("_section", default=None)
"""The journal that this task, or the one that began it, has closed to all others."""


class Ledger:
    """The journal's part about one table on one ref."""

    def __init__(self, journal: Journal, name: str, ref: str | None) -> None:
        self.part = Part(name, ref or "")
        self._journal = journal

    async def policy(self) -> JournalPolicy | None:
        """What it takes; None if it takes nothing new."""
        return await self._journal.policy()

    def policy_now(self) -> JournalPolicy | None:
        """As `Journal.policy_now`."""
        return self._journal.policy_now()

    async def exists(self) -> bool:
        """As `Journal.exists`."""
        return await self._journal.exists()

    async def view(self) -> View | None:
        """What is in it, and which version of the table goes with that; None if it is not known."""
        return await self._journal.view(self.part)

    async def news(self, token: int, last: int) -> News | None:
        """As `Journal.news`."""
        return await self._journal.news(self.part, token, last)

    def news_now(self, token: int, last: int) -> News | None:
        """As `Journal.news_now`."""
        return self._journal.news_now(self.part, token, last)

    def on_break(self, forget: Callable[[], None]) -> None:
        """Have `forget` called where the table was changed otherwise than by entries that were seen."""
        self._journal.on_break(lambda part: forget() if part == self.part else None)

    async def floor(self) -> int:
        """As `Journal.floor`."""
        return await self._journal.floor(self.part)

    async def recall(self, seqs: Sequence[int]) -> Recalled:
        """As `Journal.recall`."""
        return await self._journal.recall(self.part, seqs)

    async def write(self, decide: Callable[[View], Sequence[New] | None]) -> View | None:
        """As `Journal.write`."""
        return await self._journal.write(self.part, decide)

    def write_now(self, decide: Callable[[View], Sequence[New] | None]) -> View | None:
        """As `Journal.write_now`."""
        return self._journal.write_now(self.part, decide)

    async def amend(self, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T:
        """As `Journal.amend`."""
        return await self._journal.amend(self.part, decide)

    def amend_now(self, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T | Later:
        """As `Journal.amend_now`."""
        return self._journal.amend_now(self.part, decide)

    async def fullness(self) -> tuple[int, int]:
        """As `Journal.fullness`."""
        return await self._journal.fullness(self.part)

    async def make(self) -> None:
        """As `Journal.make`; not in `committing` or `folding`."""
        await self._journal.make()

    async def note(self, version: int, *, is_change: bool = True) -> None:
        """Know the table, at that version; in `committing`, or `folding`.

        As `Journal.note`; in `committing` it is a change.
        """
        if (section := self._closed()) is not None:
            section.note(self.part, version)
        else:
            await self._journal.note(self.part, version, is_change=is_change)

    async def names(self) -> dict[int, int]:
        """As `Journal.names`."""
        return await self._journal.names(self.part)

    async def forget_names(self, kept: Collection[int]) -> None:
        """As `Journal.forget_names`."""
        await self._journal.forget_names(self.part, kept)

    async def begin(self, last: int | None) -> View | None:
        """Say which entries are to be folded next, up to the `last`, and return these."""
        if self._closed() is None and await self._journal.exists():
            await self._journal.begin(self.part, last)
            last = await self._journal.folding(self.part)
        view = await self.view()
        return view if view is None or last is None else view.until(last)

    async def forget(self, last: int, version: int, *, tells_moments: bool = False) -> None:
        """Let go of the entries up to `last`, which are in that version; in `committing` or `folding`."""
        if (section := self._closed()) is not None:
            section.forget(self.part, last, version, tells_moments=tells_moments)
        else:
            await self._journal.forget(self.part, last, version, tells_moments=tells_moments)

    async def doubt(self) -> int:
        """As `Closed.doubt`; in `committing`."""
        section = self._closed()
        return 0 if section is None else await section.doubt(self.part)

    async def discard(self) -> None:
        """Let go of the table with all entries, at once and for good; in `committing`, or `folding`."""
        if (section := self._closed()) is not None:
            await section.discard(self.part)
        else:
            await self._journal.discard(self.part)

    @asynccontextmanager
    async def folding(self) -> AsyncIterator[None]:
        """Fold in here: nobody else commits to a table of the store."""
        if self._closed() is not None:
            yield
        else:
            async with self._journal.alone():
                yield

    @asynccontextmanager
    async def committing(self) -> AsyncIterator[None]:
        """Commit in here: nobody else does, nor writes into the journal. May stand in itself.

        Where there is no journal, others commit beside this, and who makes one waits before using it.
        """
        journal = self._journal
        if self._closed() is not None or not await journal.is_locked():
            yield
            return
        if not await journal.exists():
            async with journal.beside_others():
                if not await journal.exists():
                    yield
                    return
        async with journal.alone(), journal.closed() as closed:
            token = _section.set((journal, closed))
            try:
                yield
            finally:
                _section.reset(token)

    def _closed(self) -> Closed | None:
        section = _section.get()
        return section[1] if section is not None and section[0] is self._journal else None

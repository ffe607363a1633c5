"""The journal as one table sees it, and the moments in which that table is committed to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

from lance_context_core._loop import WOULD_BLOCK, WouldBlock
from lance_context_core.storage.wal.entries import New, News, View
from lance_context_core.storage.wal.journal import ExclusiveSection, Journal
from lance_context_core.storage.wal.log import BusyError, LogSession, Part, TableState
from lance_context_core.storage.wal.log_reader import ManyError, Recalled
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.transactions import Amending
from lance_context_core.storage.wal.waiting import retry_busy

T = TypeVar("T")

_SHORT_PATIENCE_SECONDS = 0.5
"""How long a thread waits for others before it leaves that to the store's loop."""

_NO_END = 2**63 - 1


class State(NamedTuple):
    """What the journal has noted of a table."""

    table: int = 0
    """Which one, as `View.table`; 0 if it knows none."""
    version: int = 0
    """As in the file: negative while somebody commits to the table directly."""
    is_folding: bool = False
    """As `View.is_folding`."""


_section: ContextVar["tuple[Journal, ExclusiveSection] | None"] = ContextVar(
    "_section", default=None
)
"""The journal that this task, or the one that began it, has closed to all others."""


@asynccontextmanager
async def beside_others(journal: Journal) -> AsyncIterator[None]:
    """Commit in here to a table that the log does not hold; waits while another has the store alone."""
    if await journal.is_locked() and await journal.exists():
        async with journal.beside_others():
            yield
    else:
        yield


class TableLog:
    """The journal's part about one table on one ref."""

    def __init__(self, journal: Journal, name: str, ref: str | None) -> None:
        self.part = Part(name, ref or "")
        self._journal = journal
        self._log, self._waiting = journal.log, journal.waiting
        self._transactions = journal.transactions

    async def policy(self) -> JournalPolicy | None:
        """What it takes; None if it takes nothing new."""
        return await self._journal.policy()

    async def exists(self) -> bool:
        """As `Journal.exists`."""
        return await self._log.opened() is not None

    # Reading

    async def view(self) -> View | None:
        """What is in it, and which version of the table goes with that; None if it is not known."""
        if await self._log.opened() is None:
            return None
        return await self._looked(lambda: self._waiting.insist(self._transactions.view, self.part))

    async def news(self, token: int, last: int) -> News | None:
        """What is in it, and what came after `last`, if since `token` that was all.

        None if the table is not known.
        """
        if await self._log.opened() is None:
            return None
        return await self._looked(
            lambda: self._waiting.insist(self._transactions.news, self.part, token, last)
        )

    def news_now(self, token: int, last: int) -> News | None:
        """As `news`, in any thread and without a wait; None, too, where one would have to wait."""
        try:
            if not self._log.is_open():
                return None
            return self._transactions.news(self.part, token, last)
        except (BusyError, ManyError):
            return None

    def on_break(self, forget: Callable[[], None]) -> None:
        """Have `forget` called where the table was changed otherwise than by entries that were seen."""
        self._journal.on_break(lambda part: forget() if part == self.part else None)

    async def floor(self) -> int:
        """The version of the table that holds, with the entries, all that was acknowledged; 0 if none is.

        While somebody commits to it directly, or was killed at that, it is the one before.
        """
        found = await self._noted()
        return abs(found.version) if found else 0

    async def state(self) -> State:
        """What is noted of the table, without the entries."""
        if (found := await self._noted()) is None:
            return State()
        return State(found.table, found.version, is_folding=found.folding > found.folded)

    async def is_to_be_told(self) -> bool:
        """Whether there is a journal that has not noted any version of the table."""
        return await self.exists() and not (await self.state()).table

    async def fullness(self) -> tuple[int, int]:
        """How many entries there are, and their bytes."""
        return await self._journal.asked(lambda session: session.fullness(self.part), (0, 0))

    async def recall(self, seqs: Sequence[int]) -> Recalled:
        """What is known of the entries of those places, whatever has become of them."""
        await self.view()
        with self._log.lock:
            return self._journal.mirrors.recall(self.part, seqs)

    async def names(self) -> dict[int, int]:
        """The versions in which rows came to be whose writers were told of others, by these.

        Mostly a later one, where a commit that brought nothing came between, such as a merge of files.
        """
        return await self._journal.asked(lambda session: session.names(self.part), {})

    async def forget_names(self, kept: Collection[int]) -> None:
        """Forget that numbers meant versions which are gone: all older ones but the `kept`."""
        gone = {one for one in (await self.names()).values() if one < max(kept, default=0)}
        if gone := gone.difference(kept):
            await self._do(lambda session: session.forget_names(self.part, sorted(gone)))

    # Writing

    async def write(
        self,
        decide: Callable[[View], Sequence[New] | None],
        then: Callable[[View | None], None] | None = None,
        *,
        keeps_states: bool = False,
    ) -> View | None:
        """Write what `decide` makes of what is there, which stays so meanwhile; returns what is then.

        `then` is called with that view first, in the order of the writes.

        None if the table or its version is not known, or if `decide` wants nothing written since it
        is not as expected.
        It must be quick, and is called again where another process was writing. With `keeps_states`,
        rows that are changed or removed stay in the version that their write has returned.
        """
        await self._log.opened()
        work = self._transactions.write(self.part, decide, keeps_states=keeps_states)
        return await self._looked(lambda: self._transactions.commit(work, then))

    async def write_all(
        self,
        parts: Sequence[Part],
        decide: Callable[[Sequence[View]], Sequence[Sequence[New]] | None],
        changes: Sequence[tuple[Part, Callable[[Amending], tuple[Sequence[New], object]]]],
        *,
        keeping: Collection[Part] = (),
    ) -> Sequence[View] | None:
        """As `write`, of several tables of the store at once: all of it, or nothing.

        The states of rows are kept in those tables that are `keeping` them. Afterwards the `changes` are made as by `amend`, in the same transaction.
        """
        await self._log.opened()
        work = self._transactions.write_all(parts, decide, changes, keeping=keeping)
        return await self._looked(lambda: self._transactions.commit(work))

    def write_now(self, decide: Callable[[View], Sequence[New] | None]) -> View | None:
        """As `write`, in any thread and without a wait; None, too, where one would have to wait."""
        try:
            if not self._log.is_open():
                return None
            return self._transactions.commit_now(self._transactions.write(self.part, decide))
        except (BusyError, ManyError):
            return None

    async def amend(self, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T:
        """Write what `decide` makes of what is kept beside the entries, in the same transaction.

        Returns what it returns. Nothing is read of the entries that others have written. Raises
        `NotKnownError` if the table or its version is not known; and what `decide` raises, which
        leaves all as it was.
        """
        await self._log.opened()
        return await self._transactions.commit(self._transactions.amend(self.part, decide))

    def amend_now(self, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T | WouldBlock:
        """As `amend`, in any thread, where others are waited for; WOULD_BLOCK where that takes long."""
        work = self._transactions.amend(self.part, decide)
        try:
            if not self._log.is_open():
                return WOULD_BLOCK
            return retry_busy(lambda: self._transactions.commit_now(work), _SHORT_PATIENCE_SECONDS)
        except BusyError:
            return WOULD_BLOCK

    # Folding and committing

    async def make(self) -> None:
        """As `Journal.make`; not in `committing` or `folding`."""
        await self._journal.make()

    async def note(self, version: int, *, is_change: bool = True) -> None:
        """Know the table, and that this version goes with the entries; in `committing`, or `folding`.

        The journal is there, as a look just before has shown. `is_change` says whether the version holds anything else than the one before, as always in
        `committing`. Where it does not, what is looked up beside the entries counts on.
        """
        if (section := self._closed()) is not None:
            section.note(self.part, version)
        else:
            await self._do(lambda session: session.note(self.part, version, is_change=is_change))

    async def begin(self, last: int | None) -> View | None:
        """Say which entries are to be folded next, up to the `last`, and return these."""
        if self._closed() is None and await self.exists():
            until = _NO_END if last is None else last
            await self._do(lambda session: session.begin_flush(self.part, until))
            found = await self._noted()
            last = found.folding if found else None
        view = await self.view()
        return view if view is None or last is None else view.until(last)

    async def forget(self, last: int, version: int, *, tells_moments: bool = False) -> None:
        """Let go of the entries up to `last`, which are in that version; in `committing` or `folding`."""
        if (section := self._closed()) is not None:
            section.forget(self.part, last, version, tells_moments=tells_moments)
        else:
            await self._do(
                lambda session: session.forget(
                    self.part, last, version, tells_moments=tells_moments
                )
            )
            await self._journal.keep_log_small()

    async def doubt(self) -> int:
        """As `ExclusiveSection.doubt`; in `committing`."""
        section = self._closed()
        return 0 if section is None else await section.doubt(self.part)

    async def discard(self) -> None:
        """Let go of the table with all entries, at once and for good; in `committing`, or `folding`."""
        if (section := self._closed()) is not None:
            await section.discard(self.part)
        elif await self.exists():
            await self._do(lambda session: session.discard(self.part))

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

    # Helpers

    async def _noted(self) -> TableState | None:
        return await self._journal.asked(lambda session: session.state(self.part), None)

    async def _do(self, change: Callable[[LogSession], None]) -> None:
        """Do that, all or nothing of it."""
        await self._transactions.commit(self._transactions.transact(change))

    async def _looked(self, look: Callable[[], Awaitable[T]]) -> T:
        """What `look` finds, which looks at a table; if much is new there, it is read in steps."""
        while True:
            try:
                return await look()
            except ManyError as many:
                is_more = True
                while is_more:
                    is_more = await self._waiting.insist(self._transactions.prepare, many)
                    await asyncio.sleep(0)

    def _closed(self) -> ExclusiveSection | None:
        section = _section.get()
        return section[1] if section is not None and section[0] is self._journal else None

"""The journal of a store: small writes, acknowledged by one transaction of SQLite, until they are folded.

Two locks keep the tables and the journal one. Whoever commits to a table has the store's lock alone
(`alone`); whoever writes there otherwise than by folding also keeps others from the journal (`closed`),
so that what it writes has a place among the entries. Nobody else waits: entries are written while
others fold, and reads need no lock: the journal says which version of a table goes with its entries.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from lance_context_core._loop import LATER, Later
from lance_context_core.engine.files.locks import locked
from lance_context_core.engine.files.mounts import is_shared
from lance_context_core.engine.journal import file, lock, statements
from lance_context_core.engine.journal.closed import Closed, closed
from lance_context_core.engine.journal.entries import New, News, View
from lance_context_core.engine.journal.looking import Looking, ManyError
from lance_context_core.engine.journal.mirror import Mirrors, Recalled
from lance_context_core.engine.journal.policy import JournalPolicy
from lance_context_core.engine.journal.statements import Part
from lance_context_core.engine.journal.transactions import Amending, Transactions
from lance_context_core.engine.journal.ways import Waiting, Ways, patiently

P = ParamSpec("P")
T = TypeVar("T")

_MOST_LOG_BYTES = 4 * 1024 * 1024
"""What SQLite's log may grow to until it is moved into the database, which takes a millisecond or two."""

_SHORT_PATIENCE_SECONDS = 0.5
"""How long a thread waits for others before it leaves that to the store's loop."""

_LONG_PATIENCE_SECONDS = 600
"""How long a commit to a table waits for somebody else's, which may bring a million rows."""

_WIPE_SECONDS = 10
"""How long wiping waits for a moment without readers: they need microseconds, unless they are stopped."""

_NO_END = 2**63 - 1


class Journal:
    """Safe to share between threads and loops; nothing is made before the first write."""

    def __init__(
        self,
        root: Path,
        policy: JournalPolicy | None,
        *,
        is_synced: bool,
        require_open: Callable[[], None],
    ) -> None:
        """That of the store in the directory `root`; without a `policy` it takes nothing new.

        Nor does it where other machines may have that directory: SQLite could not keep them apart.

        `require_open` raises once the store is closed, and in a process forked since it was opened.
        """
        self._policy = policy
        self._has_others: bool | None = None
        """Whether other machines may have the directory; None if nobody has asked."""
        self._root = root
        self._path = root / file.NAME
        self._is_synced = is_synced
        self._mirrors = Mirrors()
        self._looking = Looking(self._path, self._mirrors)
        self._waiting = Waiting(self._path)
        self._ways = Ways(
            self._path,
            self._waiting,
            is_synced=is_synced,
            require_open=require_open,
            on_loss=self._mirrors.clear,
        )
        self._transactions = Transactions(root, self._ways, self._looking)

    def on_break(self, forget: Callable[[Part], None]) -> None:
        """Have `forget` called where a table was changed otherwise than by entries that were seen."""
        self._mirrors.on_break.append(forget)

    async def is_locked(self) -> bool:
        """Whether whoever commits here has to have the store's lock."""
        return await self.is_kept() or lock.exists(self._root)

    async def policy(self) -> JournalPolicy | None:
        """What it takes; None if it takes nothing new."""
        return self._policy if self._policy is not None and await self.is_kept() else None

    def policy_now(self) -> JournalPolicy | None:
        """As `policy`, without a look at the disk: None, too, before anybody has looked."""
        return self._policy if self._has_others is False else None

    async def is_kept(self) -> bool:
        """Whether its database can be used at all: no other machine may have the directory."""
        if self._has_others is None:
            self._has_others = await asyncio.to_thread(is_shared, self._root)
        return not self._has_others

    # Reading

    async def view(self, part: Part) -> View | None:
        """What it holds of a table; None of one that it does not know."""
        if not self._ways.is_open() and await self._ways.opened() is None:
            return None
        return await self._looked(self._transactions.view, part)

    async def news(self, part: Part, token: int, last: int) -> News | None:
        """What it holds of a table, and what came after `last`, if since `token` that was all.

        None of a table that it does not know.
        """
        if await self._ways.opened() is None:
            return None
        return await self._looked(self._transactions.news, part, token, last)

    def news_now(self, part: Part, token: int, last: int) -> News | None:
        """As `news`, in any thread and without a wait; None, too, where one would have to wait."""
        try:
            return self._transactions.news(part, token, last) if self._ways.is_open() else None
        except (file.BusyError, ManyError):
            return None

    async def recall(self, part: Part, seqs: Sequence[int]) -> Recalled:
        """What is known of the entries of those places, whatever has become of them."""
        await self.view(part)
        with self._ways.lock:
            return self._mirrors.recall(part, seqs)

    async def parts(self) -> list[Part]:
        """The tables of which it holds something."""
        statement = "SELECT DISTINCT name, ref FROM rows JOIN tables ON tables.id = rows.tbl"
        return [Part(*row) for row in await self._asked(statement)]

    async def refs(self, name: str) -> list[str]:
        """The refs of a table that it knows; empty for main."""
        return [ref for (ref,) in await self._asked(statements.REFS, (name,))]

    async def floor(self, part: Part) -> int:
        """The version of a table that holds, with the entries, all that was acknowledged; 0 if none is.

        While somebody commits to it directly, or was killed at that, it is the one before.
        """
        found = await self._asked(statements.TABLE, part)
        return abs(int(found[0][1])) if found else 0

    async def names(self, part: Part) -> dict[int, int]:
        """The versions in which rows came to be whose writers were told of others, by these.

        A later one, where a commit that brought nothing came between, such as a merge of files. An
        earlier one, where a fold failed: then the next brought what came meanwhile, too.
        """
        return dict(await self._asked(statements.NAMES, part))

    async def forget_names(self, part: Part, kept: Collection[int]) -> None:
        """Forget that numbers meant versions which are gone: all older ones but the `kept`."""
        gone = {one for one in (await self.names(part)).values() if one < max(kept, default=0)}
        if gone := gone.difference(kept):
            done = [(statements.FORGET_NAME, (one, *part)) for one in sorted(gone)]
            await self._waiting.insist(self._transactions.do, done)

    async def removals(self, part: Part, after: int, until: int) -> dict[str, int]:
        """When rows of the table were removed in that time, by key, in microseconds; of the last month."""
        return dict(await self._asked(statements.REMOVALS, (*part, after, until)))

    async def exists(self) -> bool:
        """Whether the store has a journal."""
        return await self._ways.opened() is not None

    # Writing

    async def write(
        self, part: Part, decide: Callable[[View], Sequence[New] | None]
    ) -> View | None:
        """Write what `decide` makes of what is there, which stays so meanwhile; returns what is then.

        None if the table or its version is not known, or if `decide` wants nothing written since it
        is not as expected.
        It must be quick, and is called again where somebody else was writing.
        """
        if not self._ways.is_open():
            await self._ways.opened()
        return await self._looked(self._transactions.write, part, decide)

    def write_now(self, part: Part, decide: Callable[[View], Sequence[New] | None]) -> View | None:
        """As `write`, in any thread and without a wait; None, too, where one would have to wait."""
        try:
            return self._transactions.write(part, decide) if self._ways.is_open() else None
        except (file.BusyError, ManyError):
            return None

    async def amend(self, part: Part, decide: Callable[[Amending], tuple[Sequence[New], T]]) -> T:
        """Write what `decide` makes of what is kept beside the entries, in the same transaction.

        Returns what it returns. Nothing is read of the entries that others have written. Raises
        `NotKnownError` if the table or its version is not known; and what `decide` raises, which
        leaves all as it was.
        """
        await self._ways.opened()
        return await self._waiting.insist(lambda: self._transactions.amend(part, decide))

    def amend_now(
        self, part: Part, decide: Callable[[Amending], tuple[Sequence[New], T]]
    ) -> T | Later:
        """As `amend`, in any thread, where others are waited for; LATER where that takes long."""

        def work() -> T:
            return self._transactions.amend(part, decide)

        try:
            return patiently(work, _SHORT_PATIENCE_SECONDS) if self._ways.is_open() else LATER
        except file.BusyError:
            return LATER

    async def fullness(self, part: Part) -> tuple[int, int]:
        """How many entries of a table there are, and their bytes."""
        found = await self._asked(statements.FULLNESS, part)
        return found[0] if found else (0, 0)

    async def make(self) -> None:
        """Make the journal, unless there is one.

        Who began a commit before that has ended it once one has had the store's lock alone. To wait
        for that lock first could take for ever, where others share it without a pause.
        """
        if not await self.exists():
            await asyncio.to_thread(lock.make_root, self._root)
            # As who makes a table.
            async with locked(self._root):
                await self._ways.opened(is_made=True)

    async def note(self, part: Part, version: int, *, is_change: bool) -> None:
        """Know a table, and that this version goes with the entries; for who has the store's lock.

        `is_change` says whether the version holds anything else than the one before. Where it does
        not, what is looked up beside the entries counts on.
        """
        await self._ways.opened()
        noted = statements.noted(part, version, is_change=is_change)
        await self._waiting.insist(self._transactions.do, noted)

    async def begin(self, part: Part, last: int | None) -> None:
        """Say which entries are to be folded next: those up to `last`, or all."""
        values = (_NO_END if last is None else last, *part)
        await self._waiting.insist(self._transactions.do, [(statements.BEGUN, values)])

    async def folding(self, part: Part) -> int | None:
        """The last entry that is being folded; None if the table is not known."""
        found = await self._asked(statements.TABLE, part)
        return int(found[0][3]) if found else None

    async def forget(self, part: Part, last: int, version: int, *, tells_moments: bool) -> None:
        """Let go of the entries up to `last`, which this version holds; for who has the store's lock."""
        done = statements.forgotten(part, last, version, tells_moments=tells_moments)
        await self._waiting.insist(self._transactions.do, done)
        await self.keep_log_small()

    async def discard(self, part: Part) -> None:
        """Let go of a table, with its entries; for who has the store's lock."""
        if await self._ways.opened() is not None:
            await self._waiting.insist(self._transactions.do, statements.discarded(part))

    async def wipe(self) -> bool:
        """Leave nothing in the file of entries that were folded or discarded; what is there stays.

        False if others kept reading it: something may be left until the next time.
        """
        if await self._ways.opened() is None:
            return True
        async with self.alone():
            return await asyncio.to_thread(self._wipe)

    async def keep_log_small(self) -> None:
        """Move what is in the log into the database, if it has become much."""
        if file.log_bytes(self._path) > _MOST_LOG_BYTES:
            await asyncio.to_thread(file.checkpoint, self._path, is_synced=self._is_synced)

    # What else lives in its database

    async def transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work`, which must be quick, in a transaction of its own; the journal must exist."""
        await self._ways.opened()
        return await self._waiting.insist(self._transactions.transact, work)

    def transact_now(self, work: Callable[[sqlite3.Connection], T]) -> T | Later:
        """As `transact`, in any thread and without a wait; LATER where one would have to wait."""
        try:
            return self._transactions.transact(work) if self._ways.is_open() else LATER
        except file.BusyError:
            return LATER

    async def ask(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work`, which reads with one statement; the journal must exist."""
        await self._ways.opened()
        return await self._waiting.insist(self._transactions.ask, work)

    # Locks

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Commit to a table in here: nobody else does."""
        return self._held(shared=False)

    def beside_others(self) -> AbstractAsyncContextManager[None]:
        """Commit to a table in here, as others may who do so too."""
        return self._held(shared=True)

    def closed(self) -> AbstractAsyncContextManager[Closed]:
        """Keep all others from writing into the journal; for who has the store's lock."""
        return closed(self._ways, self._waiting, self._path, self._transactions.require_fences)

    def close(self) -> None:
        """Let go of the file; closing twice is no error."""
        self._ways.close()

    # Helpers

    @asynccontextmanager
    async def _held(self, *, shared: bool) -> AsyncIterator[None]:
        """Have the store's lock, which is waited for."""
        patience = _LONG_PATIENCE_SECONDS
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(
                    lock.held(self._root, shared=shared, patience_seconds=patience)
                )
            except TimeoutError as error:
                raise self._waiting.locked(patience) from error
            yield

    async def _looked(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `Waiting.insist`, of what looks at a table; if much is new there, it is read in steps."""
        while True:
            try:
                return await self._waiting.insist(work, *args, **kwargs)
            except ManyError as many:
                is_more = True
                while is_more:
                    is_more = await self._waiting.insist(self._transactions.prepare, many)
                    await asyncio.sleep(0)

    def _wipe(self) -> bool:
        try:
            patiently(lambda: file.wipe(self._path), _WIPE_SECONDS)
        except file.BusyError:
            return False
        return True

    async def _asked(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What the file says; nothing if there is none."""
        if await self._ways.opened() is None:
            return []
        return await self._waiting.insist(self._transactions.asked, statement, values)

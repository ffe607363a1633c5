"""The journal while whoever commits to a table keeps all others from writing into it."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from lance_context_core.engine.journal import file, statements
from lance_context_core.engine.journal.statements import Part
from lance_context_core.engine.journal.ways import Waiting, Ways
from lance_context_core.errors import StorageError


class Closed:
    """The journal while nobody else writes into it."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, begin: Callable[[], Awaitable[None]]
    ) -> None:
        self._connection = connection
        self._path = path
        self._begin = begin

    def note(self, part: Part, version: int) -> None:
        """As `Ledger.note`, of a change."""
        self._do(statements.noted(part, version))

    def forget(self, part: Part, last: int, version: int, *, tells_moments: bool) -> None:
        """As `Ledger.forget`."""
        self._do(statements.forgotten(part, last, version, tells_moments=tells_moments))

    async def doubt(self, part: Part) -> int:
        """Do not know the version of a table, which has no entries, until one is noted.

        That, and all that was forgotten, is so whatever becomes of this process: what is committed
        to the table next must not meet entries that were folded before. Returns the version, which
        the journal keeps as that before; 0 if it was not known.
        """
        with file.translated(self._path):
            found = self._connection.execute(statements.TABLE, part).fetchone()
        self._do([(statements.DOUBTED, tuple(part))])
        await self._secure()
        return 0 if found is None else max(int(found[1]), 0)

    async def discard(self, part: Part) -> None:
        """Let go of a table, with its entries, whatever becomes of this process."""
        self._do(statements.discarded(part))
        await self._secure()

    async def _secure(self) -> None:
        with file.translated(self._path):
            self._connection.execute("COMMIT")
        await self._begin()

    def _do(self, done: statements.Statements) -> None:
        with file.translated(self._path):
            for statement, values in done:
                self._connection.execute(statement, values)


@asynccontextmanager
async def closed(
    ways: Ways, waiting: Waiting, path: Path, require: Callable[[sqlite3.Connection], None]
) -> AsyncIterator[Closed]:
    """Keep all others from writing into the journal at `path`, through a connection of one's own.

    Each transaction of it begins with what is to `require`, which may raise.
    """
    await ways.opened()
    connection = await ways.take()

    async def begin() -> None:
        await waiting.insist(_begin, connection, path, require)

    try:
        await begin()
        try:
            yield Closed(connection, path, begin)
        finally:
            await waiting.insist(_end, connection, path)
    finally:
        ways.give_back(connection)


def _begin(
    connection: sqlite3.Connection, path: Path, require: Callable[[sqlite3.Connection], None]
) -> None:
    with file.translated(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            require(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def _end(connection: sqlite3.Connection, path: Path) -> None:
    if not connection.in_transaction:
        return
    try:
        with file.translated(path):
            connection.execute("COMMIT")
    except StorageError as error:
        # The table has it, and the journal does not know: it is seen after the next fold.
        raise StorageError(
            f"what was to be written may have been committed or not: look before you repeat it: {error}"
        ) from error

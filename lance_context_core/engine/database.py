"""A LanceDB database: connects when it is first needed, and hands out its tables by name."""

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import lancedb

from lance_context_core._checks import check_name
from lance_context_core.engine.caches import Caches
from lance_context_core.engine.errors import translated
from lance_context_core.engine.files.durability import Durability, Syncer
from lance_context_core.engine.names import shown_name
from lance_context_core.engine.refs import refs
from lance_context_core.engine.schema import RECORDS, TableSpec
from lance_context_core.engine.table.access import Pin
from lance_context_core.engine.table.table import Table
from lance_context_core.engine.table.text import TextIndex
from lance_context_core.errors import InvalidRequestError, NotFoundError, StoreClosedError

RECORDS_TABLE = "records"
"""The table that tells which branches and tags the store has."""

SESSIONS_TABLE = "sessions"

_REMAINS_SECONDS = 2
"""How long nothing has changed in what nobody is about to finish."""

_MEMORY = "memory://"
"""Where everything is gone with the connection."""

_REMOTE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


class Database:
    """One database, embedded or on an object store; safe to share between threads and loops.

    Nothing is read or written, and no connection made, before the first call that needs it.
    """

    def __init__(
        self,
        uri: str | Path,
        *,
        storage_options: Mapping[str, str] | None = None,
        read_consistency: timedelta | None = timedelta(0),
        text_index: TextIndex | None = None,
        durability: Durability = "process",
    ) -> None:
        """Name the database; see `ContextStore.open` for what the arguments mean."""
        if not isinstance(storage_options, Mapping | None):
            raise InvalidRequestError(f"storage_options={storage_options!r}: give a dict of texts")
        self.uri = normalised(uri)
        self.branch = refs.MAIN
        self.read_consistency = read_consistency
        self.text_index = text_index or TextIndex()
        self.syncer = Syncer(self.uri, durability)
        self.on_commit: Callable[[Any], None] | None = None
        """Is told the table of each commit; must be quick."""
        self._storage_options = {key: str(value) for key, value in (storage_options or {}).items()}
        self._connection: Any = None
        self._caches = Caches()
        self._tables: dict[str, Table] = {}
        self._branches: dict[str, BranchDatabase] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._is_closed = False

    async def connection(self) -> Any:
        """The engine's connection, made at the first call; see `require_open`."""
        self.require_open()
        if (known := self._connection) is not None:
            return known
        with translated(f"open {self.uri!r}"):
            connection = await lancedb.connect_async(
                self.uri,
                storage_options=self._storage_options or None,
                session=self._caches.session,
            )
        with self._lock:
            # Two first calls may both have connected; every table must use the same one,
            # or `memory://` would be two databases.
            self._connection = connection = self._connection or connection
        return connection

    def keep_caches_small(self) -> None:
        """Connect anew, and open every table anew, if the engine remembers much that is of no use.

        To be called at each look at a table; whoever is at work goes on through the former handle.
        """
        if not self._caches.are_outgrown() or self.uri.startswith(_MEMORY):
            return
        with self._lock:
            self._caches, self._connection = Caches(), None
            tables = list(self._tables.values())
            tables += [table for one in self._branches.values() for table in one.tables()]
        for table in tables:
            table.renew_handle()

    async def has_place(self) -> bool:
        """Whether there may be a store; asked of the disk, since the engine makes what it looks for."""
        self.require_open()
        place = Path(self.uri)  # absolute, unless it is on an object store
        return not (place.is_absolute() and await asyncio.to_thread(_is_missing, place))

    def require_open(self) -> None:
        """Raise StoreClosedError after `close`, and in a process forked after the store was opened.

        The engine's threads do not survive a fork: what it has open there may crash the child.
        """
        if self._is_closed:
            raise StoreClosedError(f"the store at {self.uri!r} was closed: open it again")
        if os.getpid() != self._pid:
            raise StoreClosedError(
                f"the store at {self.uri!r} was opened before this process was forked: "
                "start children with 'spawn' or 'forkserver', and open it there"
            )

    def table(self, name: str, spec: TableSpec) -> Table:
        """The table of that name, which need not exist yet."""
        with self._lock:
            if name not in self._tables:
                self._tables[name] = Table(self, name, spec)
            return self._tables[name]

    async def table_names(self) -> list[str]:
        """The names of the tables that exist, in alphabetical order."""
        if not await self.has_place():
            return []
        connection = await self.connection()
        names: list[str] = []
        page = None
        with translated(f"list the tables of {self.uri!r}"):
            while page is None or page.page_token:
                page = await connection.list_tables(page_token=page and page.page_token)
                names.extend(page.tables)
        return sorted(names)

    async def drop(self, name: str) -> None:
        """Remove a table with everything in it, all versions included; absent is no error.

        A table that branches have is emptied instead.
        """
        connection = await self.connection()
        if name in await self.table_names():
            handle = await connection.open_table(name)
            if any(map(refs.branch_of, await refs.lines(handle, name))):
                with translated(f"empty {shown_name(name)}"):
                    await handle.delete("true")
                return
        with translated(f"drop {shown_name(name)}"):
            await connection.drop_table(name, ignore_missing=True)
        await self.syncer.sync_names()
        with self._lock:
            self._tables.pop(name, None)

    def on(self, branch: str) -> "Database | BranchDatabase":
        """This database on a branch; `main` is the database itself."""
        if branch == refs.MAIN:
            return self
        with self._lock:
            return self._branches.setdefault(branch, BranchDatabase(self, branch))

    async def require_branch(self, line: str) -> None:
        """Raise NotFoundError unless the branch of that line exists: the records have it."""
        handle = await self.table(RECORDS_TABLE, RECORDS).reader()
        if handle is None or line not in await refs.lines(handle, RECORDS_TABLE):
            raise NotFoundError(
                f"branch {refs.branch_of(line)!r} does not exist: see branches(), or create it"
            )

    async def remains(self, table: str) -> list[str]:
        """The names of directories of lines; none on an object store."""
        tree = Path(self.uri) / f"{table}.lance" / "tree"
        if not tree.is_absolute():
            return []
        places = await asyncio.to_thread(lambda: sorted(tree.glob("*/*")))
        return [place.relative_to(tree).as_posix() for place in places]

    async def remove_remains(self, table: str, line: str) -> bool:
        """Remove what a killed process left of a line that it was making or dropping.

        Returns whether there may have been something: not if there is such a line, or no directory
        of its name. Waits until nobody can be about to make it, which takes seconds at most.
        """
        handle = await (await self.connection()).open_table(table)
        if line in await refs.lines(handle, table, with_gone=True):
            return False
        place = Path(self.uri) / f"{table}.lance" / "tree" / line
        if not place.is_absolute():
            await asyncio.sleep(_REMAINS_SECONDS)
        elif await asyncio.to_thread(place.is_dir):
            await _settled(place)
        else:
            return False
        if line in await refs.lines(handle, table, with_gone=True):
            return False
        await refs.clear(handle, table, line)
        return True

    def forget(self, branch: str) -> None:
        """Let go of a branch that is deleted; one of that name may be made anew."""
        with self._lock:
            gone = self._branches.pop(branch, None)
        if gone is not None:
            gone.close_tables()

    def at(self, pin: Pin) -> "PinnedDatabase":
        """This database as it was, for reading only."""
        return PinnedDatabase(self, pin)

    async def close(self) -> None:
        """Let go of the connection; closing twice is no error."""
        self._is_closed = True
        for branch in list(self._branches):
            self.forget(branch)
        with self._lock:
            tables, self._tables = list(self._tables.values()), {}
            connection, self._connection = self._connection, None
        for table in tables:
            table.close()
        if connection is not None:
            connection.close()


class BranchDatabase:
    """A database on a branch: the same tables, each on the branch's line of versions."""

    def __init__(self, database: Database, branch: str) -> None:
        """Look at `database` from `branch`, which need not exist."""
        self.uri = database.uri
        self.branch = branch
        self._database = database
        self._tables: dict[str, Table] = {}
        self._lock = threading.Lock()

    def table(self, name: str, spec: TableSpec) -> Table:
        """The table of that name, which need not exist yet; the first write makes it."""
        with self._lock:
            if name not in self._tables:
                line = refs.head(self.branch)
                self._tables[name] = Table(self._database, name, spec, line=line)
            return self._tables[name]

    def tables(self) -> list[Table]:
        """Those that were asked for."""
        with self._lock:
            return list(self._tables.values())

    async def table_names(self) -> list[str]:
        """The names of the tables that the branch has."""
        names = await self._database.table_names()
        return [name for name in names if await self._has(name)]

    async def drop(self, name: str) -> None:
        """Empty a table; other branches may have it."""
        if await self._has(name):
            handle = await (await self._database.connection()).open_table(name)
            line = await refs.opened(handle, name, refs.head(self.branch))
            with translated(f"empty {shown_name(name)}"):
                await line.delete("true")

    def on(self, branch: str) -> "Database | BranchDatabase":
        """The same database on another branch."""
        return self._database.on(branch)

    def forget(self, branch: str) -> None:
        """Let go of a branch that is deleted."""
        self._database.forget(branch)

    def at(self, pin: Pin) -> "PinnedDatabase":
        """The underlying database at a moment."""
        return PinnedDatabase(self._database, pin, branch=self.branch)

    def close_tables(self) -> None:
        """Let go of the engine's handles."""
        with self._lock:
            tables, self._tables = list(self._tables.values()), {}
        for table in tables:
            table.close()

    async def close(self) -> None:
        """Nothing to let go of: the connection belongs to the store."""

    async def _has(self, name: str) -> bool:
        handle = await (await self._database.connection()).open_table(name)
        return refs.head(self.branch) in await refs.lines(handle, name)


class PinnedDatabase:
    """A database as it was at an earlier moment: the same tables, each at its version of then."""

    def __init__(self, database: Database, pin: Pin, *, branch: str = refs.MAIN) -> None:
        """Look at `database` through `pin`, from a handle of that branch."""
        self.uri = database.uri
        self.branch = branch
        self._database = database
        self._pin = pin
        self._tables: dict[str, Table] = {}

    def table(self, name: str, spec: TableSpec) -> Table:
        """The table as it was; reads as empty if it did not exist then."""
        if name not in self._tables:
            self._tables[name] = Table(self._database, name, spec, pin=self._pin)
        return self._tables[name]

    async def table_names(self) -> list[str]:
        """The names of the tables that existed then."""
        names = await self._database.table_names()
        return [name for name in names if await self._existed(name)]

    async def _existed(self, name: str) -> bool:
        table = await (await self._database.connection()).open_table(name)
        return await self._pin.locate(name, table) is not None

    def at(self, pin: Pin) -> "PinnedDatabase":
        """The underlying database at another moment."""
        return PinnedDatabase(self._database, pin, branch=self.branch)

    async def close(self) -> None:
        """Nothing to let go of: the connection belongs to the store."""


async def _settled(place: Path) -> None:
    """Return when nothing has changed in a directory for a while, or there is none any more."""
    with suppress(FileNotFoundError):
        while (  # noqa: ASYNC110 - another process may be at it
            age := time.time() - await asyncio.to_thread(_newest, place)
        ) < _REMAINS_SECONDS:
            await asyncio.sleep(_REMAINS_SECONDS - age)


def _newest(place: Path) -> float:
    """When something in a directory last changed."""
    return max(path.stat().st_mtime for path in (place, *place.rglob("*")))


def _is_missing(place: Path) -> bool:
    """Whether there is nothing; what cannot be looked at is for the engine to complain about."""
    try:
        place.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def normalised(uri: str | Path) -> str:
    """`uri` as the engine wants it: local paths absolute, so that none is taken for a scheme."""
    if not isinstance(uri, str | Path):
        raise InvalidRequestError(f"uri={uri!r}: give a directory or the URI of an object store")
    text = check_name(str(uri), "uri")
    if _REMOTE.match(text) and not text.startswith("file://"):
        return text
    return str(Path(text.removeprefix("file://")).expanduser().absolute())


def is_aware(moment: datetime) -> bool:
    """Whether `moment` names an instant: it knows its offset from UTC."""
    return moment.utcoffset() is not None

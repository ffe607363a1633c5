"""The tables of a tenant, in whichever shard it is: each call goes to the shard of the moment."""

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import pyarrow as pa

from lance_context_core._resources import Resources
from lance_context_core.fleet.routing import Place, Route
from lance_context_core.storage.change_waits import ChangeWaits
from lance_context_core.storage.database import (
    RECORDS_TABLE,
    SESSIONS_TABLE,
    BranchDatabase,
    Database,
)
from lance_context_core.storage.lance.branches import MAIN, Pin
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.schema import RECORDS, SESSIONS, TableSpec
from lance_context_core.storage.lance.vectors import vectors_of
from lance_context_core.storage.locks import fencing
from lance_context_core.storage.names import shown_name
from lance_context_core.storage.row_cache import RowCache
from lance_context_core.storage.sql.predicates import Clause
from lance_context_core.storage.table import Table
from lance_context_core.storage.table_reads import Snapshot, TableReads
from lance_context_core.storage.write_batch import BatchResult, WriteBatch


class _RoutedVectors:
    """The vectors that a tenant's table accepts, in whichever shard it is."""

    def __init__(self, table: "RoutedTable", route: Route) -> None:
        self._table, self._route = table, route
        self.wanted: tuple[int, str | None] | None = None
        """The length and the model of the vectors that are written."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table.last().vectors, name)

    async def require_room(self, **what: Any) -> None:
        """As `Vectors.require_room`."""
        await self._route.read(lambda one: self._table.at(one).vectors.require_room(**what))

    async def model(self) -> str | None:
        """As `Vectors.model`."""
        return await self._route.read(lambda one: self._table.at(one).vectors.model())

    async def ensure(self, dimension: int, model: str | None) -> None:
        """As `Vectors.ensure`."""
        self.wanted = dimension, model
        await self._route.write(lambda one: self._table.at(one).vectors.ensure(dimension, model))


class RoutedTable(Table):
    """One table of a tenant; what is not routed here is that of the shard as last seen."""

    def __init__(self, route: Route, name: str, spec: TableSpec) -> None:
        """The table of that name, which need not exist yet."""
        self._route = route
        self.name, self.spec = name, spec
        self.ref, self.label = None, shown_name(name)
        self.changes = ChangeWaits(self)
        self.vectors: Any = _RoutedVectors(self, route)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.last(), name)

    @property
    def remembered(self) -> RowCache:
        """The rows in memory; none unless the shard was looked up a moment ago."""
        table = self.last()
        return table.remembered if self._route.now is not None else RowCache(table.access)

    @remembered.setter
    def remembered(self, _: RowCache) -> None:
        raise AttributeError("remembered")

    async def write(self, batch: WriteBatch) -> BatchResult:
        """As `Table.write`."""
        first: list[Place] = []

        async def ask(place: Place) -> BatchResult:
            first.append(place)
            # Rows observed in another shard are to be read again.
            is_first = first[0].shard is place.shard
            given = batch if is_first else replace(batch, observed=None)
            table = self.at(place)
            if (wanted := self.vectors.wanted) is not None and vectors_of(batch.rows):
                await table.vectors.ensure(*wanted)  # the store may be open anew
            return await table.write(given)

        done = await self._route.write(ask)
        if self.changes.waiting:
            self.changes.tell()
        return done

    def write_now(self, batch: WriteBatch) -> BatchResult | None:
        """As `Table.write_now`; also None unless the shard was looked up a moment ago."""
        place = self._route.now
        if place is None or place.fence is None or fencing.are_any():
            return None
        try:
            with place.shard.in_use(), fencing.fenced(place.fence):
                done = self.at(place).write_now(batch)
        except fencing.TableChangedError:
            self._route.forget()
            return None
        if self.changes.waiting:
            self.changes.tell()
        return done

    async def here(self) -> Any:
        """As `TableReads.here`."""
        return self.at(await self._route.place())

    async def snapshot(self, *, is_settled: bool = False) -> Snapshot:
        """As `Table.snapshot`; raises ConflictError if the tenant is moved while it is read."""
        return await self._route.read(lambda one: self.at(one).snapshot(is_settled=is_settled))

    async def batches(
        self, where: Clause, *, columns: Sequence[str], batch_rows: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """As `Table.batches`."""
        place = await self._route.place()
        with place.shard.in_use():
            read = self.at(place).batches(where, columns=columns, batch_rows=batch_rows)
            async for batch in read:
                yield batch

    def last(self) -> Table:
        """The table of the shard as last looked up."""
        place = self._route.last
        shard = self._route.default() if place is None else place.shard
        return shard.store._resources.database.root.table(self.name, self.spec)  # noqa: SLF001

    def at(self, place: Place) -> Table:
        """The table of a shard."""
        return place.shard.store._resources.database.root.table(self.name, self.spec)  # noqa: SLF001


def _route_reads() -> None:
    """Have each coroutine of a table that is not defined above routed."""

    def routed(name: str, method: Callable[..., Any], *, is_write: bool) -> Callable[..., Any]:
        @wraps(method)
        async def call(self: RoutedTable, *args: Any, **kwargs: Any) -> Any:
            go = self._route.write if is_write else self._route.read
            return await go(lambda place: getattr(self.at(place), name)(*args, **kwargs))

        return call

    for kind in (TableReads, Table):
        for name, method in vars(kind).items():
            is_own = name.startswith("_") or name in vars(RoutedTable)
            if inspect.iscoroutinefunction(method) and not is_own:
                setattr(RoutedTable, name, routed(name, method, is_write=kind is Table))


_route_reads()


class RoutedDatabase(BranchDatabase):
    """The database of a tenant: that of its shard, on the main branch."""

    def __init__(self, route: Route) -> None:
        """The tables at the end of that route."""
        self.route = route
        self.branch = MAIN
        self._tables: dict[str, Table] = {}
        self.records = self.table(RECORDS_TABLE, RECORDS)
        self.sessions = self.table(SESSIONS_TABLE, SESSIONS)

    @property
    def uri(self) -> str:  # type: ignore[override]
        """The URI of the shard."""
        return self.root.uri

    @property
    def root(self) -> Database:
        """The database of the shard as last looked up."""
        return self._here().database.root

    @property
    def connection(self) -> Connection:
        """That of the shard."""
        return self.root.connection

    def table(self, name: str, spec: TableSpec) -> Table:
        """The table of that name, which need not exist yet."""
        return self._tables.setdefault(name, RoutedTable(self.route, name, spec))

    async def table_names(self) -> list[str]:
        """The names of the existing tables of the shard."""
        return await self.route.read(lambda place: self._of(place).table_names())

    async def drop(self, name: str) -> None:
        """As `Database.drop`, in the shard."""
        await self.route.write(lambda place: self._of(place).drop(name))

    async def settle(self) -> None:
        """Flush the log of the shard."""
        await self.route.read(lambda place: self._of(place).settle())

    def on(self, branch: str) -> "Database | BranchDatabase":
        """The database of the shard itself."""
        return self.root.on(branch)

    def at(self, pin: Pin) -> Any:
        """The database of the shard at an earlier moment."""
        return self.root.at(pin)

    def forget(self, branch: str) -> None:
        """Release a deleted branch."""
        self.root.forget(branch)

    async def finish(self) -> None:
        """Does nothing: the shard has its own background work."""

    def close_tables(self) -> None:
        """Does nothing: the shard owns the handles."""

    def _here(self) -> Resources:
        place = self.route.last
        shard = self.route.default() if place is None else place.shard
        return shard.store._resources  # noqa: SLF001

    @staticmethod
    def _of(place: Place) -> Database:
        return place.shard.store._resources.database.root  # noqa: SLF001


class _OfShard:
    """A part of the resources of the shard as last looked up."""

    def __init__(self, database: RoutedDatabase, name: str) -> None:
        self._database, self._name = database, name

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(self._database._here(), self._name), name)  # noqa: SLF001


class _Hot(_OfShard):
    """The scopes of the shard that are searched in the process."""

    async def of(self, table: Table, *args: Any, **kwargs: Any) -> Any:
        """As `HotScopes.of`."""
        table = await table.here()
        return await self._database._here().hot.of(table, *args, **kwargs)  # type: ignore[union-attr]  # noqa: SLF001

    async def few(self, table: Table, *args: Any, **kwargs: Any) -> Any:
        """As `HotScopes.few`."""
        table = await table.here()
        return await self._database._here().hot.few(table, *args, **kwargs)  # type: ignore[union-attr]  # noqa: SLF001


def routed(route: Route, of: Resources) -> Resources:
    """Returns resources that lead along the route, with the options of a store's."""
    database = RoutedDatabase(route)
    parts: dict[str, Any] = {name: _OfShard(database, name) for name in ("upkeep", "compaction")}
    parts["hot"] = None if of.hot is None else _Hot(database, "hot")
    return replace(of, database=database, warned=set(), **parts)

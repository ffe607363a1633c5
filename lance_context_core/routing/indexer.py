"""Brings the engines' indexes up to date with the tables, from the position that each has stored."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from lance_context_core._util.crowd import FairLock
from lance_context_core._util.logs import log
from lance_context_core.engines import EngineChannel, SearchEngine
from lance_context_core.errors import ConflictError, StorageError
from lance_context_core.routing.positions import EnginePosition, Identity, Schema
from lance_context_core.routing.rows import COLUMNS, made
from lance_context_core.storage import changes, store_locks
from lance_context_core.storage.changes import NEVER
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.sql import in_list
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal.entries import Entry, How

_BATCH = 500
"""The rows in one write of an engine."""

_PATIENCE_SECONDS = 60
"""How long an indexer waits for another process at the same table."""


def is_followed(table: Table) -> bool:
    """Whether engines have an index of that table."""
    access = table.access
    one_vector = not table.spec.has_many_vectors
    return table.spec.is_searchable and one_vector and table.ref is None and not access.is_pinned


class Indexer:
    """Writes the changes of one store's tables to engines, one table at a time."""

    def __init__(self, connection: Connection) -> None:
        """Create it for the store at `connection`."""
        self._connection = connection
        self._lock = FairLock()

    async def follow(
        self, engine: SearchEngine, table: Table, channels: Collection[EngineChannel]
    ) -> bool:
        """Bring an engine's index of the table up to date; returns whether anything was written.

        The index is for searches of the `channels`; for others it is emptied and filled again.

        May be repeated at any time. Waits up to a minute for another process that does the same,
        and raises ConflictError then. Raises StorageError if the index is another store's, and the
        errors of the engine.
        """
        async with self._alone(table):
            return await self._follow(engine, table, channels)

    async def drop_others(self, engine: SearchEngine, tables: Iterable[Table]) -> None:
        """Drop the engine's indexes of tables that no longer exist."""
        known = {table.name for table in tables}
        mine = await asyncio.to_thread(Identity.of, self._connection)
        for name in await asyncio.to_thread(engine.tables):
            state = None if name in known else await asyncio.to_thread(engine.state, name)
            position = None if state is None else EnginePosition.read(state.position)
            if position is not None and position.store.is_of(mine):
                await asyncio.to_thread(engine.drop, name)

    async def _follow(
        self, engine: SearchEngine, table: Table, channels: Collection[EngineChannel]
    ) -> bool:
        mine = await asyncio.to_thread(Identity.of, self._connection)
        schema = await Schema.of(table, channels)
        state = await asyncio.to_thread(engine.state, table.name)
        before = EnginePosition.read(state.position) if state else None
        if before is not None and not before.store.is_of(mine):
            raise StorageError(
                f"the index {table.name!r} in the engine {engine.name!r} belongs to the store at "
                f"{before.store.uri!r}: give each store an engine with a namespace of its own, or "
                f"drop that index with drop({table.name!r})"
            )
        if schema is None:
            if state is not None:
                await asyncio.to_thread(engine.drop, table.name)
            return state is not None
        since = NEVER if before is None else before.state
        now = await changes.since(table, since, version=0 if before is None else before.version)
        if now is None:
            return False  # Another program is writing to the table: later.
        after = EnginePosition(store=mine, state=now.state, version=now.version, schema=schema)
        if before is None or before.schema != schema:
            await asyncio.to_thread(engine.clear, table.name, dimension=schema.dimension)
            await _Work(engine, table, after, ()).reconcile({})
            return True
        work = _Work(engine, table, after, before.lacks)
        if state is None or state.n_lost or now.entries is None or before.is_ahead_of(now):
            await work.reconcile(await asyncio.to_thread(engine.revisions, table.name))
        elif before.is_at(now) and before.version == now.version:
            return False
        else:
            await work.apply(now.entries)
        return True

    @asynccontextmanager
    async def _alone(self, table: Table) -> AsyncIterator[None]:
        """Index no table in another task, and this one in no other process that shares locks."""
        async with (
            self._lock.held(),
            store_locks.locked(
                self._connection,
                f"{table.name}.lance/_versions",
                patience_seconds=_PATIENCE_SECONDS,
                refusal=lambda: ConflictError(
                    f"another process has been indexing {table.label} for {_PATIENCE_SECONDS} "
                    "seconds: call again"
                ),
            ),
        ):
            yield


class _Work:
    """Changes of one index, up to a position."""

    def __init__(
        self, engine: SearchEngine, table: Table, after: EnginePosition, lacks: Sequence[str]
    ) -> None:
        self._engine, self._table, self._after = engine, table, after
        self._lacks = {*lacks}

    async def apply(self, entries: Sequence[Entry]) -> None:
        """Apply entries of the log."""
        puts, removes = newest(entries)
        await self._write([*puts.values()], removes)

    async def reconcile(self, known: Mapping[str, int]) -> None:
        """Write the rows whose revision is another one than the known one; remove other rows.

        Reads the table no earlier than at the position, so that it may contain later changes.
        """
        table, stale, there = self._table, list[str](), set[str]()
        snapshot = await table.snapshot()
        try:
            some = snapshot.batches(None, columns=[KEY, "revision"], batch_rows=_BATCH)
            async for batch in some:
                keys, revisions = batch[KEY].to_pylist(), batch["revision"].to_pylist()
                there.update(keys)
                pairs = zip(keys, revisions, strict=True)
                stale += [key for key, revision in pairs if known.get(key) != revision]
        finally:
            snapshot.close()
        log.info(
            "%s: the engine %s lacks %d of %d rows", table.label, self._engine.name, len(stale), len(there)
        )  # fmt: skip
        columns = [*dict.fromkeys(one for one in COLUMNS if one in table.spec.columns)]
        for start in range(0, len(stale), _BATCH):
            wanted = in_list(KEY, stale[start : start + _BATCH])
            rows = await table.select(wanted, columns=columns)
            await self._write(rows.to_pylist(), (), is_last=False)
        await self._write([], [key for key in known if key not in there])

    async def _write(
        self, rows: Sequence[Mapping[str, Any]], removes: Iterable[str], *, is_last: bool = True
    ) -> None:
        """Write rows; with the last ones the position."""
        schema, size = self._after.schema, self._engine.max_words_bytes
        removed = [*removes]
        while True:
            some, rows = rows[:_BATCH], rows[_BATCH:]
            done = await asyncio.to_thread(made, some, schema, max_words_bytes=size)
            self._lacks |= done.lacks
            position = None
            if is_last and not rows:
                lacks = tuple(sorted(self._lacks))
                position = replace(self._after, lacks=lacks).text()
            await asyncio.to_thread(
                self._engine.write,
                self._table.name,
                puts=done.rows,
                removes=removed,
                position=position,
            )
            removed = []
            if not rows:
                return


def newest(entries: Sequence[Entry]) -> tuple[dict[str, Mapping[str, Any]], set[str]]:
    """The rows that entries of the log leave, by key, and the keys that they remove."""
    puts, removes = dict[str, Mapping[str, Any]](), set[str]()
    for entry in entries:
        if entry.how is How.REMOVE:
            puts.pop(entry.key, None)
            removes.add(entry.key)
        else:
            puts[entry.key] = entry.row
            removes.discard(entry.key)
    return puts, removes

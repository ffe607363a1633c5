"""The hot scopes of one store, each as fresh as a read."""

import asyncio
import weakref
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.memory_index.bm25 import words_of
from lance_context_core.memory_index.cache import Held, Kept, NotKept, SearchCache, segments_of
from lance_context_core.memory_index.cache import Table as CachedTable
from lance_context_core.memory_index.columns import Condition
from lance_context_core.memory_index.segment import LARGE, OutdatedError, Segment
from lance_context_core.memory_index.segment_search import HotTable, needed_columns
from lance_context_core.storage import changes, sql
from lance_context_core.storage.changes import NEVER, Changes, Part, Position
from lance_context_core.storage.lance.schema import SEARCH_TEXT, VECTOR
from lance_context_core.storage.sql.predicates import UnsureError as UnsureOfRowError
from lance_context_core.storage.sql.predicates import named
from lance_context_core.storage.table import Table

_FEW = 1_000
"""Reading this many records takes as long as a search by the engine."""

_QUICK = 256
"""Without words, this many rows become a block in at most a millisecond."""

_FEW_TO_READ = 500
"""Reading this many takes about as long as reading the few that are requested."""

_MOST_READS = 100
"""Maximum consecutive reads that assume a scope to be larger."""

_FOR_SEARCHES = frozenset((SEARCH_TEXT, VECTOR))

_Place: TypeAlias = tuple[CachedTable, Hashable]


@dataclass(slots=True)
class _Reading:
    """A scope during its read."""

    done: asyncio.Future[None]
    block: Segment | None = None
    """The result; None before, and without one."""


@frozen_by_name
class SearchCacheStats:
    """Statistics of a store's searches since it was opened, and of the cache."""

    hits: int
    """Searches of scopes that were in memory."""
    misses: int
    """Searches in memory after a read of the scope."""
    n_scopes: int
    """Number of cached scopes, including those of other stores."""
    n_bytes: int
    """Their approximate memory."""


class HotScopes:
    """The scopes of one store that are searched in the process."""

    def __init__(self, cache: SearchCache) -> None:
        """Create it with `cache`, which other stores may share."""
        self._cache = cache
        self._blocks = segments_of(cache)
        self._store = object()
        self._reading: dict[tuple[Any, ...], _Reading] = {}
        """Running reads, by place and event loop."""
        self._n_forgotten = 0
        self._n_hits = self._n_misses = 0
        self._earlier: weakref.WeakSet[HotScopes] = weakref.WeakSet()
        # A store that was never closed is dropped with its last handle.
        weakref.finalize(self, self._blocks.forget_store, self._store)

    @property
    def stats(self) -> SearchCacheStats:
        """The statistics of its searches."""
        return SearchCacheStats(
            hits=self._n_hits,
            misses=self._n_misses,
            n_scopes=self._blocks.n_scopes,
            n_bytes=self._blocks.n_bytes,
        )

    async def of(
        self,
        table: Table,
        scope: sql.Clause,
        where: Condition,
        shown: Condition,
        *,
        columns: Iterable[str],
        is_whole: bool,
    ) -> HotTable | None:
        """Return the searcher of the rows of a scope that meet `where`; None without one.

        Then only the engine can search. All rows that are `shown` to any search meet `scope`; those
        that meet `where` are some of them. `columns` are read of hits, or, if it `is_whole`,
        possibly any of inspected rows.
        """
        if where.rest.holds is None or shown.rest.holds is None or scope.holds is None:
            return None
        # All `shown` rows are part of the query.
        asked = needed_columns(table.spec, where, table.spec.columns if is_whole else columns)
        block, was_known = await self._block(table, scope, asked, self._place(table, scope))
        return None if block is None else HotTable(table, block, where, shown, was_known=was_known)

    def known_at(
        self,
        table: Table,
        scope: sql.Clause,
        where: Condition,
        *,
        columns: Iterable[str],
        state: Position,
    ) -> HotTable | None:
        """Return the searcher of a cached scope that is as fresh as `state`, without a look."""
        block = self._blocks.get(*self._place(table, scope))
        asked = needed_columns(table.spec, where, columns)
        if not isinstance(block, Segment) or not asked <= block.columns:
            return None
        with block.lock:
            is_same = block.is_sound and block.state.table == state.table
            if not is_same or block.state.token < state.token:
                return None
            return HotTable(table, block, where, where, was_known=True)

    async def few(
        self,
        table: Table,
        scope: sql.Clause,
        where: sql.Clause,
        more: sql.Clause,
        *,
        columns: Iterable[str],
        at_once: bool,
    ) -> HotTable | None:
        """Return the reader of a small scope's rows that meet `where` and `more`; else None.

        None means to read the table: at the first request, unless `at_once`, since a part may never
        be requested again; and without a journal of later writes, where a scope would be read again
        after each write.
        """
        if where.holds is None or more.holds is None or scope.holds is None:
            return None
        place = self._place(table, scope)
        mark = place[0], (_FEW_TO_READ, place[1])
        known = self._blocks.get(*place)
        # What follows a log asks it anyway, and once is enough.
        is_followed = isinstance(known, Segment) and known.state.is_journaled
        if is_followed:
            await table.access.mend()
        elif await table.access.view() is None:
            return None
        if not isinstance(known, Segment):
            noted = self._blocks.get(*mark)
            if noted is None and not at_once:
                self._blocks.put(*mark, NotKept(NEVER, is_unfit=False))
                return None
            if isinstance(noted, NotKept) and noted.is_unfit and noted.n_believed < _MOST_READS:
                noted.n_believed += 1
                return None
        elif len(known) > _FEW_TO_READ:
            return None
        seldom = table.spec.seldom
        asked = named(seldom, where, more) | seldom.intersection(columns)
        asked = (table.spec.usual | asked).difference(LARGE, _FOR_SEARCHES)
        block, was_known = await self._block(table, scope, asked, mark, most=_FEW_TO_READ)
        if block is None:
            return None
        condition = Condition.of(where)
        return HotTable(table, block, condition, condition, was_known=was_known)

    def count(self, answered: HotTable) -> None:
        """Count an answered search."""
        self._n_hits += answered.was_known
        self._n_misses += not answered.was_known

    # Other cached parts of a table, with the same lifetime.

    @property
    def n_forgotten(self) -> int:
        """The number of times that possibly erased entries were dropped."""
        return self._n_forgotten

    def known(self, table: Table, place: Hashable) -> Held | None:
        """Return the cached part of the table, which may be outdated."""
        found = self._blocks.get(CachedTable(self._store, table.name, table.ref), place)
        return None if isinstance(found, NotKept) else found

    def keep(self, table: Table, place: Hashable, held: Held, *, n_forgotten: int) -> None:
        """Cache it, unless entries were dropped since `n_forgotten`: it may contain erased rows."""
        if n_forgotten == self._n_forgotten:
            self._blocks.put(CachedTable(self._store, table.name, table.ref), place, held)

    def drop(self, table: Table, place: Hashable) -> None:
        """Remove it from the cache."""
        self._blocks.forget(CachedTable(self._store, table.name, table.ref), place)

    def at_a_time(self) -> "HotScopes":
        """Return those of the store at a version, in the same cache."""
        made = HotScopes(self._cache)
        self._earlier.add(made)
        return made

    def forget_table(self, name: str, ref: str | None) -> None:
        """Drop all entries of a table, in which rows may have been erased."""
        self._n_forgotten += 1
        self._blocks.forget_table(CachedTable(self._store, name, ref))
        for earlier in list(self._earlier):
            earlier.forget_table(name, ref)

    def forget(self) -> None:
        """Drop all entries."""
        self._n_forgotten += 1
        self._blocks.forget_store(self._store)
        for earlier in list(self._earlier):
            earlier.forget()

    # Helpers

    def _place(self, table: Table, scope: sql.Clause) -> "_Place":
        return CachedTable(self._store, table.name, table.ref), str(scope)

    async def _block(
        self,
        table: Table,
        scope: sql.Clause,
        columns: frozenset[str],
        mark: "_Place",
        *,
        most: int | None = None,
    ) -> tuple[Segment | None, bool]:
        """Return the current block of a scope with these columns, and whether it was cached.

        None if it has more than `most` rows, is too large, or only the engine can evaluate it. A
        block that is too large is recorded at `mark`.
        """
        place = self._place(table, scope)
        turn = asyncio.get_running_loop(), *place
        earlier = self._reading.get(turn)
        while True:
            known = self._blocks.get(*place)
            if isinstance(known, NotKept) and known.is_believed():
                return None, False
            since = await changes.since(table, NEVER if known is None else known.state)
            if since is None:
                self._blocks.forget(*place)
                return None, False
            if isinstance(known, Segment) and not columns <= known.columns:
                columns |= known.columns
            elif isinstance(known, Segment):
                former = known.revision
                if self._follows(known, since):
                    if known.revision != former or known.has_grown:
                        # It has grown, perhaps too large.
                        known.has_grown = False
                        self._blocks.put(*place, known)
                    return known, True
            if isinstance(known, NotKept) and known.is_unfit and _is_near(known.state, since.state):
                known.n_believed = 0
                return None, False
            if (other := self._reading.get(turn)) is None:
                break
            await asyncio.wait([other.done])
            made = other.block
            if other is not earlier and made is not None and columns <= made.columns:
                # As fresh as a read here, though the table may have changed since.
                return made, False
        mine = self._reading[turn] = _Reading(turn[0].create_future())
        try:
            mine.block = await self._read(table, scope, columns, mark, known, since, most)
            return mine.block, False
        finally:
            mine.done.set_result(None)
            del self._reading[turn]

    async def _read(
        self,
        table: Table,
        scope: sql.Clause,
        columns: frozenset[str],
        mark: "_Place",
        known: Kept | None,
        since: Changes,
        few: int | None,
    ) -> Segment | None:
        """Read the block of a scope; None as in `_block`."""
        place = self._place(table, scope)
        # A large one is read at the second request, and not for each version.
        is_wanted = table.access.is_pinned or (
            isinstance(known, NotKept) and (since.state.is_journaled or known.state == since.state)
        )
        is_wanted = is_wanted or (isinstance(known, Segment) and known.columns < columns)
        n_forgotten, most = self._n_forgotten, self._cache.max_records
        at_once = few or (most if is_wanted else _FEW)
        part = await changes.read(
            table,
            scope,
            columns=[name for name in (*table.spec.schema.names, VECTOR) if name in columns],
            most=min(at_once, most),
            counts=few is None,
        )
        if part is None:
            self._blocks.forget(*place)
            return None
        if part.rows is None:
            self._blocks.forget(*place)
            is_unfit = few is not None or is_wanted or most <= _FEW
            self._blocks.put(*mark, NotKept(part.state, is_unfit=is_unfit))
            return None
        try:
            made_of = scope, columns, part, part.rows
            if part.text_index is None and part.rows.num_rows <= _QUICK:
                made = _block_of(*made_of)
            else:
                made = await asyncio.to_thread(_block_of, *made_of)
        except OutdatedError:
            # A duplicate key, which only the engine can resolve.
            self._blocks.put(*mark, NotKept(part.state, is_unfit=True))
            return None
        if n_forgotten == self._n_forgotten:  # Otherwise it may contain rows erased meanwhile.
            self._blocks.put(*place, made)
        return made

    def _follows(self, block: Segment, since: Changes) -> bool:
        """Update the block to the table's position; returns whether it succeeded."""
        with block.lock:
            is_same = block.state.table == since.state.table
            if not block.is_sound or not is_same:
                return False
            if block.state.token >= since.state.token:
                return True
            if since.entries is None:
                return False
            try:
                block.follow(since.state, since.entries)
            except (OutdatedError, UnsureOfRowError):
                return False
            return len(block) <= self._cache.max_records


def _block_of(scope: sql.Clause, columns: frozenset[str], part: Part, rows: pa.Table) -> Segment:
    """Return the block of a read scope. Raises the errors of its constructor.

    Also creates the tokenizer: importing its stemming library takes 0.1 s.
    """
    words = None if part.text_index is None else words_of(part.text_index)
    return Segment(scope, part.state, rows, columns=columns, vectors=part.vectors, words=words)


def _is_near(before: Position, now: Position) -> bool:
    """Whether little can have been removed meanwhile."""
    return before.table == now.table and now.token - before.token < _FEW

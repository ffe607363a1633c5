"""The scopes of one store that are searched in the process, each as fresh as a read."""

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
from lance_context_core.memory_index.segment_search import HotTable
from lance_context_core.storage import changes, sql
from lance_context_core.storage.changes import NEVER, Changes, Part, Position
from lance_context_core.storage.lance.schema import SEARCH_TEXT, VECTOR
from lance_context_core.storage.sql.predicates import UnsureError as UnsureOfRowError
from lance_context_core.storage.sql.predicates import named
from lance_context_core.storage.table import Table

_FEW = 1_000
"""So many records are read as fast as the engine searches them."""

_QUICK = 256
"""So many rows without their words are made a block in a millisecond, if that."""

_FEW_TO_READ = 500
"""So many are read as soon as the few of them that a read asks for, in about the time."""

_MOST_READS = 100
"""How many reads in a row take it for granted that a scope has more than those."""

_FOR_SEARCHES = frozenset((SEARCH_TEXT, VECTOR))

_Place: TypeAlias = tuple[CachedTable, Hashable]


@dataclass(slots=True)
class _Reading:
    """A scope that is being read."""

    done: asyncio.Future[None]
    block: Segment | None = None
    """What was read; None until then, and if nothing came of it."""


@frozen_by_name
class SearchCacheStats:
    """How the searches of a store were answered since it was opened, and what is kept for that."""

    hits: int
    """In the process, from what was in memory."""
    misses: int
    """In the process, once the scope was read."""
    n_scopes: int
    """How many scopes the cache has in memory, those of other stores too."""
    n_bytes: int
    """What they take, about."""


class HotScopes:
    """The scopes of one store that are searched in the process."""

    def __init__(self, cache: SearchCache) -> None:
        """Keep them in `cache`, which other stores may share."""
        self._cache = cache
        self._blocks = segments_of(cache)
        self._store = object()
        self._reading: dict[tuple[Any, ...], _Reading] = {}
        """What is being read, by its place and the loop that reads it."""
        self._n_forgotten = 0
        self._n_hits = self._n_misses = 0
        self._earlier: weakref.WeakSet[HotScopes] = weakref.WeakSet()
        # A store that nobody closes is forgotten with its last handle.
        weakref.finalize(self, self._blocks.forget_store, self._store)

    @property
    def stats(self) -> SearchCacheStats:
        """How its searches were answered."""
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
        """What answers a search of the rows of a scope that meet `where`; None if only the engine can.

        All rows that are `shown`, whatever a search asks for, meet `scope`; those that meet `where` are
        some of them. `columns` are read of hits, or maybe any if it `is_whole` rows that are looked at.
        """
        if where.rest.holds is None or shown.rest.holds is None or scope.holds is None:
            return None
        seldom = table.spec.seldom
        if not is_whole:
            later = (column for column, _ in where.moments)
            # Among what is asked for is all that is `shown`.
            seldom = named(seldom, where.rest) | seldom.intersection((*columns, *later))
        asked = (table.spec.usual | seldom).difference(LARGE)
        block, was_known = await self._block(table, scope, asked, self._place(table, scope))
        return None if block is None else HotTable(table, block, where, shown, was_known=was_known)

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
        """What answers a read of the rows of a scope of few that meet `where` and `more`.

        None if the table is to. So it is the first time, unless the scope is to be read `at_once`: who
        asks for a part of it may never ask again. And where no journal tells what was written since:
        there a scope is read anew after each write.
        """
        if where.holds is None or more.holds is None or scope.holds is None:
            return None
        if await table.access.view() is None:
            return None
        place = self._place(table, scope)
        mark = place[0], (_FEW_TO_READ, place[1])
        known = self._blocks.get(*place)
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
        """Count a search that was answered."""
        self._n_hits += answered.was_known
        self._n_misses += not answered.was_known

    # What else is in memory of a table, and goes as the scopes do

    @property
    def n_forgotten(self) -> int:
        """How often anything was let go of that may have been erased."""
        return self._n_forgotten

    def known(self, table: Table, place: Hashable) -> Held | None:
        """What was kept of a part of the table; whether it is as the table is now is not said."""
        found = self._blocks.get(CachedTable(self._store, table.name, table.ref), place)
        return None if isinstance(found, NotKept) else found

    def keep(self, table: Table, place: Hashable, held: Held, *, n_forgotten: int) -> None:
        """Keep it, unless something was let go of since `n_forgotten`: what was erased may be in it."""
        if n_forgotten == self._n_forgotten:
            self._blocks.put(CachedTable(self._store, table.name, table.ref), place, held)

    def drop(self, table: Table, place: Hashable) -> None:
        """Keep it no longer."""
        self._blocks.forget(CachedTable(self._store, table.name, table.ref), place)

    def at_a_time(self) -> "HotScopes":
        """Those of the same store as it was at some time, in the same cache."""
        made = HotScopes(self._cache)
        self._earlier.add(made)
        return made

    def forget_table(self, name: str, ref: str | None) -> None:
        """Let go of all that is in memory of a table, in which something may have been erased."""
        self._n_forgotten += 1
        self._blocks.forget_table(CachedTable(self._store, name, ref))
        for earlier in list(self._earlier):
            earlier.forget_table(name, ref)

    def forget(self) -> None:
        """Let go of all that is in memory."""
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
        """The block of a scope as the table is now, with these columns, and whether it was in memory.

        None if it has more than `most` rows, or is too large, or only the engine can tell what there
        is. That it is too large is noted at `mark`.
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
                        # It has become larger, maybe too large.
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
                # As fresh as if it were read here, though the table may have moved on since.
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
        """The block of a scope, read now; None as `_block`."""
        place = self._place(table, scope)
        # A large one is read once it was asked for before, and not for each version.
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
            # Some key is there twice, and only the engine knows what becomes of it.
            self._blocks.put(*mark, NotKept(part.state, is_unfit=True))
            return None
        if n_forgotten == self._n_forgotten:  # Else there may be in it what was erased meanwhile.
            self._blocks.put(*place, made)
        return made

    def _follows(self, block: Segment, since: Changes) -> bool:
        """Whether the block is now as the table is."""
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
    """The block of a scope that was read. Raises as that does.

    Also what makes words is first made in here: the library with the endings takes 0.1 s to import.
    """
    words = None if part.text_index is None else words_of(part.text_index)
    return Segment(scope, part.state, rows, columns=columns, vectors=part.vectors, words=words)


def _is_near(before: Position, now: Position) -> bool:
    """Whether little can have been removed meanwhile."""
    return before.table == now.table and now.token - before.token < _FEW

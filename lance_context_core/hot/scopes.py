"""The scopes of one store that are searched in the process, each as fresh as a read."""

import asyncio
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from lance_context_core.engine import sql
from lance_context_core.engine.schema import VECTOR
from lance_context_core.engine.sql.clauses import UnsureError as UnsureOfRowError
from lance_context_core.engine.table import following
from lance_context_core.engine.table.following import NEVER, UNJOURNALED, Since, State
from lance_context_core.engine.table.table import Table
from lance_context_core.engine.table.text import TextIndex
from lance_context_core.hot.answering import HotTable
from lance_context_core.hot.block import Block, OutdatedError
from lance_context_core.hot.cache import Large, SearchCache, blocks_of
from lance_context_core.hot.cache import Table as CachedTable
from lance_context_core.hot.words import Words, words_of

_FEW = 1_000
"""So many records are read as fast as the engine searches them."""


@dataclass(frozen=True, slots=True, kw_only=True)
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

    def __init__(self, cache: SearchCache, text_index: TextIndex) -> None:
        """Keep them in `cache`, which other stores may share."""
        self._cache = cache
        self._blocks = blocks_of(cache)
        self._words: Words | None = None
        if text_index.tokenizer == TextIndex().tokenizer:
            self._words = words_of(text_index.language, is_stemmed=text_index.stem)
        self._store = object()
        self._n_hits = self._n_misses = 0
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
        self, table: Table, scope: Mapping[str, str | None], where: sql.Clause
    ) -> HotTable | None:
        """What answers a search of the rows of a scope that meet `where`; None if only the engine can.

        `scope` is what the columns of its rows are, where None stands for nothing.
        """
        if self._words is None or where.holds is None or table.spec.has_many_vectors:
            return None
        block, was_known = await self._block(table, scope, self._words)
        if block is None:
            return None
        return HotTable(table, block, was_known=was_known)

    def count(self, answered: HotTable) -> None:
        """Count a search that was answered."""
        self._n_hits += answered.was_known
        self._n_misses += not answered.was_known

    def forget(self) -> None:
        """Let go of all that is in memory."""
        self._blocks.forget_store(self._store)

    # Helpers

    async def _block(
        self, table: Table, scope: Mapping[str, str | None], words: Words
    ) -> tuple[Block | None, bool]:
        """The block of a scope as the table is now, and whether it was in memory.

        None if it is too large, or only the engine can tell what there is.
        """
        of_table = CachedTable(self._store, table.name, table.ref)
        of_scope = frozenset(scope.items())
        known = self._blocks.get(of_table, of_scope)
        since = await following.since(table, NEVER if known is None else known.state)
        if since is None:
            self._blocks.forget(of_table, of_scope)
            return None, False
        if isinstance(known, Block) and self._follows(known, since):
            if since.entries:
                # It has become larger, maybe too large.
                self._blocks.put(of_table, of_scope, known)
            return known, True
        if isinstance(known, Large) and known.is_too_large and _is_near(known.state, since.state):
            return None, False
        # A large one is read once it was asked for before, and not for each version.
        is_wanted = isinstance(known, Large) and (
            since.state.table != UNJOURNALED or known.state == since.state
        )
        most = self._cache.max_records
        mine = sql.all_equal(scope)
        part = await following.read(
            table,
            mine,
            columns=[*(name for name in table.spec.schema.names if name != "blob"), VECTOR],
            most=most if is_wanted else min(_FEW, most),
        )
        if part is None:
            self._blocks.forget(of_table, of_scope)
            return None, False
        if part.rows is None:
            is_too_large = is_wanted or most <= _FEW
            self._blocks.put(of_table, of_scope, Large(part.state, is_too_large))
            return None, False
        make = partial(Block, mine, part.state, part.rows, vectors=part.vectors, words=words)
        made = await asyncio.to_thread(make)
        self._blocks.put(of_table, of_scope, made)
        return made, False

    def _follows(self, block: Block, since: Since) -> bool:
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


def _is_near(before: State, now: State) -> bool:
    """Whether little can have been removed meanwhile."""
    return before.table == now.table and now.token - before.token < _FEW

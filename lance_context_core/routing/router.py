"""Asks the engine of a channel; adds what is newer than its index, or leaves it to LanceDB."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_context_core._loop import store_loop
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.logs import log
from lance_context_core.engines import (
    FIELDS,
    EngineChannel,
    EngineHits,
    SearchEngine,
    SearchEngines,
)
from lance_context_core.memory_index.bm25 import Postings
from lance_context_core.routing.indexer import Indexer, is_followed, newest
from lance_context_core.routing.positions import EnginePosition, Identity
from lance_context_core.routing.rows import split
from lance_context_core.storage import changes, sql
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.reads import Rows
from lance_context_core.storage.lance.schema import KEY, SEARCH_TEXT, VECTOR
from lance_context_core.storage.sql.predicates import UnsureError
from lance_context_core.storage.table import Table

LANCEDB, LOG = "lancedb", "log"
"""The names of what else answers: the tables, and rows that are newer than an engine's index."""

_MOST_CANDIDATES = 10_000
"""The most keys that a search asks of an engine; more are a task for LanceDB."""

_QUIET_SECONDS = 0.5
"""How long after a commit an index follows it: commits often come one after the other."""
_QUIET_STEPS = 10
"""Closing a store interrupts that time after a tenth of it."""


class RoutedRows(Rows):
    """Rows that an engine has found, or that are newer than its index."""

    def __init__(self, rows: pa.Table, score: str, answered: Mapping[int, str]) -> None:
        """`answered` has the name of the engine that found each row."""
        super().__init__(rows, score)
        self.answered = answered
        """By row id, `log` for a newer row."""


@frozen_by_name
class EngineIndexStats:
    """The state of an engine's index of one table."""

    table: str
    n_rows: int
    n_behind: int | None
    """The changes that it lacks; None if unknown: then LanceDB searches until the next
    maintenance."""
    problem: str | None
    """Why it cannot be used now; None if it can."""


@frozen_by_name
class EngineStats:
    """A search engine of a store, and its searches since this handle was opened."""

    name: str
    channels: tuple[str, ...]
    """The channels that it is to search."""
    indexes: tuple[EngineIndexStats, ...]
    n_answered: int
    n_fallbacks: int
    """Searches of a channel that LanceDB answered instead."""
    last_fallback: str | None
    """Why LanceDB answered the last of these."""
    last_error: str | None
    """Why the engine was not brought up to date at the last attempt."""


class _NotAnsweredError(Exception):
    """The engine cannot answer this search; the text says why."""


class _Asked(NamedTuple):
    """One search of one channel."""

    table: Table
    channel: EngineChannel
    engine: SearchEngine
    find: Callable[[EnginePosition, Mapping[str, str | None], int], EngineHits]
    """Blocks."""
    where: sql.Clause
    limit: int
    columns: Sequence[str]


class Router:
    """The engines of one store."""

    def __init__(self, settings: SearchEngines, connection: Connection) -> None:
        """Ask the engines of these settings, for the store at `connection`."""
        self.settings = settings
        self.follows_commits = False
        """Whether the indexes follow each commit of this process in the background."""
        self._connection = connection
        self._indexer = Indexer(connection)
        self._positions: dict[tuple[str, str], EnginePosition] = {}
        """The last known one, by engine and table."""
        self._identity: Identity | None = None
        self._failed_at: dict[str, float] = {}
        self._errors: dict[str, str] = {}
        self._fallbacks: dict[str, str] = {}
        self._n_answered, self._n_fallbacks = Counter[str](), Counter[str]()
        self._due: dict[str, Table] = {}
        self._lock = threading.Lock()
        self._worker: Future[None] | None = None
        self._is_closed = False

    # Searching

    async def match(
        self, table: Table, text: str, *, where: sql.Clause, limit: int, columns: Sequence[str]
    ) -> RoutedRows | None:
        """As `Table.match`; None if LanceDB has to answer."""
        if (engine := self.settings.text) is None:
            return None

        def find(position: EnginePosition, within: Mapping[str, str | None], n: int) -> EngineHits:
            words = split(position.schema, text)
            if not words and text:
                raise _NotAnsweredError("only LanceDB can split the query into words")
            return engine.match(table.name, words, where=within, limit=n)

        def score(position: EnginePosition, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
            texts = [split(position.schema, row.get(SEARCH_TEXT) or "") for row in rows]
            words = split(position.schema, text)
            return Postings(texts).bm25(words, np.ones(len(rows), bool))

        asked = _Asked(table, "text", engine, find, where, limit, columns)
        return await self._answered(asked, "_score", score)

    async def nearest(
        self,
        table: Table,
        vector: np.ndarray,
        *,
        model: str | None,
        where: sql.Clause,
        limit: int,
        columns: Sequence[str],
    ) -> RoutedRows | None:
        """As `Table.nearest`; None if LanceDB has to answer."""
        if (engine := self.settings.vector) is None:
            return None
        if not is_followed(table) or not vector.any():
            return None
        table.vectors.check(await table.schema(), len(vector), model)

        def find(_: EnginePosition, within: Mapping[str, str | None], n: int) -> EngineHits:
            return engine.nearest(table.name, vector.tolist(), where=within, limit=n)

        def score(_: EnginePosition, rows: Sequence[Mapping[str, Any]]) -> np.ndarray:
            there = [row.get(VECTOR) for row in rows]
            cosines = np.full(len(rows), -np.inf)
            for place, one in enumerate(there):
                if one is not None:
                    other = np.asarray(one, np.float32)
                    lengths = float(np.linalg.norm(vector) * np.linalg.norm(other))
                    cosines[place] = float(vector @ other) / lengths if lengths else 0.0
            return cosines

        asked = _Asked(table, "vector", engine, find, where, limit, columns)
        return await self._answered(asked, "_distance", score)

    async def _answered(
        self,
        asked: _Asked,
        score: str,
        own: Callable[[EnginePosition, Sequence[Mapping[str, Any]]], np.ndarray],
    ) -> RoutedRows | None:
        name = asked.engine.name
        if not is_followed(asked.table) or not asked.limit:
            return None
        try:
            rows = await self._ask(asked, score, own)
        except _NotAnsweredError as error:
            self._n_fallbacks[name] += 1
            if self._fallbacks.get(name) != str(error):
                log.warning("LanceDB searches instead of the engine %s: %s", name, error)
            self._fallbacks[name] = str(error)
            return None
        self._n_answered[name] += 1
        return rows

    async def _ask(
        self,
        asked: _Asked,
        score: str,
        own: Callable[[EnginePosition, Sequence[Mapping[str, Any]]], np.ndarray],
    ) -> RoutedRows:
        table, limit = asked.table, asked.limit
        if limit > _MOST_CANDIDATES:
            raise _NotAnsweredError(f"limit={limit}: an engine is asked for {_MOST_CANDIDATES}")
        within = _simple(asked.where)
        n_asked = limit
        while True:
            hits, position = await self._hits(asked, within, n_asked)
            puts, removes = await self._newer(asked, position)
            stale = puts.keys() | removes
            scores = {
                key: one
                for key, one in zip(hits.keys, hits.scores, strict=True)
                if key not in stale
            }
            newer = await self._shown(asked, puts)
            extra = [] if asked.channel == "vector" or not newer else [SEARCH_TEXT]
            wanted = dict.fromkeys([*asked.columns, KEY, *extra])
            columns = [one for one in wanted if one in table.spec.columns]
            where = sql.all_of([sql.in_list(KEY, [*scores, *newer]), asked.where])
            rows = await table.select(where, columns=columns)
            keys = rows[KEY].to_pylist()
            if newer:
                texts = _texts(rows)
                mine = own(
                    position, [newer.get(key, text) for key, text in zip(keys, texts, strict=True)]
                )
                if asked.channel == "text":
                    mine = _on_scale(mine, keys, scores)
                scores |= {
                    key: one
                    for key, one in zip(keys, mine.tolist(), strict=True)
                    if key in newer and one > (0.0 if asked.channel == "text" else -np.inf)
                }
            ids = dict(zip(keys, rows["_rowid"].to_pylist(), strict=True))
            if sum(key in scores for key in ids) >= limit or len(hits.keys) < n_asked:
                break
            if n_asked >= _MOST_CANDIDATES:
                raise _NotAnsweredError(f"of {n_asked} candidates too few are shown to the search")
            n_asked = min(4 * n_asked, _MOST_CANDIDATES)
        # Equal ones in the order of writing.
        best = sorted((key for key in ids if key in scores), key=lambda one: -scores[one])[:limit]
        place = {key: number for number, key in enumerate(keys)}
        found = rows.take(pa.array([place[key] for key in best], pa.int64()))
        values = [scores[key] if score == "_score" else 1.0 - scores[key] for key in best]
        found = found.select(
            [one for one in (*asked.columns, "_rowid") if one in found.column_names]
        )
        found = found.append_column(score, pa.array(values, pa.float32()))
        said = {ids[key]: LOG if key in newer else asked.engine.name for key in best}
        return RoutedRows(found, score, said)

    async def _hits(
        self, asked: _Asked, within: Mapping[str, str | None], n: int
    ) -> tuple[EngineHits, EnginePosition]:
        """The engine's hits with its position. Raises _NotAnsweredError if it cannot be used."""
        name, place = asked.engine.name, (asked.engine.name, asked.table.name)
        failed = self._failed_at.get(name)
        if failed is not None and time.monotonic() - failed < self.settings.pause.total_seconds():
            raise _NotAnsweredError(self._fallbacks.get(name) or "it has just failed")
        try:
            async with asyncio.timeout(self.settings.timeout.total_seconds()):
                known = self._positions.get(place)
                if known is None:
                    state = await asyncio.to_thread(asked.engine.state, asked.table.name)
                    known = await self._usable(asked, state)
                hits = await asyncio.to_thread(asked.find, known, within, n)
                position = await self._usable(asked, hits.state)
        except _NotAnsweredError:
            self._positions.pop(place, None)
            raise
        except TimeoutError:
            self._failed_at[name] = time.monotonic()
            seconds = self.settings.timeout.total_seconds()
            raise _NotAnsweredError(f"it did not answer in {seconds:g} seconds") from None
        except LookupError:
            self._positions.pop(place, None)
            raise _NotAnsweredError("it has no index of the table") from None
        except Exception as error:
            self._failed_at[name] = time.monotonic()
            self._positions.pop(place, None)
            raise _NotAnsweredError(f"{type(error).__name__}: {str(error).strip():.300}") from error
        self._failed_at.pop(name, None)
        self._positions[place] = position
        if position.schema != known.schema:
            raise _NotAnsweredError("its index was made anew meanwhile")
        return hits, position

    async def _usable(self, asked: _Asked, state: Any) -> EnginePosition:
        """The position of an index. Raises _NotAnsweredError if it cannot answer the channel."""
        problem, position = await self._problem(state)
        if position is None or problem:
            raise _NotAnsweredError(problem or "")
        if asked.channel in position.lacks:
            raise _NotAnsweredError(
                f"some rows cannot be found by it in the channel {asked.channel}"
            )
        if asked.channel == "text" and position.schema.text_index is None:
            raise _NotAnsweredError("only LanceDB can split the texts of the table into words")
        if asked.channel == "vector" and position.schema.dimension is None:
            raise _NotAnsweredError("its index has no vectors")
        return position

    async def _problem(self, state: Any) -> tuple[str | None, EnginePosition | None]:
        """Why an index in this state cannot be used; None if it can."""
        if state is None:
            return "it has no index of the table", None
        position = EnginePosition.read(state.position)
        if position is None:
            return "its index is not complete, or was made by another release", None
        if self._identity is None or self._identity.id is None:
            self._identity = await asyncio.to_thread(Identity.of, self._connection)
        if not position.store.is_of(self._identity):
            return f"its index belongs to the store at {position.store.uri!r}", position
        if state.n_lost:
            return f"its index has {state.n_lost} rows fewer than were written to it", position
        return None, position

    async def _newer(
        self, asked: _Asked, position: EnginePosition
    ) -> tuple[Mapping[str, Mapping[str, Any]], set[str]]:
        """The newer rows, by key, and the keys of removed ones."""
        now = await changes.since(asked.table, position.state, version=position.version)
        if now is None or now.entries is None:
            raise _NotAnsweredError("it is behind by an unknown number of changes")
        if position.is_ahead_of(now):
            raise _NotAnsweredError("it is ahead of the store, which was restored from a copy")
        if len(now.entries) > self.settings.max_behind:
            raise _NotAnsweredError(f"it is {len(now.entries)} changes behind")
        return newest(now.entries)

    async def _shown(
        self, asked: _Asked, puts: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Mapping[str, Any]]:
        """Those of the newer rows that the search may show."""
        holds = asked.where.holds
        if puts and holds is None:
            raise _NotAnsweredError("only LanceDB can apply the filter to newer rows")
        try:
            return {key: row for key, row in puts.items() if holds is None or holds(row)}
        except UnsureError:
            raise _NotAnsweredError("only LanceDB can apply the filter to newer rows") from None

    # Following

    def committed(self, table: Table) -> None:
        """Schedule that the indexes follow a commit to the table. Never blocks."""
        if not self.follows_commits or self._is_closed or not is_followed(table):
            return
        with self._lock:
            self._due[table.name] = table
            if self._worker is None:
                self._worker = store_loop.spawn_apart(self._work())

    async def _work(self) -> None:
        while True:
            for _ in range(_QUIET_STEPS):
                if not self._is_closed:
                    await asyncio.sleep(_QUIET_SECONDS / _QUIET_STEPS)
            with self._lock:
                due, self._due = self._due, {}
                if not due or self._is_closed:
                    self._worker = None
                    return
            await self.follow([*due.values()])

    async def follow(self, tables: Sequence[Table], *, are_all: bool = False) -> list[str]:
        """Bring all indexes of these tables up to date; returns the engines that failed.

        If they `are_all` tables of the store, the indexes of other tables are dropped.
        """
        failed = []
        for engine in self.settings.distinct:
            try:
                for table in filter(is_followed, tables):
                    await self._indexer.follow(engine, table, self._channels(engine))
                if are_all:
                    await self._indexer.drop_others(engine, tables)
                self._errors.pop(engine.name, None)
                self._failed_at.pop(engine.name, None)
            except Exception as error:  # noqa: BLE001 - told by stats(), and tried again
                log.warning("the engine %s was not brought up to date: %s", engine.name, error)
                self._errors[engine.name] = f"{type(error).__name__}: {str(error).strip():.300}"
                failed.append(engine.name)
        return failed

    async def stats(self, tables: Sequence[Table]) -> tuple[EngineStats, ...]:
        """The engines, with their indexes of these tables."""
        return tuple([await self._stats(one, tables) for one in self.settings.distinct])

    def _channels(self, engine: SearchEngine) -> tuple[EngineChannel, ...]:
        """The channels that an engine is to search."""
        given: tuple[tuple[EngineChannel, SearchEngine | None], ...]
        given = ("text", self.settings.text), ("vector", self.settings.vector)
        return tuple(channel for channel, one in given if one is engine)

    async def _stats(self, engine: SearchEngine, tables: Sequence[Table]) -> EngineStats:
        found, error = list[EngineIndexStats](), self._errors.get(engine.name)
        try:
            for table in filter(is_followed, tables):
                state = await asyncio.to_thread(engine.state, table.name)
                found.append(await self._index_stats(table, state))
        except Exception as failure:  # noqa: BLE001 - whatever an engine's client raises
            error = f"{type(failure).__name__}: {str(failure).strip():.300}"
        return EngineStats(
            name=engine.name,
            channels=self._channels(engine),
            indexes=tuple(found),
            n_answered=self._n_answered[engine.name],
            n_fallbacks=self._n_fallbacks[engine.name],
            last_fallback=self._fallbacks.get(engine.name),
            last_error=error,
        )

    async def _index_stats(self, table: Table, state: Any) -> EngineIndexStats:
        problem, position = await self._problem(state)
        n_behind = None
        if position is not None:
            now = await changes.since(table, position.state, version=position.version)
            if now is not None and position.is_ahead_of(now):
                problem = problem or "it is ahead of the store, which was restored from a copy"
            elif now is not None and now.entries is not None:
                n_behind = len(now.entries)
        return EngineIndexStats(
            table=table.name,
            n_rows=state.n_rows if state else 0,
            n_behind=n_behind,
            problem=problem,
        )

    async def close(self) -> None:
        """Wait for running work; starts nothing more. The engines stay open: they are the caller's."""
        with self._lock:
            self._is_closed, worker = True, self._worker
        if worker is not None:
            await asyncio.wait([asyncio.wrap_future(worker)])


def _simple(where: sql.Clause) -> dict[str, str | None]:
    """The conditions that an engine can apply, as a condition of fewer rows than all."""
    parts = (part.equal for part in where.parts or (where,))
    return dict(part for part in parts if part is not None and part[0] in FIELDS)


def _texts(rows: pa.Table) -> list[Mapping[str, Any]]:
    if SEARCH_TEXT not in rows.column_names:
        return [{}] * rows.num_rows
    return [{SEARCH_TEXT: one} for one in rows[SEARCH_TEXT].to_pylist()]


def _on_scale(mine: np.ndarray, keys: Sequence[str], scores: Mapping[str, float]) -> np.ndarray:
    """The scores by words of a few rows, on the scale of an engine, which knows all rows.

    The best of the engine's rows has its score on both scales.
    """
    both = [
        (one, scores[key]) for key, one in zip(keys, mine.tolist(), strict=True) if key in scores
    ]
    highest = max((one for one, _ in both), default=0.0)
    return mine * (max(score for _, score in both) / highest) if highest > 0 else mine

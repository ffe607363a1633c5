"""Caches graphs as an `Adjacency` in memory: those walked repeatedly, within bounds.

They are in the search cache of the store, and are removed with its other entries: by an erasure,
with the store, and as least recently used.
"""

import asyncio
from dataclasses import dataclass

from lance_context_core.codecs.graph import ENTITY, RELATION
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph.adjacency import COLUMNS, Adjacency
from lance_context_core.graph.scoped import ScopedGraph
from lance_context_core.storage import changes, sql
from lance_context_core.storage.changes import NEVER, Position
from lance_context_core.storage.sql.predicates import UnsureError

_FEW_ROWS = 1_000
"""Up to this many rows the engine is as fast."""

_MOST_ROWS = 2_000_000
"""Larger graphs are walked by the indexes alone."""

_MOST_BELIEVED = 100
"""For so many walks in a row a graph is assumed to be still too large."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A graph that was walked, and is not in memory."""

    state: Position
    n_left: int = 0
    """How many further walks use the indexes before it is read."""
    n_bytes: int = 500


async def near(graph: ScopedGraph) -> Adjacency | None:
    """Returns the current graph; None if it is not to be cached, or only the engine knows it.

    Reads it on the second walk since the last write outside the log: as long as the log has
    the writes, they are added.
    """
    hot, table = graph.resources.hot, await graph.table.here()
    if hot is None or table.access.is_pinned:
        return None
    where = graph.where(sql.in_list("kind", [ENTITY, RELATION]))
    place, n_forgotten = ("graph", str(where)), hot.n_forgotten
    known = hot.known(table, place)
    since = await changes.since(table, NEVER if known is None else known.state)
    if since is None:
        return None
    if isinstance(known, Adjacency) and known.state.table == since.state.table:
        if known.state == since.state:
            return known
        try:
            now = since.entries and known.followed(since.state, since.entries, where)
        except UnsureError:
            now = None
        if now:
            hot.keep(table, place, now, n_forgotten=n_forgotten)
            return now
    n_left = known.n_left if isinstance(known, _Asked) else 1
    if n_left > 1:
        hot.keep(table, place, _Asked(since.state, n_left - 1), n_forgotten=n_forgotten)
        return None
    # Concurrent callers do not read it again.
    hot.keep(table, place, _Asked(since.state, _MOST_BELIEVED), n_forgotten=n_forgotten)
    most = _MOST_ROWS if isinstance(known, _Asked) else _FEW_ROWS
    try:
        made = await _read(graph, where, most)
    except BaseException:
        hot.drop(table, place)
        raise
    if made is None:
        again = _Asked(since.state, 1 if most == _FEW_ROWS else _MOST_BELIEVED)
        hot.keep(table, place, again, n_forgotten=n_forgotten)
        return None
    hot.keep(table, place, made, n_forgotten=n_forgotten)
    if hot.known(table, place) is None:  # It exceeds the cache.
        hot.keep(table, place, _Asked(since.state, _MOST_BELIEVED), n_forgotten=n_forgotten)
    return made


async def whole(graph: ScopedGraph, max_rows: int) -> Adjacency:
    """Returns the current graph, also if it is not to be cached.

    Raises InvalidRequestError if it then has more than `max_rows` entities and relations.
    """
    if (known := await near(graph)) is not None:
        return known
    where = graph.where(sql.in_list("kind", [ENTITY, RELATION]))
    found = await graph.table.slice(where, columns=COLUMNS, limit=max_rows + 1)
    if found.num_rows > max_rows:
        raise InvalidRequestError(
            f"query asks about a graph of more than max_rows={max_rows} entities and relations: pass a "
            "larger one if there is the memory for it, or walk by neighbours and path"
        )
    return await asyncio.to_thread(Adjacency.of, NEVER, found)


async def _read(graph: ScopedGraph, where: sql.Clause, most: int) -> Adjacency | None:
    part = await changes.read(graph.table, where, columns=COLUMNS, most=most)
    if part is None or part.rows is None:
        return None
    if part.rows.num_rows <= _FEW_ROWS:
        return Adjacency.of(part.state, part.rows)
    return await asyncio.to_thread(Adjacency.of, part.state, part.rows)

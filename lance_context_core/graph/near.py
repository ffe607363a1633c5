"""Which graphs are in memory as an `Adjacency`: those that are walked again and again, within bounds.

They are in the search cache of the store, and go with all that is in it: with what is erased, with the
store, and where something else was used later.
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
"""So many are read as fast as the engine answers."""

_MOST_ROWS = 2_000_000
"""More are walked by the indexes alone."""

_MOST_BELIEVED = 100
"""How many walks in a row take it for granted that a graph is too large."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """That a graph is not in memory, though it was walked."""

    state: Position
    n_left: int = 0
    """How many further walks are answered by the indexes, before it is read."""
    n_bytes: int = 500


async def near(graph: ScopedGraph) -> Adjacency | None:
    """The graph as it is now; None if it is not to be in memory, or only the engine knows it.

    It is read when it is walked for the second time since other than by the log was written to it: as
    long as the log tells what was written, that is added.
    """
    hot, table = graph.resources.hot, graph.table
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
    # Those who ask meanwhile do not read it once more.
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
    if hot.known(table, place) is None:  # It takes more than the cache holds.
        hot.keep(table, place, _Asked(since.state, _MOST_BELIEVED), n_forgotten=n_forgotten)
    return made


async def whole(graph: ScopedGraph, max_rows: int) -> Adjacency:
    """The graph as it is now, also where it is not to be kept in memory.

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

"""Questions in Cypher, for reading, and the walks of a graph."""

import asyncio
import builtins
import math
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lance_context_core._handle import handle
from lance_context_core._util.checks import check_count, check_name, check_text, shown
from lance_context_core.codecs.graph import MENTION
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph import traversal, whole
from lance_context_core.graph.cypher_matching import Matcher
from lance_context_core.graph.cypher_syntax import parsed
from lance_context_core.graph.near import near
from lance_context_core.graph.near import whole as in_memory
from lance_context_core.graph.scoped import Moment, ScopedGraph
from lance_context_core.graph.traversal import Direction, Walk
from lance_context_core.graph.whole import Centrality, Grouping
from lance_context_core.storage import sql
from lance_context_core.types.graph import Entity, Impact, Path, Ranked, SubGraph

Parameter = str | int | float | bool | None | list[str] | list[int] | list[float]
"""What may stand for a `$name`."""


async def asked(
    graph: ScopedGraph,
    query: str,
    *,
    parameters: Mapping[str, Parameter] | None,
    moment: Moment,
    max_rows: int,
) -> list[dict[str, Any]]:
    """The rows that the query returns."""
    check_count(max_rows, "max_rows")
    made = parsed(check_text(query, "query"), _checked(parameters or {}))
    memory = await in_memory(graph, max_rows)
    is_over = threading.Event()

    def pause() -> None:
        if is_over.is_set():
            raise asyncio.CancelledError

    try:
        return await asyncio.to_thread(Matcher(memory, moment, max_rows, pause).rows, made)
    except RecursionError as error:
        raise InvalidRequestError("query is nested too deeply: write it in fewer levels") from error
    finally:
        is_over.set()


def _checked(parameters: object) -> dict[str, Any]:
    if not isinstance(parameters, Mapping):
        raise InvalidRequestError(f"parameters={shown(parameters)}: give values by their names")
    return {name: _value(one, f"parameters[{name!r}]") for name, one in parameters.items()}


def _value(value: object, where: str) -> Any:
    if isinstance(value, list | tuple):
        return [_value(one, where) for one in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise InvalidRequestError(
        f"{where}={shown(value)}: give a text, a finite number, a bool, None, or a list of them"
    )


# What a graph is asked: walks from an entity, and questions about the whole of it.

Types = str | Sequence[str]
"""One type, or several."""


@handle
class AsyncWalks:
    """The walks of a graph."""

    _graph: ScopedGraph

    # Walking

    async def neighbours(
        self,
        entity_id: str,
        *,
        depth: int = 1,
        types: Types | None = None,
        direction: Direction = "both",
        at: datetime | None = None,
        known_at: datetime | None = None,
        limit: int = 1_000,
    ) -> SubGraph:
        """An entity and what is within so many relations of it, with the relations walked on the way.

        - `types`: walk relations of these alone.
        - `direction`: `out` walks along relations, `in` against them.
        - `limit`: so many entities at most, the nearest ones; and twenty times as many relations.
          `is_cut` says whether there is more.

        Each step is one look into the indexes for a whole frontier: what is not reached is not read. A
        graph that is walked again is kept in memory, in the bounds of the search cache.
        Raises NotFoundError if there is no such entity.
        """
        walk = self._walk(direction, types, at, known_at)
        memory = await near(self._graph)
        starts = memory.find(check_name(entity_id, "entity_id")) if memory else []
        starts = starts or await self._starts(entity_id)
        return await traversal.neighbours(walk, starts, memory, depth=depth, limit=limit)

    async def path(
        self,
        source_id: str,
        target_id: str,
        *,
        weighted: bool = False,
        types: Types | None = None,
        direction: Direction = "both",
        max_steps: int | None = None,
        at: datetime | None = None,
        known_at: datetime | None = None,
        limit: int = 10_000,
    ) -> Path | None:
        """The way between two entities with the fewest relations; None if there is none.

        - `weighted`: the one on which the weights add up to the least, a relation without one counts
          as 1.
        - `direction`: `out` goes along relations only, `in` against them only.
        - `max_steps`: of no more relations than these.
        - `limit`: so many entities are looked at before it is given up: InvalidRequestError.

        Raises NotFoundError if one of them is not there.
        """
        walk = self._walk(direction, types, at, known_at)
        sources = await self._starts(source_id, "source_id")
        targets = await self._starts(target_id, "target_id")
        look = traversal.lightest if weighted else traversal.shortest
        return await look(walk, traversal.Ends(sources, targets), max_steps, limit)

    async def impact(
        self,
        entity_id: str,
        *,
        depth: int = 3,
        passes: Mapping[str, float] | None = None,
        least: float = 0.05,
        types: Types | None = None,
        direction: Direction = "in",
        at: datetime | None = None,
        known_at: datetime | None = None,
        limit: int = 1_000,
    ) -> builtins.list[Impact]:
        """What a change of an entity may reach, the most first.

        A relation passes on as much of a change as its weight says, at most all of it; no weight is
        all. Of all ways to an entity the one that passes on the most counts.

        - `passes`: how much of that relations of a type pass on, in [0, 1]; all of it for others.
        - `least`: what less than this arrives at is not told.
        - `direction`: `in` asks what leads here, such as what depends on it; `out` the other way.

        Raises NotFoundError if there is no such entity.
        """
        walk = self._walk(direction, types, at, known_at)
        starts = await self._starts(entity_id)
        return await traversal.impact(
            walk, starts, depth=depth, least=least, passes=dict(passes or {}), limit=limit
        )

    async def subgraph(
        self,
        *,
        session_id: str | None = None,
        document_id: str | None = None,
        at: datetime | None = None,
        known_at: datetime | None = None,
        limit: int = 1_000,
    ) -> SubGraph:
        """The entities that are spoken of in a session or a document, and the relations between them.

        With neither, of the whole graph. In the order in which they are spoken of first.
        """
        walk = self._walk("out", None, at, known_at)
        if session_id is None and document_id is None:
            nodes = await self._graph.nodes(limit + 1)
        else:
            where = [sql.equals("kind", MENTION), *within(session_id, document_id)]
            found = await self._graph.read(*where, columns=["about_node"])
            nodes = list(dict.fromkeys(row["about_node"] for row in found))
        return await traversal.induced(walk, nodes, limit=limit)

    # The whole

    async def central(
        self,
        *,
        by: Centrality = "degree",
        types: Types | None = None,
        at: datetime | None = None,
        known_at: datetime | None = None,
        limit: int = 10,
    ) -> builtins.list[Ranked]:
        """The entities that the most leads to, the first ones first.

        Of all relations the ends are read, and nothing else: a million are forty megabytes.
        """
        moment = Moment.of(at, known_at)
        return await whole.central(self._graph, by=by, types=types, moment=moment, limit=limit)

    async def communities(
        self,
        *,
        by: Grouping = "components",
        types: Types | None = None,
        at: datetime | None = None,
        known_at: datetime | None = None,
        limit: int = 10,
    ) -> builtins.list[tuple[Entity, ...]]:
        """The largest groups of two entities or more, the largest first. As `central`, of reading.

        `louvain` needs the extra `networkx`, and loads the graph into it.
        """
        moment = Moment.of(at, known_at)
        return await whole.communities(self._graph, by=by, types=types, moment=moment, limit=limit)

    # Helpers

    def _walk(self, direction: object, types: object, at: object, known_at: object) -> Walk:
        moment = Moment.of(at, known_at)
        return Walk.of(self._graph, direction=direction, types=types, moment=moment)

    async def _starts(self, entity_id: str, where: str = "entity_id") -> builtins.list[int]:
        return await self._graph.starts(entity_id, where)


def within(session_id: str | None, document_id: str | None) -> list[sql.Clause]:
    """That a mention is in a session, in a document, or in both, if they are given."""
    named = {"session_id": session_id, "document_id": document_id}
    return [
        sql.equals(column, check_name(value, column))
        for column, value in named.items()
        if value is not None
    ]

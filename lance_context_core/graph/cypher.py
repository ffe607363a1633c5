"""Cypher queries for reading, and the walks of a graph."""

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
"""The values of a `$name`."""


async def asked(
    graph: ScopedGraph,
    query: str,
    *,
    parameters: Mapping[str, Parameter] | None,
    moment: Moment,
    max_rows: int,
) -> list[dict[str, Any]]:
    """Returns the rows of the query."""
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


# Walks from an entity, and queries about the whole graph.

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
        """Returns an entity and its neighbours up to some steps away, with the relations walked.

        - `types`: walks only relations of these types.
        - `direction`: `out` walks along relations, `in` against them.
        - `limit`: the most entities, the nearest ones; and twenty times as many relations.
          `is_cut` is set if there are more.

        Each step is one index lookup for a whole frontier: unreached rows are not read. A
        graph that is walked again is kept in memory, within the bounds of the search cache.
        Raises NotFoundError if the entity does not exist.
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
        """Returns the path between two entities with the fewest relations; None if none exists.

        - `weighted`: minimises the sum of the weights instead; a relation without one counts
          as 1.
        - `direction`: `out` follows relations forwards only, `in` backwards only.
        - `max_steps`: the most relations on the path.
        - `limit`: the most entities visited; beyond it raises InvalidRequestError.

        Raises NotFoundError if one of them does not exist.
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
        """Returns the entities that a change of an entity may affect, the most affected first.

        A relation passes on the share of a change given by its weight, at most all; without a
        weight all. Of all paths to an entity the one with the largest share counts.

        - `passes`: the share that relations of a type pass on, in [0, 1]; all for others.
        - `least`: excludes entities that receive less than this.
        - `direction`: `in` follows incoming relations, such as from dependents; `out` outgoing
          ones.

        Raises NotFoundError if the entity does not exist.
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
        """Returns the entities mentioned in a session or a document, and their relations.

        With neither, of the whole graph. In the order of the first mentions.
        """
        walk = self._walk("out", None, at, known_at)
        if session_id is None and document_id is None:
            nodes = await self._graph.nodes(limit + 1)
        else:
            where = [sql.equals("kind", MENTION), *within(session_id, document_id)]
            found = await self._graph.read(*where, columns=["about_node"])
            nodes = list(dict.fromkeys(row["about_node"] for row in found))
        return await traversal.induced(walk, nodes, limit=limit)

    # The whole graph

    async def central(
        self,
        *,
        by: Centrality = "degree",
        types: Types | None = None,
        at: datetime | None = None,
        known_at: datetime | None = None,
        limit: int = 10,
    ) -> builtins.list[Ranked]:
        """Returns the most central entities, the first ones first.

        Reads only the ends of all relations: a million are forty megabytes.
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
        """Returns the largest groups of two or more entities, largest first. Reads as `central`.

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
    """Matches mentions in a session, in a document, or in both, if given."""
    named = {"session_id": session_id, "document_id": document_id}
    return [
        sql.equals(column, check_name(value, column))
        for column, value in named.items()
        if value is not None
    ]

"""Questions in Cypher, for reading: the engine of lance-graph, shown what a handle sees of the graph."""

import asyncio
import builtins
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from lance_context_core._handle import handle
from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_count, check_name, check_text, dumps, loads, shown
from lance_context_core._util.extras import importing
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.graph import ENTITY, MENTION, RELATION
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph import traversal, whole
from lance_context_core.graph.near import near
from lance_context_core.graph.scoped import Moment, ScopedGraph
from lance_context_core.graph.traversal import Direction, Walk
from lance_context_core.graph.whole import Centrality, Grouping
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import TIMESTAMP
from lance_context_core.types.graph import Entity, Impact, Path, Ranked, SubGraph

Parameter = str | int | float | bool | list[str] | list[int] | list[float]
"""What may stand for a `$name`."""

_ANY_ENTITY, _ANY_RELATION = "Entity", "Relation"
"""What all of them are called in a query."""

_ANY_NODE = "Node"
"""Under this label lance-graph looks for nodes without one."""

_ENTITIES = pa.schema(
    [
        pa.field("node", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("id", "name", "type", "properties")),
        *(pa.field(name, TIMESTAMP) for name in ("valid_from", "valid_to", "recorded_at")),
    ]
)
_RELATIONS = pa.schema(
    [
        pa.field("source_node", pa.int64()),
        pa.field("target_node", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("id", "type", "properties")),
        pa.field("weight", pa.float64()),
        *(pa.field(name, TIMESTAMP) for name in ("valid_from", "valid_to", "recorded_at")),
    ]
)

_NO_RELATION = pa.Table.from_pylist([{"source_node": -1, "target_node": -2}], schema=_RELATIONS)

_SAID = ("name", "properties")
"""What of a thing stands in its content."""

_TEXT = r"'[^']*'|\"[^\"]*\""
_OUTSIDE = re.compile(_TEXT)
_NAMED = re.compile(rf"{_TEXT}|\$(\w+)")
_WRITES = re.compile(
    r"(?<![\w.:$])(CREATE|MERGE|DELETE|DETACH|SET|REMOVE|DROP|CALL|LOAD|FOREACH)\b(?!\s*[.:)])",
    re.IGNORECASE,
)
_UNLABELLED = re.compile(r"\(\s*\w*\s*[){]")
_RELATED = re.compile(r"(<?)\s*-\s*\[([^\]]*)\]\s*-\s*(>?)")


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
    text = _filled(check_text(query, "query"), parameters or {})
    _check_reads(text)
    with importing("lance_graph", extra="graph", by="graph.cypher"):
        from lance_graph import CypherQuery, GraphConfig
    try:
        parsed = CypherQuery(text)
    except Exception as error:
        raise _refused(error) from error
    labels, types = set(parsed.node_labels()), set(parsed.relationship_types())
    if _UNLABELLED.search(_OUTSIDE.sub("''", text)):
        labels.add(_ANY_NODE)
    _check_apart(labels | types)
    whole = _Reading(graph, moment, max_rows)
    tables = {
        label: await whole.table(ENTITY, None if label in (_ANY_ENTITY, _ANY_NODE) else label)
        for label in labels
    }
    if not all(table.num_rows for table in tables.values()):
        return []  # A table without rows is refused there.
    for type in types:
        tables[type] = await whole.table(RELATION, None if type == _ANY_RELATION else type)
    config = GraphConfig.builder()
    for label in labels:
        config = config.with_node_label(label, "node")
    for type in types:
        config = config.with_relationship(type, "source_node", "target_node")
    try:
        found = await asyncio.to_thread(parsed.with_config(config.build()).execute, tables)
    except Exception as error:
        raise _refused(error) from error
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


@frozen
class _Reading:
    """The part of a graph that a query is about."""

    graph: ScopedGraph
    moment: Moment
    max_rows: int

    async def table(self, kind: str, type: str | None) -> pa.Table:
        """The entities or the relations, of one type or of all, as queries call their properties."""
        schema = _ENTITIES if kind == ENTITY else _RELATIONS
        where = [sql.equals("kind", kind), *self.moment.conditions]
        if type is not None:
            where.append(sql.equals("type", type))
        stored = [one for one in schema.names if one not in _SAID]
        found = await self.graph.table.slice(
            self.graph.where(*where), columns=[*stored, "content"], limit=self.max_rows + 1
        )
        if found.num_rows > self.max_rows:
            of = "" if type is None else f" of type {shown(type)}"
            raise InvalidRequestError(
                f"query asks about more than max_rows={self.max_rows} {kind} rows{of}: name types that "
                "have fewer, or pass a larger one if there is the memory for it"
            )
        said = await steps.each(_said, found["content"].to_pylist(), n_as_one=10)
        columns = {one: found[one].combine_chunks() for one in stored}
        columns |= {one: pa.array([row[one] for row in said], pa.string()) for one in _SAID}
        arrays = [columns[one.name].cast(one.type) for one in schema]
        made = pa.Table.from_arrays(arrays, schema=schema)
        # A table without rows is refused there: this relation leads from nothing to nothing.
        return made if made.num_rows or kind == ENTITY else _NO_RELATION


def _said(content: str) -> dict[str, Any]:
    values = loads(content, "content")
    properties = values.get("properties")
    return {
        "name": values.get("name"),
        "properties": dumps(properties) if properties else None,
    }


# What is asked


def _filled(query: str, parameters: Mapping[str, Parameter]) -> str:
    """The query with a literal for each `$name`, which its engine does not know."""
    if not isinstance(parameters, Mapping):
        raise InvalidRequestError(f"parameters={shown(parameters)}: give values by their names")

    def value(match: re.Match[str]) -> str:
        if (name := match[1]) is None:
            return match[0]
        if name not in parameters:
            raise InvalidRequestError(f"query names ${name}, which parameters does not have")
        return _literal(parameters[name], f"parameters[{name!r}]")

    return _NAMED.sub(value, query)


def _literal(value: object, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, str):
        # Texts have no escapes there, but two kinds of quotes.
        for quote in "'\"":
            if quote not in value:
                return f"{quote}{value}{quote}"
        raise InvalidRequestError(
            f"{where}={shown(value)} has both kinds of quotes, which no text of a query can: compare "
            "with CONTAINS and a part of it"
        )
    if isinstance(value, list | tuple) and value:
        return f"[{', '.join(_literal(one, where) for one in value)}]"
    raise InvalidRequestError(
        f"{where}={shown(value)}: give a text, a finite number, a bool, or a list of them"
    )


def _check_reads(query: str) -> None:
    """Raise for what writes, and for what the engine would misunderstand."""
    plain = _OUTSIDE.sub("''", query)
    if writes := _WRITES.search(plain):
        raise InvalidRequestError(
            f"query has {writes[1].upper()}: it may only read, by MATCH; write by add, "
            "delete_entity and delete_relation"
        )
    for back, inside, forth in _RELATED.findall(plain):
        if bool(back) is bool(forth):
            raise InvalidRequestError(
                f"query has -[{inside}]- without a direction: write -[{inside}]-> or <-[{inside}]-, and "
                "ask twice for both"
            )
        if ":" not in inside:
            raise InvalidRequestError(
                f"query has -[{inside}]-> without a type: name one, or [{inside}:{_ANY_RELATION}] for "
                "any"
            )


def _check_apart(names: set[str]) -> None:
    """Raise for names that the engine would take for one."""
    seen: dict[str, str] = {}
    for name in sorted(names):
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise InvalidRequestError(
                f"query names {other!r} and {name!r}, which differ in case alone: ask about one of them "
                "at a time, or by WHERE and type"
            )


def _refused(error: Exception) -> InvalidRequestError:
    return InvalidRequestError(
        f"query cannot be answered: {str(error)[:500]}; docs/graph.md says what there is of Cypher"
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

        Each step is one look into the indexes for a whole frontier: what is not reached is not read.
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

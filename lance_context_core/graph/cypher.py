"""Questions in Cypher, for reading: the engine of lance-graph, shown what a handle sees of the graph."""

import asyncio
import math
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_count, check_text, dumps, loads, shown
from lance_context_core._util.extras import importing
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.graph import ENTITY, RELATION
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph.scoped import Moment, ScopedGraph
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import TIMESTAMP

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

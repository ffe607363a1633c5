"""The store's graph for LlamaIndex's Cypher retrievers: its schema and query results."""

from collections.abc import Iterable, Mapping
from typing import Any

from lance_context_core.results import AsyncGraph

_MOMENTS = ("valid_from", "valid_to", "recorded_at")
_TEXTS = ("id", "type", "properties")
_NODE = {"name": "STRING", **dict.fromkeys(_TEXTS, "STRING"), **dict.fromkeys(_MOMENTS, "DATETIME")}
_RELATION = {**_NODE, "weight": "FLOAT"}
del _RELATION["name"]

_RULES = """\
Rules:
- Only read: MATCH, WHERE, RETURN, DISTINCT, ORDER BY, SKIP, LIMIT, count, sum, avg, min, max, collect.
- No OPTIONAL MATCH, no WITH, no UNION, no CASE. A length has an end: -[:TYPE*1..3]->.
- Entity is any label, Relation any type. `properties` is JSON of all further properties."""


async def answered(
    graph: AsyncGraph, query: str, parameters: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """The rows of a query."""
    return await graph.cypher(query, parameters=parameters)


async def schema_of(graph: AsyncGraph) -> dict[str, Any]:
    """The labels, the relation types, and the labels that each type connects, sorted."""
    labels = await graph.cypher("MATCH (a:Entity) RETURN DISTINCT a.type AS label ORDER BY label")
    led = await graph.cypher(
        "MATCH (a:Entity)-[r:Relation]->(b:Entity) "
        "RETURN DISTINCT a.type AS start, r.type AS type, b.type AS target ORDER BY start, type, target"
    )
    return {
        "node_props": {one["label"]: _properties(_NODE) for one in labels},
        "rel_props": {
            type: _properties(_RELATION) for type in sorted({one["type"] for one in led})
        },
        "relationships": [
            {"start": one["start"], "type": one["type"], "end": one["target"]} for one in led
        ],
    }


def schema_text(schema: Mapping[str, Any]) -> str:
    """The schema in words, with the limits of queries, for a model that writes one."""
    return "\n".join(
        [
            f"Labels: {_listed(schema['node_props'])}",
            f"Properties of each: {_listed(f'{name}: {type}' for name, type in _NODE.items())}",
            f"Relationship types: {_listed(schema['rel_props'])}",
            f"Properties of each: {_listed(f'{name}: {type}' for name, type in _RELATION.items())}",
            "Relationships:",
            *(f"(:{r['start']})-[:{r['type']}]->(:{r['end']})" for r in schema["relationships"]),
            _RULES,
        ]
    )


def _properties(types: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"property": name, "type": type} for name, type in types.items()]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)

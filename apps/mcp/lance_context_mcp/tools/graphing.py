"""The nine tools of the reference memory server, as its clients know them."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from lance_context_mcp.graph import GRAPH, N_BY_MEANING, Graph
from lance_context_mcp.memory import Memory
from lance_context_mcp.tool import Arguments, Effect, Schema, Tool


def _text(description: str | None = None) -> Schema:
    return (
        {"type": "string"}
        if description is None
        else {"type": "string", "description": description}
    )


def _texts(description: str | None = None) -> Schema:
    more = {} if description is None else {"description": description}
    return {"type": "array", "items": {"type": "string"}, **more}


def _list_of(description: str | None = None, /, **properties: Schema) -> Schema:
    items = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
    more = {} if description is None else {"description": description}
    return {"type": "array", "items": items, **more}


_ENTITIES = _list_of(
    name=_text("The name of the entity"),
    entityType=_text("The type of the entity"),
    observations=_texts("An array of observation contents associated with the entity"),
)
_RELATION = {
    "from": _text("The name of the entity where the relation starts"),
    "to": _text("The name of the entity where the relation ends"),
    "relationType": _text("The type of the relation"),
}
_GRAPH = {"entities": _ENTITIES, "relations": _list_of(**_RELATION)}
_DONE = {"success": {"type": "boolean"}, "message": {"type": "string"}}

Reads = Callable[[Graph, Arguments], Awaitable[dict[str, Any]]]


def _over(read: Reads) -> Callable[[Memory, Arguments], Awaitable[dict[str, Any]]]:
    async def call(memory: Memory, arguments: Arguments) -> dict[str, Any]:
        return await read(Graph(memory.store, memory.has_meaning), arguments)

    return call


def _the(name: str) -> Callable[[Mapping[str, Any]], str]:
    """The text of an answer of which one part is told: a message as it is, a list as JSON."""

    def text(answer: Mapping[str, Any]) -> str:
        part = answer[name]
        return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, indent=2)

    return text


@_over
async def _create_entities(graph: Graph, arguments: Arguments) -> dict[str, Any]:
    return {"entities": await graph.create_entities(arguments["entities"])}


@_over
async def _create_relations(graph: Graph, arguments: Arguments) -> dict[str, Any]:
    return {"relations": await graph.create_relations(arguments["relations"])}


@_over
async def _add_observations(graph: Graph, arguments: Arguments) -> dict[str, Any]:
    return {"results": await graph.add_observations(arguments["observations"])}


@_over
async def _delete_entities(graph: Graph, arguments: Arguments) -> dict[str, Any]:
    await graph.delete_entities(arguments["entityNames"])
    return {"success": True, "message": "Entities deleted successfully"}


@_over
async def _delete_observations(graph: Graph, arguments: Arguments) -> dict[str, Any]:
    await graph.delete_observations(arguments["deletions"])
    return {"success": True, "message": "Observations deleted successfully"}


@_over
async def _delete_relations(graph: Graph, arguments: Arguments) -> dict[str, Any]:
    await graph.delete_relations(arguments["relations"])
    return {"success": True, "message": "Relations deleted successfully"}


@_over
async def _read_graph(graph: Graph, _: Arguments) -> dict[str, Any]:
    return await graph.read()


@_over
async def _search_nodes(graph: Graph, arguments: Arguments) -> dict[str, Any]:
    return await graph.search(arguments["query"])


@_over
async def _open_nodes(graph: Graph, arguments: Arguments) -> dict[str, Any]:
    return await graph.open(arguments["names"])


TOOLS = (
    Tool(
        name="create_entities",
        title="Create Entities",
        description="Create multiple new entities in the knowledge graph",
        effect=Effect.ADDS,
        arguments={"entities": _ENTITIES},
        required=("entities",),
        answer={"entities": _ENTITIES},
        changes=(GRAPH,),
        call=_create_entities,
        text=_the("entities"),
    ),
    Tool(
        name="create_relations",
        title="Create Relations",
        description=(
            "Create or add multiple new relations between entities in the knowledge graph. "
            "Relations should be in active voice"
        ),
        effect=Effect.ADDS,
        arguments={"relations": _list_of(**_RELATION)},
        required=("relations",),
        answer={"relations": _list_of(**_RELATION)},
        changes=(GRAPH,),
        call=_create_relations,
        text=_the("relations"),
    ),
    Tool(
        name="add_observations",
        title="Add Observations",
        description="Add new observations to existing entities in the knowledge graph",
        effect=Effect.ADDS,
        arguments={
            "observations": _list_of(
                entityName=_text("The name of the entity to add the observations to"),
                contents=_texts("An array of observation contents to add"),
            )
        },
        required=("observations",),
        answer={"results": _list_of(entityName=_text(), addedObservations=_texts())},
        changes=(GRAPH,),
        call=_add_observations,
        text=_the("results"),
    ),
    Tool(
        name="delete_entities",
        title="Delete Entities",
        description="Delete multiple entities and their associated relations from the knowledge graph",
        effect=Effect.REMOVES,
        arguments={"entityNames": _texts("An array of entity names to delete")},
        required=("entityNames",),
        answer=_DONE,
        changes=(GRAPH,),
        call=_delete_entities,
        text=_the("message"),
    ),
    Tool(
        name="delete_observations",
        title="Delete Observations",
        description="Delete specific observations from entities in the knowledge graph",
        effect=Effect.REMOVES,
        arguments={
            "deletions": _list_of(
                entityName=_text("The name of the entity containing the observations"),
                observations=_texts("An array of observations to delete"),
            )
        },
        required=("deletions",),
        answer=_DONE,
        changes=(GRAPH,),
        call=_delete_observations,
        text=_the("message"),
    ),
    Tool(
        name="delete_relations",
        title="Delete Relations",
        description="Delete multiple relations from the knowledge graph",
        effect=Effect.REMOVES,
        arguments={"relations": _list_of("An array of relations to delete", **_RELATION)},
        required=("relations",),
        answer=_DONE,
        changes=(GRAPH,),
        call=_delete_relations,
        text=_the("message"),
    ),
    Tool(
        name="read_graph",
        title="Read Graph",
        description="Read the entire knowledge graph",
        effect=Effect.READS,
        arguments={},
        answer=_GRAPH,
        call=_read_graph,
    ),
    Tool(
        name="search_nodes",
        title="Search Nodes",
        description=(
            "Search for nodes in the knowledge graph based on a query. Finds the nodes that the query "
            "stands in; where it stands in none, and the memory knows what texts mean, the "
            f"{N_BY_MEANING} nearest ones"
        ),
        effect=Effect.READS,
        arguments={
            "query": _text(
                "The search query to match against entity names, types, and observation content"
            )
        },
        required=("query",),
        answer=_GRAPH,
        call=_search_nodes,
    ),
    Tool(
        name="open_nodes",
        title="Open Nodes",
        description="Open specific nodes in the knowledge graph by their names",
        effect=Effect.READS,
        arguments={"names": _texts("An array of entity names to retrieve")},
        required=("names",),
        answer=_GRAPH,
        call=_open_nodes,
    ),
)

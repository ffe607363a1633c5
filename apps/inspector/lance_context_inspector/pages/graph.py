"""The graph: a list of entities, and a page for each with its neighbours."""

from lance_context_core.errors import NotFoundError
from lance_context_inspector.drawing import entity_graph
from lance_context_inspector.page import Page
from lance_context_inspector.pages._listing import Column, listing
from lance_context_inspector.view import View

_ENTITIES, _MOST, _NEAR, _RELATIONS, _MENTIONS = 50, 10_000, 200, 300, 100
_COLUMNS = (
    Column("name", lambda one: one.name, is_filter=True),
    Column("type", lambda one: one.type, is_filter=True),
)


async def graph(view: View) -> Page:
    """The entities, by their names; those whose `name` or `type` has a text."""
    found = await view.store.graph.entities(limit=_MOST + 1)
    data = {
        "listing": listing(view, found[:_MOST], _COLUMNS, sort="name", size=_ENTITIES),
        "is_cut": len(found) > _MOST,
        "most": _MOST,
    }
    return Page("graph.html", "Graph", data, "/graph")


async def entity(view: View) -> Page:
    """The entity of an `id`, its neighbours within `depth` relations, and its mentions."""
    id, depth = view.one("id"), view.number("depth", 1, most=3)
    one = await view.store.graph.get(id)
    if one is None:
        raise NotFoundError(f"no entity {id!r}")
    near = await view.store.graph.neighbours(id, depth=depth, limit=_NEAR)
    data = {
        "entity": one,
        "depth": depth,
        "drawing": entity_graph(near) if near.relations else None,
        "relations": near.relations[:_RELATIONS],
        "names": {each.id: each.name for each in near.entities},
        "is_cut": near.is_cut or len(near.relations) > _RELATIONS,
        "mentions": await view.store.graph.mentions(id, limit=_MENTIONS),
    }
    return Page("entity.html", one.name[:80], data, "/graph")

"""One record: all that is known of it, where it came from, and what became of it."""

from typing import Any

from lance_context_core import AsyncContextStore, ContextRecord
from lance_context_core.errors import NotFoundError
from lance_context_core.knowledge import Explanation
from lance_context_inspector.drawing import evidence_graph
from lance_context_inspector.page import Page
from lance_context_inspector.pages._reading import KNOWLEDGE, quotes
from lance_context_inspector.view import View

_EXPLAINED = ("message", "chunk", "fact", "summary")
_APART = ("id", "kind", "text", "parts", "native", "blob", "embedding", "metadata", "relationships")
"""Fields that have a place of their own on the page."""


async def found(view: View, store: AsyncContextStore) -> ContextRecord:
    """The record that a link names, hidden or not. Raises NotFoundError if there is none."""
    filters: dict[str, Any] = {"id": view.one("id")}
    for name in ("session", "user"):
        if name in view.params:
            filters["session_id" if name == "session" else "user_id"] = view.params[name] or None
    context = store.context(view.params.get("context") or "default")
    records = await context.records(1, filters=filters, include_retired=True, include_expired=True)
    if not records:
        raise NotFoundError(f"no record {view.params['id']!r} here")
    return records[0]


async def record(view: View) -> Page:
    """The record of an `id`, in a `context` and a `session` where several are called so."""
    store = view.store
    one = await found(view, store)
    explanation, changes = None, []
    if one.kind in _EXPLAINED and one.context in ("default", KNOWLEDGE):
        explanation = await _explained(store, one)
    if one.kind == "fact" and one.context == KNOWLEDGE:
        changes = await store.knowledge.history(one.id)
    fields = {
        name: value
        for name in one.__dataclass_fields__
        if name not in _APART and (value := getattr(one, name)) not in (None, "", (), {})
    }
    evidence = await quotes(store, [one]) if one.metadata.get("evidence") else {}
    data = {
        "record": one,
        "fields": fields,
        "quotes": evidence.get(one.id, []),
        "explanation": explanation,
        "graph": None if explanation is None else evidence_graph(explanation),
        "changes": changes,
        "is_fact": one.kind == "fact" and one.context == KNOWLEDGE,
    }
    title = f"{one.kind.capitalize()} {one.id}"
    return Page("record.html", title[:80], data, "/facts" if one.context == KNOWLEDGE else "")


async def _explained(store: AsyncContextStore, one: ContextRecord) -> Explanation | None:
    try:
        return await store.knowledge.explain(one.id)
    except NotFoundError:
        return None

"""What a question finds, and why."""

from dataclasses import dataclass
from typing import Any, get_args

from lance_context_core import ContextRecord
from lance_context_core.protocols import SearchMode
from lance_context_core.results import SearchHit
from lance_context_inspector.drawing import strips
from lance_context_inspector.page import Page
from lance_context_inspector.pages._reading import quotes, when_said
from lance_context_inspector.view import View

KINDS = ("message", "memory", "record")
_MOST = 100


@dataclass(frozen=True, slots=True)
class Share:
    """What one part gave of a score."""

    name: str
    value: float
    x: float
    width: float
    """Where it stands in a bar of 100 that is as long as the score."""


async def search(view: View) -> Page:
    """Records by `q`, in the `mode` and of the `kind` that are asked for; or facts, with their turns."""
    query = view.params.get("q", "").strip()
    mode, kind = view.params.get("mode") or None, view.params.get("kind") or None
    limit = view.number("limit", 20, most=_MOST)
    asked = {"q": query, "mode": mode, "kind": kind, "limit": limit, "modes": get_args(SearchMode)}
    if not query:
        return Page("search.html", "Search", {**asked, "hits": None, "found": None}, "/search")
    title = f"Search: {query[:60]}"
    if kind == "fact":
        found = await view.store.knowledge.search(query, top_k=limit, search_type="facts")
        evidence = await quotes(view.store, [one.record for one in found])
        spans = strips([one.record for one in found], when_said(evidence))
        data = {**asked, "hits": None, "found": found, "quotes": evidence, "strips": spans}
        return Page("search.html", title, data, "/search")
    arguments: dict[str, Any] = {"limit": limit}
    if mode is not None:
        arguments["mode"] = mode
    if kind is not None:
        arguments["filter"] = {"kind": kind}
    hits = await view.store.search(query, **arguments)
    shown = [(one, shares(one)) for one in hits]
    return Page("search.html", title, {**asked, "hits": shown, "found": None}, "/search")


def shares(hit: SearchHit[ContextRecord]) -> list[Share]:
    """The parts of a score, as pieces of a bar."""
    start, pieces = 0.0, []
    for name, value in hit.why.items():
        width = max(0.0, min(value, 1.0)) * 100
        pieces.append(Share(name, value, round(start, 2), round(width, 2)))
        start += width
    return pieces

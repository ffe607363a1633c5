"""What a question finds, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from lance_context_core import ContextRecord
from lance_context_core.protocols import SearchMode
from lance_context_core.results import SearchHit
from lance_context_inspector.drawing import strips
from lance_context_inspector.page import Page, Part
from lance_context_inspector.pages._reading import quotes, when_said
from lance_context_inspector.view import View, ref

KINDS = ("message", "memory", "record")
_MOST, _PAGES = 100, 50


@dataclass(frozen=True, slots=True)
class Share:
    """What one part gave of a score."""

    name: str
    value: float
    x: float
    width: float
    """Where it stands in a bar of 100 that is as long as the score."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A record that one of two ways finds, and where each has it."""

    record: ContextRecord
    rank: int | None
    """Counted from 1; None if this way does not find it."""
    other_rank: int | None


async def search(view: View) -> Page:
    """Records by `q`, in the `mode` and of the `kind` that are asked for; or facts, with their turns.

    With `other_mode` or `other_at`, records also as that mode finds them, or as of that moment.
    """
    query = view.params.get("q", "").strip()
    mode, kind = view.params.get("mode") or None, view.params.get("kind") or None
    limit, number = view.number("limit", 20, most=_MOST), view.number("page", 1, most=_PAGES)
    start, end = (number - 1) * limit, number * limit
    other_mode, other_at = view.params.get("other_mode"), view.params.get("other_at")
    asked: dict[str, Any] = {"other_mode": other_mode, "other_at": other_at, "compared": None}
    asked |= {"q": query, "mode": mode, "kind": kind, "limit": limit, "modes": get_args(SearchMode)}
    if not query:
        return Page("search.html", "Search", {**asked, "hits": None, "found": None}, "/search")
    title = f"Search: {query[:60]}"
    if kind == "fact":
        found = await view.store.knowledge.search(query, top_k=end + 1, search_type="facts")
        part = Part.of(found[start:], number, limit)
        found = [*part.items]
        evidence = await quotes(view.store, [one.record for one in found])
        spans = strips([one.record for one in found], when_said(evidence))
        data = {**asked, "hits": None, "found": found, "quotes": evidence, "strips": spans}
        data["part"] = part
        return Page("search.html", title, data, "/search")
    arguments: dict[str, Any] = {"limit": end + 1}
    if mode is not None:
        arguments["mode"] = mode
    if kind is not None:
        arguments["filter"] = {"kind": kind}
    hits = await view.store.search(query, **arguments)
    if other_mode or other_at:
        store = view.store
        if other_at:
            store = await (await view.now()).checkout(ref(other_at, is_scoped=not view.is_whole))
        others = await store.search(query, **{**arguments, "mode": other_mode or mode})
        asked["compared"] = beside(hits[:end], others[:end])
    shown = [(one, shares(one)) for one in hits[start:end]]
    data = {**asked, "hits": shown, "found": None, "part": Part((), number, len(hits) > end)}
    return Page("search.html", title, data, "/search")


def beside(
    hits: Sequence[SearchHit[ContextRecord]], others: Sequence[SearchHit[ContextRecord]]
) -> list[Ranked]:
    """All that either finds: in the order of the first, then what the second alone finds."""
    here, there = (
        {(one.record.id, one.record.session_id, one.record.user_id): (rank, one.record)
         for rank, one in enumerate(found, 1)}
        for found in (hits, others)
    )  # fmt: skip
    return [
        Ranked(
            (here.get(key) or there[key])[1],
            here[key][0] if key in here else None,
            there[key][0] if key in there else None,
        )
        for key in {**here, **there}
    ]


def shares(hit: SearchHit[ContextRecord]) -> list[Share]:
    """The parts of a score, as pieces of a bar."""
    start, pieces = 0.0, []
    for name, value in hit.why.items():
        width = max(0.0, min(value, 1.0)) * 100
        pieces.append(Share(name, value, round(start, 2), round(width, 2)))
        start += width
    return pieces

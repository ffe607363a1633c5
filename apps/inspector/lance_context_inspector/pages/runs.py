"""Two runs side by side: messages, calls and windows of each, step by step."""

from collections.abc import Sequence
from itertools import islice, zip_longest
from typing import Any

from lance_context_core import ContextRecord, ToolCallPart, ToolResultPart
from lance_context_core.errors import NotFoundError
from lance_context_inspector.page import Page
from lance_context_inspector.pages.windows import KEPT
from lance_context_inspector.safe import marked
from lance_context_inspector.view import View

_STEPS, _KNOWN, _WINDOWS = 200, 50, 1_000


async def runs(view: View) -> Page:
    """The runs, or sessions, `left` and `right`, with the steps paired in their order."""
    left, right = view.params.get("left") or None, view.params.get("right") or None
    sessions = await view.store.sessions.list(limit=_KNOWN)
    data: dict[str, Any] = {
        "left": left,
        "right": right,
        "known": [one.id for one in sessions if _can_be_typed(one.id)],
    }
    data |= {"sides": None, "pairs": [], "is_cut": False, "most": _STEPS}
    if left is not None and right is not None:
        turns = [await _turns(view, one) for one in (left, right)]
        names = (left, right)
        data["sides"] = [
            await _figures(view, name, of) for name, of in zip(names, turns, strict=True)
        ]
        data["pairs"] = [
            {"turns": pair, "is_same": None not in pair and _said(pair[0]) == _said(pair[1])}
            for pair in islice(zip_longest(*turns), _STEPS)
        ]
        data["is_cut"] = max(map(len, turns)) > _STEPS
    return Page("runs.html", "Runs side by side", data, "/runs")


async def _turns(view: View, name: str) -> list[ContextRecord]:
    """The messages of a run, or else of the session of that name."""
    for field in ("run_id", "session_id"):
        found = await view.store.context().records(
            _STEPS + 1, filters={"kind": "message", field: name}
        )
        if found:
            return found
    raise NotFoundError(f"no run and no session {name!r}, or nothing was said in it")


async def _figures(view: View, name: str, turns: Sequence[ContextRecord]) -> dict[str, Any]:
    parts = [part for one in turns for part in one.parts]
    windows: list[ContextRecord] = []
    for field in ("run_id", "session_id"):
        windows = windows or await view.store.context(KEPT).records(
            _WINDOWS, filters={"kind": "window", field: name}
        )
    return {
        "name": name,
        "n_turns": len(turns),
        "n_calls": sum(isinstance(one, ToolCallPart) for one in parts),
        "n_errors": sum(isinstance(one, ToolResultPart) and one.is_error for one in parts),
        "n_windows": len(windows),
        "n_tokens": sum(one.metadata.get("tokens", 0) for one in windows),
        "seconds": round((turns[-1].created_at - turns[0].created_at).total_seconds()),
    }


def _can_be_typed(name: str) -> bool:
    """Whether a name has no hidden characters, so that it can be proposed."""
    return marked(name) == name


def _said(turn: ContextRecord) -> tuple[object, ...]:
    return turn.role, turn.text, turn.parts

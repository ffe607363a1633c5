"""What an agent saw, step by step, where it was kept."""

from lance_context_core.errors import NotFoundError
from lance_context_inspector.page import Page, Part
from lance_context_inspector.pages._costs import cost_of
from lance_context_inspector.pages._listing import Column, Listing, is_plain, listing
from lance_context_inspector.view import View

KEPT = "windows"
"""The context that windows are in."""
_WINDOWS, _STEPS = 30, 10_000


_COLUMNS = (
    Column("window", lambda one: one.id),
    Column("session", lambda one: one.session_id, is_filter=True),
    Column("agent", lambda one: one.agent_id, is_filter=True),
    Column("run", lambda one: one.run_id, is_filter=True),
    Column("tokens", lambda one: one.metadata.get("tokens"), is_number=True),
    Column("assembled", lambda one: one.created_at),
)


async def windows(view: View) -> Page:
    """The windows that were kept, the newest first, or by a column; with the tokens of those shown.

    As they usually stand, no more of them is read than is shown; otherwise the last 10,000 are.
    """
    context, kind = view.store.context(KEPT), {"kind": "window"}
    if is_plain(view, _COLUMNS):
        number = view.number("page", 1, most=100_000)
        found = await context.records(
            _WINDOWS + 1, (number - 1) * _WINDOWS, kind, newest_first=True
        )
        part = Part.of(found, number, _WINDOWS)
        listed = Listing(part, _COLUMNS, "-assembled", {}, len(found))
    else:
        found = await context.records(_STEPS, filters=kind, newest_first=True)
        listed = listing(view, found, _COLUMNS, sort="-assembled", size=_WINDOWS)
    n_tokens = sum(one.metadata.get("tokens", 0) for one in listed.part.items)
    data = {"listing": listed, "cost": cost_of(view, n_tokens, 0)}
    return Page("windows.html", "Windows", data, "/windows")


async def window(view: View) -> Page:
    """One window: by its `id`, or as the `step` of a `session`, from 1 on."""
    store = view.store
    id = view.params.get("id")
    if id is None:
        session, agent = view.one("session"), view.params.get("agent") or ""
        step = view.number("step", 1, most=_STEPS)
        at = await store.windows.list(session, agent_id=agent, offset=step - 1, limit=1)
        if not at:
            raise NotFoundError(f"no window {step} of session {session!r}")
        id = at[0]
    one = await store.windows.get(id)
    agent = str(one.asked.get("agent_id") or "")
    steps = await store.windows.list(one.session_id, agent_id=agent, limit=_STEPS)
    place = steps.index(id) if id in steps else None
    before = steps[place - 1] if place else None
    earlier = None if before is None else await store.windows.get(before)
    after = steps[place + 1] if place is not None and place + 1 < len(steps) else None
    data = {
        "window": one,
        "sections": [
            (name, tokens, round(100 * tokens / max(one.room, 1), 2))
            for name, tokens in one.tokens_by_section.items()
            if tokens
        ],
        "step": None if place is None else place + 1,
        "n_steps": len(steps),
        "before": before,
        "after": after,
        "change": None if earlier is None else one.diff(earlier),
        "agent": agent,
    }
    return Page("window.html", f"Window of {one.session_id[:50]}", data, "/windows")

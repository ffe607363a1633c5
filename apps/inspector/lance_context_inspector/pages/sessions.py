"""Conversations: which there are, and what was said, called, thought and shown in one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from lance_context_core import ContextRecord, Session, ToolCallPart, ToolResultPart
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_inspector.page import Page, Part
from lance_context_inspector.pages._listing import Column, Listing, is_plain, listing
from lance_context_inspector.pages._reading import KNOWLEDGE
from lance_context_inspector.view import SCOPE_PARTS, View

_SESSIONS, _TURNS, _FACTS, _WINDOWS = 30, 50, 300, 100


_COLUMNS = (
    Column("session", lambda one: one.title or one.id, is_filter=True),
    Column("user", lambda one: one.user_id),
    Column("agent", lambda one: one.agent_id, is_filter=True),
    Column("messages", lambda one: one.n_messages, is_number=True),
    Column("begun", lambda one: one.created_at),
    Column("last", lambda one: one.updated_at),
)


async def sessions(view: View) -> Page:
    """Conversations, the one that was added to last first, or by a column; those of a `user`.

    As they usually stand, no more of them is read than is shown; sorted otherwise, all are.
    """
    user = view.params.get("user") or None
    store = view.store if user is None else view.of_user(user)
    if is_plain(view, _COLUMNS):
        number = view.number("page", 1, most=100_000)
        found = await store.sessions.list(limit=_SESSIONS + 1, offset=(number - 1) * _SESSIONS)
        part = Part.of(found, number, _SESSIONS)
        listed = Listing(part, _COLUMNS, "-last", {}, len(found))
    else:
        listed = listing(view, await store.sessions.list(), _COLUMNS, sort="-last", size=_SESSIONS)
    return Page("sessions.html", "Sessions", {"listing": listed, "user": user}, "/sessions")


async def session(view: View) -> Page:
    """The turns of one conversation, page by page, each with the facts that were made of it.

    With `live` the last turns, which the page's script fetches again while it is open.
    """
    id = view.one("id")
    number = view.number("page", 1, most=1_000_000)
    owner = await _owner(view, id)
    where = {"kind": "message", "session_id": id, **owner}
    context, is_live = view.store.context(), bool(view.params.get("live")) and view.at is None
    if is_live:
        turns = (await context.records(_TURNS, filters=where, newest_first=True))[::-1]
    else:
        turns = await context.records(_TURNS + 1, (number - 1) * _TURNS, filters=where)
    described = await _described(view, id, owner)
    if not turns and (described is None or number > 1):
        raise NotFoundError(f"no session {id!r}, or no such page of it")
    part = Part.of(turns, number, _TURNS)
    facts = await view.store.context(KNOWLEDGE).records(
        _FACTS, filters={"kind": "fact", "session_id": id, "user_id": owner["user_id"]}
    )
    agent = described.agent_id if described is not None else None
    agent = agent or next((one.agent_id for one in turns if one.agent_id), None)
    kept = await view.store.windows.list(id, agent_id=agent or "", limit=_WINDOWS)
    data = {
        "session": described,
        "id": id,
        "owner": owner,
        "agent": agent,
        "part": part,
        "is_live": is_live,
        "start": (number - 1) * _TURNS + 1,
        "facts": by_source(facts),
        "results": results(part.items),
        "n_windows": len(kept),
    }
    return Page("session.html", (described and described.title) or id, data, "/sessions")


def by_source(facts: Sequence[ContextRecord]) -> Mapping[str, list[ContextRecord]]:
    """The facts by the turns that they were made of."""
    found: dict[str, list[ContextRecord]] = defaultdict(list)
    for fact in facts:
        for source in fact.source_ids:
            found[source].append(fact)
    return dict(found)


def results(turns: Sequence[ContextRecord]) -> Mapping[str, ToolResultPart]:
    """What tools answered, by the calls that are on the same page."""
    parts = [part for turn in turns for part in turn.parts]
    calls = {one.call_id for one in parts if isinstance(one, ToolCallPart)}
    return {
        one.call_id: one
        for one in parts
        if isinstance(one, ToolResultPart) and one.call_id is not None and one.call_id in calls
    }


async def _owner(view: View, id: str) -> dict[str, str | None]:
    """Whose session is meant, of several that are called so: as the link says, else no one's first."""
    names = ("tenant", "user_id")
    if any(name in view.params for name in names):
        return view.within(*names)
    nobodys = {name: view.opened.scope.get(name) for name in names}
    meant = {"kind": "message", "session_id": id}
    context = view.store.context()
    found = await context.records(1, filters={**meant, **nobodys}) or await context.records(
        1, filters=meant
    )
    return {name: getattr(found[0], name) for name in names} if found else nobodys


async def _described(view: View, id: str, owner: Mapping[str, Any]) -> Session | None:
    """What is known of it; None where several agents call one of their own so."""
    if any(view.opened.scope.get(name, owner.get(name)) != owner.get(name) for name in owner):
        return None  # Outside the scope, where nothing is.
    named = {name: one for name, one in owner.items() if name in SCOPE_PARTS and one is not None}
    try:
        return await view.store.scope(**named).sessions.get(id)
    except InvalidRequestError:
        return None

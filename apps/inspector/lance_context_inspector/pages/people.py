"""People: who is known, what of each, and what an erasure would take."""

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from lance_context_core import Session
from lance_context_core.errors import NotFoundError
from lance_context_inspector.drawing import strips
from lance_context_inspector.page import Page, Part
from lance_context_inspector.pages._listing import Column, listing
from lance_context_inspector.pages._reading import made_of, quotes, when_said
from lance_context_inspector.view import View

_PEOPLE, _LATEST = 100, 20


class Person(NamedTuple):
    """A user in the list."""

    id: str
    n_sessions: int
    last: datetime | None
    """The time of the last message; None without a session."""


_COLUMNS = (
    Column("user", lambda one: one.id, is_filter=True),
    Column("sessions", lambda one: one.n_sessions, is_number=True),
    Column("last", lambda one: one.last),
)


async def people(view: View) -> Page:
    """The users of whom anything is stored, by id, or by a column."""
    of: dict[str | None, list[Session]] = {}
    for one in await view.store.sessions.list():
        of.setdefault(one.user_id, []).append(one)
    rows = [
        Person(
            id, len(of.get(id, ())), max((one.updated_at for one in of.get(id, ())), default=None)
        )
        for id in await view.store.user_ids()
    ]
    listed = listing(view, rows, _COLUMNS, sort="user", size=_PEOPLE)
    return Page("people.html", "People", {"listing": listed}, "/people")


async def person(view: View) -> Page:
    """All that is known of one user, the newest of each kind."""
    user = view.one("user")
    store = view.of_user(user)
    facts = await made_of(store, {"kind": "fact"}, page=1, size=_LATEST, hidden=False)
    memories = await store.context().records(
        _LATEST + 1, filters={"kind": "memory"}, newest_first=True
    )
    sessions = await store.sessions.list(limit=_LATEST + 1)
    first = await store.context().records(1)
    if not (facts.items or memories or sessions or first):
        raise NotFoundError(f"nothing is known of {user!r}")
    quoted = await quotes(store, facts.items)
    data = {
        "user": user,
        "facts": facts,
        "quotes": quoted,
        "strips": strips(facts.items, when_said(quoted)),
        "memories": Part.of(memories, 1, _LATEST),
        "sessions": Part.of(sessions, 1, _LATEST),
        "first": first[0] if first else None,
    }
    return Page("person.html", user[:80], data, "/people")


async def erasure(view: View) -> Page:
    """What an erasure of one user would take: nothing is changed."""
    user = view.one("user")
    would = await view.of_user(user).erase(dry_run=True)
    if not would:
        raise NotFoundError(f"nothing is known of {user!r}")
    if not view.is_whole:  # What everybody's branches and tags are called is no one's in a scope.
        would = replace(would, branches=(), tags=())
    data = {"user": user, "would": would, "scope": dict(view.opened.scope)}
    return Page("erasure.html", f"Erasing {user[:60]}", data, "/people")

"""Facts, each with the turns that say so."""

from lance_context_core.errors import InvalidRequestError
from lance_context_inspector.drawing import strips
from lance_context_inspector.page import Page
from lance_context_inspector.pages._reading import made_of, quotes, when_said
from lance_context_inspector.view import View

_FACTS = 30


async def facts(view: View) -> Page:
    """Facts, the newest first, or the oldest; of a `user` or a `session`.

    With `hidden` also those that something took the place of.
    """
    session, sort = view.params.get("session") or None, view.params.get("sort") or "-created"
    if sort not in ("created", "-created"):
        raise InvalidRequestError(f"sort={sort[:80]!r}: sort by created or -created")
    user, is_all = view.params.get("user") or None, bool(view.params.get("hidden"))
    store = view.store if user is None else view.of_user(user)
    part = await made_of(
        store,
        {"kind": "fact", **({} if session is None else {"session_id": session})},
        page=view.number("page", 1, most=100_000),
        size=_FACTS,
        hidden=is_all,
        newest=sort == "-created",
    )
    quoted = await quotes(store, part.items)
    data = {
        "part": part,
        "quotes": quoted,
        "strips": strips(part.items, when_said(quoted)),
        "user": user,
        "session": session,
        "sort": sort,
        "hidden": is_all,
    }
    return Page("facts.html", "Facts", data, "/facts")

"""What the store is, in one look."""

from lance_context_inspector.page import Page
from lance_context_inspector.pages._growing import FEW, MANY, growth
from lance_context_inspector.pages._reading import KNOWLEDGE
from lance_context_inspector.view import View


async def home(view: View) -> Page:
    """A box to search in, what happened last, and how much there is."""
    store = view.store
    sessions = await store.sessions.list(limit=8)
    facts = await store.context(KNOWLEDGE).records(6, filters={"kind": "fact"}, newest_first=True)
    memories = await store.context().records(6, filters={"kind": "memory"}, newest_first=True)
    latest = await store.context().records(1, newest_first=True)
    is_counted = view.is_whole and view.at is None
    tables = (await store.stats()).tables if is_counted else ()
    newest = [one.created_at for one in (*latest, *facts[:1])]
    is_asked = bool(view.params.get("growth"))
    is_large = any(one.rows >= FEW for one in tables if one.table == "records")
    grown = None
    if is_asked or not is_large:
        grown = await growth(store, newest, limit=MANY if is_asked else FEW)
    if grown is not None and grown.is_cut and not is_asked:
        # What is cut off early tells of the first days alone.
        is_large, grown = True, None
    data = {
        "sessions": sessions,
        "facts": facts,
        "memories": memories,
        "growth": grown,
        "grows": is_large and not is_asked,
        "tables": [one for one in tables if one.rows or one.journal_rows],
        "due": [f"{one.table}: {why}" for one in tables for why in one.due],
    }
    return Page("home.html", "Overview", data, "/")

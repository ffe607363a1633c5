"""How the store is: sizes, indexes, and what is due."""

from lance_context_inspector.page import Page
from lance_context_inspector.view import View


async def health(view: View) -> Page:
    """What its tables consist of, what upkeep would do, and what it did last."""
    view.require_whole()
    stats = await (await view.now()).stats()
    data = {
        "stats": stats,
        "tables": stats.tables,
        "bytes": sum(one.bytes + one.journal_bytes for one in stats.tables),
        "due": [(one.table, why) for one in stats.tables for why in one.due],
        "errors": [(one.table, one.last_error) for one in stats.tables if one.last_error],
    }
    return Page("health.html", "Health", data, "/health")

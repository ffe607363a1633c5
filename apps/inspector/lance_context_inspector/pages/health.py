"""How the store is: sizes, indexes, and what is due."""

from lance_context_inspector.page import Page
from lance_context_inspector.pages._listing import Column, listing
from lance_context_inspector.view import View

_TABLES = 100

_COLUMNS = (
    Column("table", lambda one: one.table, is_filter=True),
    Column("rows", lambda one: one.rows, is_number=True),
    Column("in_the_log", lambda one: one.journal_rows, is_number=True),
    Column("size", lambda one: one.bytes + one.journal_bytes, is_number=True),
    Column("files", lambda one: one.fragments, is_number=True),
    Column("versions", lambda one: one.versions, is_number=True),
    Column("not_indexed", lambda one: one.unindexed_rows, is_number=True),
    Column("deleted_rows", lambda one: one.deleted_rows, is_number=True),
    Column("last_maintenance", lambda one: one.last_at),
)


async def health(view: View) -> Page:
    """What its tables consist of, what upkeep would do, and what it did last."""
    view.require_whole()
    stats = await (await view.now()).stats()
    data = {
        "stats": stats,
        "listing": listing(view, stats.tables, _COLUMNS, sort="table", size=_TABLES),
        "tables": stats.tables,
        "bytes": sum(one.bytes + one.journal_bytes for one in stats.tables),
        "due": [(one.table, why) for one in stats.tables for why in one.due],
        "errors": [(one.table, one.last_error) for one in stats.tables if one.last_error],
    }
    return Page("health.html", "Health", data, "/health")

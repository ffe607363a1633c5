"""Any question in SQL, over all that the page may show."""

from importlib.util import find_spec

from lance_context_core.errors import ContextStoreError
from lance_context_inspector.page import Page
from lance_context_inspector.statuses import status_of
from lance_context_inspector.view import View

_ROWS, _SECONDS = 200, 10

EXAMPLES = (
    "SELECT role, count(*) AS n FROM messages GROUP BY role ORDER BY n DESC",
    "SELECT created_at::DATE AS day, count(*) AS said FROM messages GROUP BY day ORDER BY day DESC LIMIT 14",
    "SELECT user_id, count(*) AS facts FROM facts GROUP BY user_id ORDER BY facts DESC LIMIT 10",
    "DESCRIBE messages",
)


async def sql(view: View) -> Page:
    """What the SELECT `q` finds, at most 200 rows of it; its address is for good.

    What is refused is said above the statement as it was typed, to be mended.
    """
    query = view.params.get("q", "").strip()
    can = find_spec("duckdb") is not None
    views = await _views(view) if can else {}
    data = {
        "can": can,
        "views": views,
        "q": query,
        "examples": EXAMPLES,
        "most": _ROWS,
        "columns": None,
        "rows": [],
    }
    if query:
        try:
            found = await view.store.sql(query, timeout_seconds=_SECONDS, max_rows=_ROWS + 1)
        except ContextStoreError as error:
            refused = {**data, "error": str(error)}
            return Page("sql.html", "SQL", refused, "/sql", status_of(error))
        rows = [list(row.values()) for row in found.slice(0, _ROWS).to_pylist()]
        data |= {"columns": found.column_names, "rows": rows, "is_cut": found.num_rows > _ROWS}
    return Page("sql.html", "SQL", data, "/sql")


_COMMON = (
    *("messages", "memories", "facts", "sessions", "documents", "passages", "items", "jobs"),
    *("entities", "relations", "mentions", "statements", "records", "vectors", "versions"),
)
"""The views that people ask, in this order; SHOW TABLES has the others, too."""


_DESCRIBED = " UNION ALL ".join(
    f"SELECT '{name}' AS view, column_name, column_type FROM (DESCRIBE {name})" for name in _COMMON
)


async def _views(view: View) -> dict[str, list[tuple[str, str]]]:
    """The columns of each view, with their types."""
    found: dict[str, list[tuple[str, str]]] = {name: [] for name in _COMMON}
    for row in (await view.store.sql(_DESCRIBED)).to_pylist():
        found[row["view"]].append((row["column_name"], row["column_type"]))
    return found

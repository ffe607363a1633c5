"""SQL: any question of what is kept."""

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lance_context_cli.call import Call, pass_call
from lance_context_cli.output import Line, csv_rows

if TYPE_CHECKING:
    from lance_context_core import ContextStore

_SCHEMA = re.compile(r"\.schema(?:\s+(\w+))?")
_PLAN = ["explain_key", "explain_value"]
"""The columns of the answer to EXPLAIN: its value is a drawing of many lines."""


@click.command
@click.argument("query")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    help="Maximum number of rows; 0 for all.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60,
    show_default=True,
    help="Timeout in seconds.",
)
@click.option("--csv", "is_csv", is_flag=True, help="Print CSV, with a heading.")
@click.option("--arrow", "file", type=click.Path(dir_okay=False), help="Write an Arrow file.")
@pass_call
def sql(call: Call, query: str, limit: int, timeout: float, is_csv: bool, file: str | None) -> None:
    """Answer a SELECT over messages, memories, facts, sessions, documents, items and more.

    QUERY is read from stdin if it is -. .tables lists the views, .schema their columns, and
    .schema messages those of one.
    """
    text = (sys.stdin.read() if query == "-" else query).strip().rstrip(";").strip()
    store = call.place.reading()
    if text == ".tables":
        text = "SHOW TABLES"
    elif (schema := _SCHEMA.fullmatch(text)) is not None:
        _schema(call, store, schema[1])
        return
    elif text.startswith("."):
        raise click.UsageError(f"{text.split()[0]} is not a command: there are .tables and .schema")
    found = store.sql(text, timeout_seconds=timeout, max_rows=limit + 1 if limit else None)
    if limit and found.num_rows > limit:
        found = found.slice(0, limit)
        call.output.note(f"cut after {limit:,} rows: --limit N prints more, --limit 0 all")
    if (file or call.output.arrow) is not None:
        replace(call.output, arrow=file or call.output.arrow).table(found)
        return
    rows = (row for batch in found.to_batches() for row in batch.to_pylist())
    if found.column_names == _PLAN and call.output.format == "people" and not is_csv:
        for row in rows:
            call.output.text(row["explain_value"])
    elif is_csv:
        csv_rows(found.column_names, (row.values() for row in rows))
    else:
        call.output.rows(found.column_names, (Line(tuple(row.values()), row) for row in rows))


def _schema(call: Call, store: "ContextStore", view: str | None) -> None:
    """Print the columns of a view, or of all of them."""
    views = store.sql("SHOW TABLES")["name"].to_pylist() if view is None else [view]
    columns = [
        {"view": one, "column": row["column_name"], "type": row["column_type"]}
        for one in views
        for row in store.sql(f"DESCRIBE {one}").to_pylist()
    ]
    call.output.rows(
        ("view", "column", "type"), (Line(tuple(one.values()), one) for one in columns)
    )


COMMANDS = (sql,)

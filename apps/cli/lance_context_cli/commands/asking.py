"""SQL: any question of what is kept."""

import sys
from dataclasses import replace

import click

from lance_context_cli.call import Call, pass_call
from lance_context_cli.output import Line, csv_rows


@click.command
@click.argument("query")
@click.option("--limit", type=click.IntRange(min=1), help="Print no more rows than that.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60,
    show_default=True,
    help="Seconds it may take.",
)
@click.option("--csv", "is_csv", is_flag=True, help="Print CSV, with a heading.")
@click.option("--arrow", "file", type=click.Path(dir_okay=False), help="Write an Arrow file.")
@pass_call
def sql(
    call: Call, query: str, limit: int | None, timeout: float, is_csv: bool, file: str | None
) -> None:
    """Answer a SELECT over messages, memories, facts, sessions, documents, items and more.

    QUERY is read from stdin if it is -. DESCRIBE messages has the columns.
    """
    text = sys.stdin.read() if query == "-" else query
    found = call.place.reading().sql(text, timeout_seconds=timeout, max_rows=limit)
    if (file or call.output.arrow) is not None:
        replace(call.output, arrow=file or call.output.arrow).table(found)
        return
    rows = (row for batch in found.to_batches() for row in batch.to_pylist())
    if is_csv:
        csv_rows(found.column_names, (row.values() for row in rows))
    else:
        call.output.rows(found.column_names, (Line(tuple(row.values()), row) for row in rows))


COMMANDS = (sql,)

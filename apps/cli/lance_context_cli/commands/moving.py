"""Out of a store and into one."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from lance_context_cli.call import Call, pass_call

FORMATS = ("jsonl", "parquet", "openai", "langchain")
AGENTS = ("claude-code", "codex", "gemini-cli")


@click.command("export")
@click.argument("file", type=click.Path())
@click.option("--format", type=click.Choice(FORMATS), default="jsonl", show_default=True)
@pass_call
def export(call: Call, file: str, format: Any) -> None:
    """Write the whole store to FILE, which must not exist; with parquet a folder.

    openai and langchain write conversations in the message format of these.
    """
    with progress("rows written") as tell:
        done = call.place.reading().export(file, format=format, progress=tell)
    call.output.fields({"file": file, "rows": done.n_rows, "tables": done.rows})


@click.command("import")
@click.argument("file", type=click.Path(exists=True), required=False)
@click.option(
    "--format",
    type=click.Choice((*FORMATS, *AGENTS)),
    help="Needed for all but exports of a store.",
)
@click.option(
    "--project",
    type=click.Path(),
    metavar="DIR",
    help="Of a coding agent's history, the conversations in this folder.",
)
@pass_call
def import_(call: Call, file: str | None, format: Any, project: str | None) -> None:
    """Import an export; existing rows are unchanged. Creates the store if it does not exist.

    Checks everything before anything is written. With the name of a coding agent as --format it
    imports its history: FILE is a file or a folder; without it, where the agent keeps it.
    """
    with progress("rows read") as tell:
        store = call.place.making()
        done = store.import_(file, format=format, project=project, progress=tell)
    told = {"added": done.n_added, "tables": done.added, "there": done.there}
    call.output.fields({**told, **({"left_out": done.left_out} if done.left_out else {})})
    for fault in done.faults:
        call.output.note(fault)


@click.command
@click.argument("destination", type=click.Path())
@pass_call
def copy(call: Call, destination: str) -> None:
    """Copy the store to DESTINATION, a directory or s3://…, with all its versions, branches and tags."""
    with progress("files copied") as tell:
        done = call.place.whole().copy(destination, progress=tell)
    call.output.fields({"to": destination, "files": done.files, "bytes": done.bytes})


@contextmanager
def progress(what: str) -> Iterator[Callable[[Any], None] | None]:
    """A counter on a terminal, where someone waits for it; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.completed:,.0f} {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda now: shown.update(task, completed=now.n_done)


COMMANDS = (export, import_, copy)

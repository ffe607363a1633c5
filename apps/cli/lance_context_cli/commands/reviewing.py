"""What is wrong with what is remembered, each with the command that removes it."""

import textwrap
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from lance_context_cli import exits
from lance_context_cli.call import Call, pass_call
from lance_context_cli.output import Line
from lance_context_cli.place import importing
from lance_context_cli.safe import shown

if TYPE_CHECKING:
    from lance_context_core.knowledge import Review, ReviewFinding

_HEADING = ("kind", "rule", "id", "text", "job", "command")
_WIDTH = 80
_MOST_CHARACTERS = 300
"""Of a text."""


@click.command
@click.option(
    "--export",
    "export",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Review this export of mem0 instead, such as a memory.json; no store is opened.",
)
@click.option(
    "--stale-days",
    type=click.IntRange(min=1),
    default=365,
    show_default=True,
    help="Days after which a memory that was not repeated is stale.",
)
@pass_call
def review(call: Call, export: str | None, stale_days: int) -> None:
    """List duplicates, loops, contradictions, stale and junk memories; ends with 1 if there are any."""
    stale_after = timedelta(days=stale_days)
    if export is None:
        found = call.place.reading().knowledge.review(stale_after=stale_after)
    else:
        with importing():
            from lance_context_core.knowledge import review_export

        found = review_export(export, stale_after=stale_after)
    if call.output.format == "people" and not call.output.names:
        _tell(found, call.output.width or _WIDTH)
    else:
        call.output.rows(_HEADING, map(_line, found.findings))
    told = f"{found.n_facts} facts and {found.n_memories} memories were reviewed"
    call.output.note(f"{told}, {len(found.findings)} findings")
    for name, why in found.not_known.items():
        call.output.note(f"not known: {name}, since {why}")
    if found:
        raise click.exceptions.Exit(exits.NO)


def _tell(found: "Review", width: int) -> None:
    """Print a paragraph for each finding, and a line for each job that they came in by."""
    for one in found.findings:
        click.echo(f"{click.style(one.kind, bold=True)}  {one.rule}")
        _wrapped(one.why, "  ", width)
        for id, text in zip(one.ids, one.texts, strict=True):
            _wrapped(f"- {text[:_MOST_CHARACTERS]}", "  ", width)
            click.echo(f"    {shown(id)}")
        click.echo(f"  {shown(one.command or one.call)}")
        click.echo()
    for job in found.jobs:
        made = f"{job.n_findings} findings, of {job.n_made} facts of {job.at:%Y-%m-%d}"
        click.echo(f"{shown(job.command)}\n  {made}")


def _wrapped(text: str, indent: str, width: int) -> None:
    for line in textwrap.wrap(
        shown(text), width, initial_indent=indent, subsequent_indent=f"{indent}  "
    ):
        click.echo(line)


def _line(one: "ReviewFinding") -> Line:
    cells = (one.kind, one.rule, one.ids[0], one.texts[0], one.job_id, one.command or one.call)
    return Line(cells, one)


COMMANDS = (review,)

"""Whether a store is whole."""

from dataclasses import fields

import click

from lance_context_cli import exits
from lance_context_cli.call import Call, pass_call
from lance_context_cli.commands.moving import progress
from lance_context_cli.output import Line


@click.command
@pass_call
def verify(call: Call) -> None:
    """Check every file, key, row and index, and tell what is damaged; ends with 1 if anything is."""
    with progress("rows checked") as tell:
        found = call.place.whole().verify(progress=tell)
    if call.output.format != "people":
        values = {one.name: getattr(found, one.name) for one in fields(found)}
        call.output.fields({"is_whole": found.is_whole, **values})
    else:
        call.output.rows(
            ("kind", "where", "what", "way out"),
            (Line((one.kind, one.where, one.what, one.way_out), one) for one in found.problems),
        )
        told = f"{found.files} files, {found.rows} rows and {found.indexes} indexes were checked"
        call.output.note(f"{told}: {'all is well' if found.is_whole else 'see above'}")
    if not found.is_whole:
        raise click.exceptions.Exit(exits.NO)


COMMANDS = (verify,)

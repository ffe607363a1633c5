"""What keeps a store small and fast."""

import click

from lance_context_cli.call import Call, pass_call
from lance_context_cli.commands.moving import progress
from lance_context_cli.output import Line


@click.command
@click.option("--only-due", is_flag=True, help="Only urgent maintenance.")
@pass_call
def maintain(call: Call, only_due: bool) -> None:
    """Merge small files, and build and extend the indexes."""
    done = call.place.whole().maintain(only_due=only_due)
    call.output.rows(
        ("table", "files merged", "into", "indexes", "skipped"),
        (
            Line(
                (
                    one.table,
                    one.fragments_removed,
                    one.fragments_added,
                    one.indexes_built,
                    one.skipped,
                ),
                one,
            )
            for one in done
        ),
    )


@click.command
@click.option("--dry-run", is_flag=True, help="Dry run: report the changes without making them.")
@pass_call
def thin(call: Call, dry_run: bool) -> None:
    """Prune old versions that no tag, branch or retention rule protects."""
    with progress("branches thinned") as tell:
        thinned = call.place.whole().thin(dry_run=dry_run, progress=tell)
    call.output.rows(
        ("table", "branch", "versions dropped", "bytes freed"),
        (
            Line((one.table, one.branch, len(one.dropped), one.bytes_freed), one)
            for one in thinned.tables
        ),
    )


COMMANDS = (maintain, thin)

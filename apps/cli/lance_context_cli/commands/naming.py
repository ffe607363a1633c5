"""`lance-ctx store`: names for stores, for `-s NAME`."""

import click

from lance_context_cli import exits, named
from lance_context_cli.call import Call, pass_call
from lance_context_cli.output import Line


@click.group(invoke_without_command=True)
@click.pass_context
def store(context: click.Context) -> None:
    """Manage names of stores, for -s NAME; without a command, list them."""
    if context.invoked_subcommand is None:
        context.invoke(list_)


@store.command("list")
@pass_call
def list_(call: Call) -> None:
    """List the names with their places."""
    call.output.rows(
        ("name", "place"),
        (
            Line((name, place), {"name": name, "place": place})
            for name, place in named.stores().items()
        ),
    )


@store.command
@click.argument("name")
@click.argument("place")
@pass_call
def add(call: Call, name: str, place: str) -> None:
    """Define NAME for PLACE, a directory or a URI, which need not exist yet."""
    held = named.stores()
    if named.check_name(name) in held:
        call.output.note(
            f"lance-ctx: {name!r} is {held[name]} already. "
            f"Remove that first: lance-ctx store remove {name}"
        )
        raise click.exceptions.Exit(exits.CONFLICT)
    place = named.check_place(place)
    named.write({**held, name: place})
    call.output.fields({"name": name, "place": place})


@store.command
@click.argument("name")
@pass_call
def remove(call: Call, name: str) -> None:
    """Remove NAME; the store is unchanged."""
    held = named.stores()
    if name not in held:
        call.output.note(f"lance-ctx: no store has the name {name!r}: lance-ctx store lists them")
        raise click.exceptions.Exit(exits.NOT_FOUND)
    named.write({one: place for one, place in held.items() if one != name})
    call.output.fields({"removed": name})


COMMANDS = (store,)

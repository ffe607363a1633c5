"""`lance-ctx ui`, and `python -m lance_context_inspector`."""

import webbrowser
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import click

_PARTS = {"tenant": "tenant", "user_id": "user", "agent_id": "agent"}
"""The parts of a scope, and the options that set them."""


@click.command
@click.argument("place", required=False)
@click.option("--tenant", metavar="ID", help="Show only data of this tenant.")
@click.option("--user", "user_id", metavar="ID", help="Show only data of this user.")
@click.option("--agent", "agent_id", metavar="ID", help="Show only data of this agent.")
@click.option("--branch", metavar="NAME", help="The branch to start on; default: main.")
@click.option(
    "--at",
    metavar="REF",
    help="The past version to start at: a number, a tag, or a moment (ISO 8601).",
)
@click.option(
    "--embedder",
    metavar="NAME",
    envvar="LANCE_CONTEXT_EMBEDDER",
    help="The embedder of the store, such as local, for search by meaning.",
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Open the store read-only: nothing on the disk changes.",
)
@click.option(
    "--write", "can_write", is_flag=True, help="Allow the page to merge, drop, tag and correct."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_000),
    default=0,
    help="Listen on this port, or the next free one; default: any.",
)
@click.option("--no-open", "is_quiet", is_flag=True, help="Print the link, and open no browser.")
@click.pass_context
def ui(
    context: click.Context,
    /,
    place: str | None,
    can_write: bool,
    read_only: bool,
    port: int,
    is_quiet: bool,
    **options: str | None,
) -> None:
    """Show the store in the browser, on a page that only this machine can open.

    The printed link works once, and the page only in the browser that opened it. Nothing is
    changed without --write. Ctrl-C stops it.
    """
    asked = _asked(context, options)
    uri = place or asked["uri"]
    if uri is None:
        raise click.UsageError("no store is named: PLACE, -C PLACE, or LANCE_CONTEXT_STORE=PLACE")
    read_only = read_only or getattr(getattr(context.obj, "place", None), "read_only", False)
    if read_only and can_write:
        raise click.UsageError("--write and --read-only are opposites: give one")
    _show(uri, asked, can_write=can_write, read_only=read_only, port=port, is_quiet=is_quiet)


def _asked(context: click.Context, options: dict[str, str | None]) -> dict[str, str | None]:
    """What the options say, or else those of the command that this is a part of."""
    outer: Any = getattr(context.obj, "place", None)
    names = ("uri", "at", "branch", "embedder", *_PARTS)
    return {name: options.get(name) or getattr(outer, name, None) for name in names}


def _show(
    uri: str,
    asked: dict[str, str | None],
    *,
    can_write: bool,
    read_only: bool,
    port: int,
    is_quiet: bool,
) -> None:
    from lance_context_core import ContextStore
    from lance_context_inspector.serving import Server, listening, run
    from lance_context_inspector.view import Opened

    with ContextStore.open(
        uri, embedder=asked["embedder"], maintenance=None, read_only=read_only
    ) as store:
        if not store.stats().tables:
            raise click.ClickException(f"no store at {store.uri!r}: pass another place")
        scope = {name: value for name in _PARTS if (value := asked[name]) is not None}
        if asked["branch"] is not None:
            store.branch(asked["branch"])  # Is it there?
        seen = store.aio.scope(**scope)
        opened = Opened(store=seen, scope=scope, can_write=can_write, branch=asked["branch"])
        first = f"/?{urlencode({'at': asked['at']})}" if asked["at"] else "/"
        try:
            at = listening(port)
        except OSError as error:
            raise click.ClickException(str(error)) from error
        server = Server(opened, at, said=_again, first=first)
        click.echo(server.link)
        click.echo("It works once, on this machine. Ctrl-C ends the page.", err=True)
        if not is_quiet:
            _open(server.link)
        run(server)


def _again(link: str) -> None:
    click.echo(f"for another browser: {link}", err=True)


def _open(link: str, opens: Callable[[str], bool] = webbrowser.open) -> None:
    try:
        opens(link)
    except webbrowser.Error:
        return  # The link stands in the terminal.

"""`lance-ctx mcp`, and `lance-context-mcp`: the server as a process of its own."""

import logging
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import click

_TOKEN = "LANCE_CONTEXT_MCP_TOKEN"  # noqa: S105 - where a token is, and not one
_EVERY = timedelta(seconds=2)
"""How often the worker looks for conversations that no facts were made of yet."""


@click.command
@click.option(
    "--http", "is_http", is_flag=True, help="Serve over HTTP instead of standard input and output."
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address that HTTP listens on."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8372,
    show_default=True,
    help="The port; 0 for a free one.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"The token that clients over HTTP send; else {_TOKEN}, else a new one, which is printed.",
)
@click.option(
    "--tokens-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Hashes of tokens with a scope each, made by --add-token: one process for many users.",
)
@click.option(
    "--add-token",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Add a token for the scope of the other options to FILE, print it, and end.",
)
@click.option(
    "--allowed-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Also accept this host name over HTTP, such as that of a proxy. Repeatable.",
)
@click.option(
    "--allowed-origin",
    "origins",
    multiple=True,
    metavar="URL",
    help="Accept requests from web pages of this origin, such as https://memory.example. Repeatable.",
)
@click.option(
    "--rate-limit",
    "per_minute",
    type=click.IntRange(min=1),
    metavar="N",
    help="Accept N requests per minute over HTTP from each token; default: no limit.",
)
@click.option(
    "--max-request-bytes",
    type=click.IntRange(min=1_024),
    metavar="N",
    default=4 * 1024 * 1024,
    show_default=True,
    help="Accept requests of at most N bytes over HTTP.",
)
@click.option("--read-only", "is_read_only", is_flag=True, help="Offer no tool that writes.")
@click.option(
    "--branches/--no-branches",
    "has_branches",
    default=None,
    help="Offer branches. A branch contains the data of all users, so in a scope they need this option.",
)
@click.option(
    "--tools",
    metavar="LIST",
    default="default",
    show_default=True,
    help="Tools to offer, by name, or by set: default, memory, conversations, knowledge, branches, "
    "graph, all.",
)
@click.option(
    "--model",
    envvar="LANCE_CONTEXT_MODEL",
    metavar="NAME",
    help="Extract facts in the background: rules, or a language model as PACKAGE.MODULE:NAME.",
)
@click.option("--author", default="mcp", show_default=True, help="The author of the writes.")
@click.option(
    "--import-graph",
    "graph_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Import the file of the reference memory server, and end. Repeating it changes nothing.",
)
@click.pass_context
def mcp(context: click.Context, /, **options: Any) -> None:
    """Serve the store to agents that speak MCP, over standard input and output, or over HTTP.

    Options before the command select the scope and the branch: no client can choose another.
    Standard output carries the protocol; messages go to standard error.
    """
    place = getattr(context.obj, "place", None)
    if place is None or place.uri is None:
        raise click.UsageError("no store is named: lance-ctx -C PLACE mcp")
    names = ("uri", "at", "branch", "tenant", "user_id", "agent_id", "embedder")
    _serve(**{name: getattr(place, name) for name in names}, **options)


_PLACE = (
    click.Option(
        ("-C", "--store", "--uri", "uri"),
        envvar="LANCE_CONTEXT_STORE",
        required=True,
        metavar="PLACE",
        help="The store: a directory, or a URI.",
    ),
    click.Option(("--branch",), metavar="NAME", help="The branch; default: main."),
    click.Option(
        ("--at",),
        metavar="REF",
        help="The past version to serve: a number, a tag, or a moment. Read-only.",
    ),
    click.Option(("--tenant",), metavar="ID", help="Only data of this tenant."),
    click.Option(("--user", "user_id"), metavar="ID", help="Only data of this user."),
    click.Option(("--agent", "agent_id"), metavar="ID", help="Only data of this agent."),
    click.Option(
        ("--embedder",),
        envvar="LANCE_CONTEXT_EMBEDDER",
        metavar="NAME",
        help="The embedder, such as local:, for search by meaning.",
    ),
)


def main() -> None:
    """Run the server that the arguments name, and end the process."""
    params = [*_PLACE, *mcp.params]
    click.Command("lance-context-mcp", callback=_serve, params=params, help=mcp.help)()


def _serve(**options: Any) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    options["tools"] = tuple(filter(None, (one.strip() for one in options["tools"].split(","))))
    if options["add_token"] is not None:
        _add_token(options)
        return
    if options["is_http"]:
        _check_web(options)
    elif options["tokens_file"] is not None:
        raise click.UsageError("--tokens-file is for HTTP: add --http")
    from lance_context_core import ContextStoreError

    try:
        anyio.run(_run, options)
    except ContextStoreError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        pass


def _add_token(options: dict[str, Any]) -> None:
    from lance_context_mcp import tokens

    grant = tokens.Grant(
        tenant=options["tenant"],
        user=options["user_id"],
        agent=options["agent_id"],
        read_only=options["is_read_only"],
    )
    click.echo(tokens.add(options["add_token"], grant))


def _check_web(options: dict[str, Any]) -> None:
    for origin in options["origins"]:
        scheme, _, rest = origin.partition("://")
        if scheme not in ("http", "https") or not rest or "/" in rest or "*" in rest:
            raise click.UsageError(
                f"--allowed-origin {origin}: give a scheme, a name and a port that is not the usual "
                "one, such as https://memory.example"
            )
    for name in options["hosts"]:
        if not name or {*"/*@ "} & {*name}:
            raise click.UsageError(
                f"--allowed-host {name}: give a name, such as memory.example, or memory.example:8443"
            )
    if options["tokens_file"] is None:
        options["token"] = _token(options["token_file"], options["host"])
    elif options["token_file"] is not None:
        raise click.UsageError("--token-file and --tokens-file: give one of the two")


def _token(file: Path | None, host: str) -> str:
    from lance_context_mcp.http import LOOPBACK

    told = file.read_text(encoding="utf-8") if file is not None else os.environ.get(_TOKEN, "")
    if token := told.strip():
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise click.UsageError("the token has other characters than ASCII's visible ones")
        return token
    if host not in LOOPBACK:
        raise click.UsageError(
            f"--host {host}: others than this machine reach it, so give a token of your own by "
            f"--token-file or {_TOKEN}, or tokens of several users by --tokens-file"
        )
    return secrets.token_urlsafe(32)


async def _run(options: dict[str, Any]) -> None:
    from lance_context_core import AsyncContextStore
    from lance_context_mcp.memory import Memory, extracting, moment_or_name
    from lance_context_mcp.tokens import Grant

    is_read_only = options["is_read_only"] or options["at"] is not None
    whole = AsyncContextStore.open(
        options["uri"],
        embedder=options["embedder"],
        author=options["author"],
        read_only=is_read_only,
    )
    try:
        store = whole
        if options["branch"] is not None:
            store = await store.branch(options["branch"])
        if options["at"] is not None:
            store = await store.checkout(moment_or_name(options["at"]))
        store = store.scope(
            tenant=options["tenant"], user_id=options["user_id"], agent_id=options["agent_id"]
        )

        def memory_of(grant: Grant) -> Memory:
            part = store.scope(tenant=grant.tenant, user_id=grant.user, agent_id=grant.agent)
            names = [options[name] for name in ("tenant", "user_id", "agent_id")]
            is_whole = not any((*names, grant.tenant, grant.user, grant.agent))
            asked, model = options["has_branches"], options["model"]
            return Memory(
                store=part,
                is_read_only=is_read_only or grant.read_only,
                has_meaning=options["embedder"] is not None,
                has_branches=is_whole if asked is None else asked,
                knowledge=None if model is None else extracting(part, model),
            )

        if options["graph_file"] is not None:
            await _import(memory_of(Grant()), options["graph_file"])
        elif options["is_http"]:
            await _over_http(store, memory_of, options)
        else:
            await _over_pipes(memory_of(Grant()), options)
    finally:
        with anyio.CancelScope(shield=True):
            await whole.close()


def _background(memory: Any) -> AbstractAsyncContextManager[Any]:
    """The worker that extracts facts while the server runs."""
    if memory.knowledge is None or memory.is_read_only:
        return nullcontext()
    worker: AbstractAsyncContextManager[Any] = memory.knowledge.jobs.worker(every=_EVERY)
    return worker


async def _over_pipes(memory: Any, options: dict[str, Any]) -> None:
    from mcp.server.stdio import stdio_server

    from lance_context_mcp.server import server

    served = server(memory, tools=options["tools"])
    async with _background(memory), stdio_server() as (incoming, outgoing):
        await served.run(incoming, outgoing, served.create_initialization_options())


async def _over_http(store: Any, memory_of: Callable[..., Any], options: dict[str, Any]) -> None:
    from lance_context_core import ContextStoreError
    from lance_context_mcp import http, tokens
    from lance_context_mcp.server import server

    if options["tokens_file"] is not None:
        grants = tokens.read(options["tokens_file"])
    else:
        grants = {tokens.hashed(options["token"]): tokens.Grant()}
    memories = {grant: memory_of(grant) for grant in {*grants.values()}}
    served = {grant: server(memory, tools=options["tools"]) for grant, memory in memories.items()}
    host, port = options["host"], options["port"]
    try:
        listening = http.bound(host, port)
    except OSError as error:
        raise click.ClickException(
            f"{host}:{port} cannot be listened at ({error.strerror}): --port names another one"
        ) from error
    name = f"[{host}]" if ":" in host else host
    click.echo(f"http://{name}:{listening.getsockname()[1]}{http.PATH}", err=True)
    if not (options["tokens_file"] or options["token_file"] or _TOKEN in os.environ):
        click.echo(f"Authorization: Bearer {options['token']}", err=True)
    if host not in http.LOOPBACK:
        click.echo(
            "any client that reaches this machine and has the token can read this memory", err=True
        )

    async def is_well() -> bool:
        try:
            await store.version()
        except (ContextStoreError, OSError):
            return False
        return True

    application = http.app(
        {hash: served[grant] for hash, grant in grants.items()},
        host=host,
        port=listening.getsockname()[1],
        is_well=is_well,
        hosts=options["hosts"],
        origins=options["origins"],
        per_minute=options["per_minute"],
        max_request_bytes=options["max_request_bytes"],
    )
    async with AsyncExitStack() as stack:
        for memory in memories.values():
            await stack.enter_async_context(_background(memory))
        await http.serve(application, listening)


async def _import(memory: Any, file: Path) -> None:
    from lance_context_mcp.graph import Graph, lines_of

    graph = Graph(memory.store, memory.has_meaning)
    try:
        told = [*lines_of((await anyio.Path(file).read_bytes()).decode().split("\n"))]
    except UnicodeDecodeError as error:
        raise click.ClickException(
            f"{file} is not UTF-8, from byte {error.start} on: save it as UTF-8"
        ) from error
    entities = [one for kind, one in told if kind == "entity"]
    relations = [one for kind, one in told if kind == "relation"]
    made = await graph.create_entities(entities)
    linked = await graph.create_relations(relations)
    click.echo(
        f"{len(made)} of {len(entities)} entities and {len(linked)} of {len(relations)} relations "
        "are new",
        err=True,
    )

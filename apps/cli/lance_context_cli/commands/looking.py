"""What is there, and what of it answers a question. Nothing is changed."""

from typing import Any

import click

from lance_context_cli import exits
from lance_context_cli.call import Call, pass_call
from lance_context_cli.commands._filters import filter_option, parsed
from lance_context_cli.commands._lines import RECORD, fields_of, record_line, text_of
from lance_context_cli.ids import FACTS, record_id, record_or_session_id, session_id
from lance_context_cli.output import Line

_limit = click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Maximum number of results.",
)


@click.command
@pass_call
def status(call: Call) -> None:
    """Show the contents and the size of the store, and the maintenance that is due."""
    store = call.place.reading()
    stats = store.stats()
    tables = [_table(one) for one in stats.tables]
    told = {
        "place": store.uri,
        "version": store.version(),
        "branches": [one.name for one in store.branches()],
        "tags": sorted(store.tags()),
        "sessions": store.sessions.count(),
        "last_error": stats.last_error,
    }
    if call.output.format != "people":
        call.output.fields(told | {"tables": tables})
        return
    call.output.fields(told)
    call.output.text("")
    heading = ("table", "rows", "bytes", "versions", "due")
    lines = (Line(tuple(one[name] for name in heading), one) for one in tables)
    call.output.rows(heading, lines)


@click.command
@_limit
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Number of results to skip.")
@pass_call
def sessions(call: Call, limit: int, offset: int) -> None:
    """List the conversations, most recently active first."""
    found = call.place.reading().sessions.list(limit=limit, offset=offset)
    call.output.rows(
        ("session", "agent", "messages", "updated", "title"),
        (
            Line((one.id, one.agent_id, one.n_messages, one.updated_at, one.title), one)
            for one in found
        ),
    )


@click.command
@filter_option
@_limit
@click.option("--oldest", is_flag=True, help="Oldest first.")
@click.option("--context", "name", default="default", help="Only this context of the record API.")
@pass_call
def ls(call: Call, filter_json: str | None, limit: int, oldest: bool, name: str) -> None:
    """List records of all kinds, newest first."""
    found = (
        call.place.reading()
        .context(name)
        .list(
            limit,
            filters=parsed(filter_json),
            newest_first=not oldest,
            include_binary=False,
            include_embedding=False,
        )
    )
    call.output.rows(RECORD, map(record_line, found))


@click.command
@click.argument("id")
@pass_call
def show(call: Call, id: str) -> None:
    """Show a whole record or session."""
    from lance_context_core.errors import NotFoundError

    store = call.place.reading()
    id = record_or_session_id(store, id)
    made = store.context(FACTS)  # A fact is shown, too: its id is what `facts` lists.
    if (record := store.context().get(id=id) or made.get(id=id)) is not None:
        fields = fields_of(record)
        text = fields["text"] or ""
        if call.output.format == "people":
            del fields["text"]
        call.output.fields(fields)
        call.output.text(f"\n{text}" if text else "")
    elif (session := store.sessions.get(id)) is not None:
        call.output.fields(fields_of(session))
    else:
        raise NotFoundError(f"no record and no session {id!r} here")


@click.command
@click.argument("session")
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Only the last N messages.")
@pass_call
def history(call: Call, session: str, tail: int | None) -> None:
    """Show a conversation, message by message."""
    from lance_context_core.errors import NotFoundError

    store = call.place.reading()
    session = session_id(store, session)
    found = store.context().list(
        tail,
        filters={"session_id": session, "kind": "message"},
        newest_first=tail is not None,
        include_binary=False,
        include_embedding=False,
    )
    if not found:
        raise NotFoundError(f"no message of a session {session!r} here")
    in_order = found[::-1] if tail is not None else found
    if call.output.format != "people":
        call.output.rows(RECORD, map(record_line, in_order))
        return
    for one in in_order:
        said = fields_of(one)
        call.output.heading(said["name"] or said["role"] or "", said["created_at"])
        call.output.text(f"{text_of(said)}\n")


@click.command
@click.argument("words", nargs=-1, required=True)
@click.option("--mode", type=click.Choice(["hybrid", "vector", "text"]), help="The search mode.")
@click.option("--explain", is_flag=True, help="Explain the parts of each score.")
@filter_option
@_limit
@pass_call
def search(
    call: Call,
    words: tuple[str, ...],
    mode: Any,
    explain: bool,
    filter_json: str | None,
    limit: int,
) -> None:
    """Search messages, memories and records by words, and with --embedder also by meaning."""
    hits = call.place.reading().search(
        " ".join(words), mode=mode, filter=parsed(filter_json), limit=limit
    )
    heading = ("score", *RECORD, "why") if explain else ("score", *RECORD)
    call.output.rows(heading, (_hit(hit, explain=explain) for hit in hits))


@click.command
@click.argument("query")
@click.argument("id")
@click.option("--mode", type=click.Choice(["hybrid", "vector", "text"]), help="The search mode.")
@click.option("--reach", type=click.IntRange(1), default=1_000, show_default=True,
              help="Number of hits to examine.")  # fmt: skip
@pass_call
def why(call: Call, query: str, id: str, mode: Any, reach: int) -> None:
    """Explain why a search for QUERY finds the record ID; ends with 1 if it does not."""
    from lance_context_core.errors import NotFoundError

    store = call.place.reading()
    id = record_id(store, id)
    hits = store.search(query, mode=mode, limit=reach)
    for rank, hit in enumerate(hits, 1):
        if hit.record.id == id:
            told = {"found": True, "rank": rank, "score": hit.score}
            call.output.fields({**told, "why": hit.why, "channels": hit.channels})
            return
    every = {"include_expired": True, "include_retired": True}
    if not (there := store.context().list(1, filters={"id": id}, **every)):
        raise NotFoundError(f"no record {id!r} here")
    if store.context().get(id=id) is None:
        reason = "it is hidden from every read"
        for name in ("expires_at", "retired_at", "superseded_by_id", "lifecycle_status"):
            if there[0].get(name) not in (None, "active"):
                reason += f": its {name} is {there[0][name]}"
    elif len(hits) == reach:
        reason = f"{reach} others are better, the last one with {hits[-1].score:.3f}: see --reach"
    else:
        reason = "it has nothing of the query: neither a word, nor a vector that is near"
    call.output.fields({"found": False, "reason": reason})
    raise click.exceptions.Exit(exits.NO)


def _hit(hit: Any, *, explain: bool) -> Line:
    line = record_line(hit.record, hit.score)
    why = " ".join(f"{part} {share:+.3f}" for part, share in hit.why.items())
    return Line(
        (*line.cells, why) if explain else line.cells,
        {"score": hit.score, "channels": hit.channels, "why": hit.why, "record": line.plain},
    )


def _table(stats: Any) -> dict[str, Any]:
    return {
        "table": stats.table,
        "rows": stats.rows + stats.journal_rows,
        "rows_in_journal": stats.journal_rows,
        "bytes": stats.bytes + stats.journal_bytes,
        "versions": stats.versions,
        "due": stats.due,
        "last_error": stats.last_error,
    }


COMMANDS = (status, sessions, ls, show, history, search, why)

"""Write a memory, a message or the documents of a folder, and ask what is remembered, each with one command."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lance_context_cli import exits
from lance_context_cli.call import Call, pass_call
from lance_context_cli.output import Line, plain

if TYPE_CHECKING:
    from lance_context_core import ContextStore

_ROLES = ("user", "assistant", "system", "tool")


def _text(words: tuple[str, ...]) -> str:
    text = sys.stdin.read() if words == ("-",) else " ".join(words)
    if not text.strip():
        raise click.UsageError("the text is empty: give at least one word")
    return text


@click.command
@click.argument("words", nargs=-1, required=True)
@click.option("--session", metavar="ID", default="", help="The session of the memory.")
@click.option("--days", type=click.IntRange(1, 36_500), metavar="N", help="Hide it after N days.")
@pass_call
def remember(call: Call, words: tuple[str, ...], session: str, days: int | None) -> None:
    """Store a memory, and print its id; the same text is stored once. - reads stdin."""
    from lance_context_core.adapting import block_on, remember_once

    text, store = _text(words), call.place.making()
    expires_at = None if days is None else store.clock.now() + timedelta(days=days)
    kept = block_on(remember_once(store.aio, text, session_id=session, expires_at=expires_at))
    if not kept.is_new:
        call.output.note("it is remembered already")
    call.output.fields(kept._asdict())


@click.command
@click.argument("session")
@click.argument("words", nargs=-1, required=True)
@click.option("--role", type=click.Choice(_ROLES), default="user", show_default=True)
@click.option("--name", metavar="NAME", help="The speaker.")
@pass_call
def say(call: Call, session: str, words: tuple[str, ...], role: Any, name: str | None) -> None:
    """Append a message to a conversation, and print its id. - reads stdin."""
    text, store = _text(words), call.place.making()
    from lance_context_core import Message

    message = Message(role=role, parts=Message.user(text).parts, name=name)
    agent_id = call.place.agent_id or _agent_of(store, session)
    id = store.history.append(agent_id, message, session_id=session)
    call.output.fields({"id": id, "session": session})


def _agent_of(store: "ContextStore", session: str) -> str:
    """The agent of a conversation that goes on; of a new one none."""
    found = store.sessions.get(session)
    return "" if found is None else found.agent_id or ""


@click.command
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--include", metavar="PATTERN", multiple=True, help="Only files that match, such as *.md."
)
@click.option(
    "--ignore", metavar="PATTERN", multiple=True, help="Skip files and folders that match."
)
@click.option(
    "--hash", "by_hash", is_flag=True, help="Compare files by content instead of time and size."
)
@click.option("--dry-run", is_flag=True, help="Dry run: show the changes.")
@pass_call
def sync(
    call: Call,
    folder: Path,
    include: tuple[str, ...],
    ignore: tuple[str, ...],
    *,
    by_hash: bool,
    dry_run: bool,
) -> int:
    """Bring the documents of FOLDER up to date with its files; ends with 1 if some cannot be read.

    New files are added, changed ones updated, moved ones renamed, and documents of removed
    files deleted. Names that begin with a dot are ignored.
    """
    done = call.place.making().documents.sync(
        folder,
        include=include or None,
        ignore=(".*", *ignore),
        check="hash" if by_hash else "time",
        dry_run=dry_run,
    )
    lines = [
        *((name, "added", "") for name in done.added),
        *((name, "updated", "") for name in done.updated),
        *((new, "renamed", f"was {old}") for old, new in done.renamed),
        *((name, "deleted", "") for name in done.deleted),
        *((one.name, "failed", str(one.error)) for one in done.failed),
    ]
    columns = ("file", "done", "why")
    call.output.rows(columns, [Line(line, dict(zip(columns, line, strict=True))) for line in lines])
    call.output.note(f"{done.n_unchanged} unchanged")
    return exits.NO if done.failed else exits.OK


@click.command
@click.argument("question", nargs=-1, required=True)
@click.option("-n", "--limit", type=click.IntRange(min=1), default=10, show_default=True)
@pass_call
def ask(call: Call, question: tuple[str, ...], limit: int) -> None:
    """Recall memories, messages, facts and documents that answer QUESTION, with reasons.

    The best of each kind alternate, since their scores have different scales.
    """
    from lance_context_core.adapting import best_of

    text, store = _text(question), call.place.reading()
    lists = [
        _records(store, text, limit),
        _facts(store, text, limit),
        _passages(store, text, limit),
    ]
    call.output.rows(("id", "kind", "text", "why"), best_of(lists, limit))


def _records(store: "ContextStore", text: str, limit: int) -> list[Line]:
    if not store.context().records(1):
        return []  # Its search would warn that there are facts elsewhere, which are asked for, too.
    found = []
    for hit in store.search(text, limit=limit):
        parts = " ".join(f"{part} {share:+.3f}" for part, share in hit.why.items())
        found.append(_line(hit.record.id, hit.record.kind, hit.record.text, hit.score, parts))
    return found


def _facts(store: "ContextStore", text: str, limit: int) -> list[Line]:
    found = []
    for hit in store.knowledge.search(text, top_k=limit, search_type="facts", evidence=True):
        if hit.record.kind == "fact":
            said = "; ".join(
                f"{quote.speaker or 'someone'} said: {quote.text}"
                for quote in hit.evidence
                if quote.text
            )
            found.append(_line(hit.record.id, "fact", hit.record.text, hit.score, said))
    return found


def _passages(store: "ContextStore", text: str, limit: int) -> list[Line]:
    found = []
    for hit in store.documents.search(text, limit=limit):
        one = hit.record
        where = f"{one.name}, {one.section}" if one.section else one.name
        found.append(_line(one.document_id, "document", one.text, hit.score, f"in {where}"))
    return found


def _line(id: str, kind: str, text: str | None, score: float, why: str) -> Line:
    told = {"id": id, "kind": kind, "text": text or "", "score": score, "why": why}
    return Line((id, kind, text or "", why), plain(told))


COMMANDS = (remember, say, sync, ask)

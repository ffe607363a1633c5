"""What was made of what was said: facts and their evidence, the jobs that made them, the window."""

from typing import TYPE_CHECKING, Any

import click

from lance_context_cli.call import Call, pass_call
from lance_context_cli.commands._lines import fields_of
from lance_context_cli.ids import job_id, record_id, session_id
from lance_context_cli.output import Line, plain
from lance_context_cli.place import confirm

if TYPE_CHECKING:
    from lance_context_core import ContextRecord, ContextStore
    from lance_context_core.knowledge import Job

_JOB = ("job", "kind", "state", "updated", "attempts", "error")


@click.command
@click.argument("question", nargs=-1)
@click.option("-n", "--limit", type=click.IntRange(min=1), default=10, show_default=True)
@pass_call
def facts(call: Call, question: tuple[str, ...], limit: int) -> None:
    """List facts with their dates and sources; or the facts that answer a QUESTION, with turns."""
    if not question:
        store = call.place.reading()
        known = store.context("knowledge").records(
            limit, filters={"kind": "fact"}, newest_first=True
        )
        call.output.rows(("id", "since", "text", "session", "turns"), map(_known, known))
        return
    found = call.place.reading().knowledge.search(
        " ".join(question), top_k=limit, search_type="facts", evidence=True
    )
    lines = (
        Line(
            (
                one.record.id,
                one.score,
                one.record.text,
                [quote.text or "" for quote in one.evidence],
            ),
            plain(one),
        )
        for one in found
    )
    call.output.rows(("id", "score", "text", "evidence"), lines)


@click.command
@click.argument("id")
@pass_call
def explain(call: Call, id: str) -> None:
    """Show the evidence of a fact or a summary: speaker, time, and the job that extracted it."""
    store = call.place.reading()
    id = record_id(store, id)
    found = store.knowledge.explain(id)
    if call.output.format != "people":
        call.output.fields(plain(found))
        return
    call.output.text(found.records[id].text or "")
    for quote in found.quotes:
        is_so = "says" if quote.is_verified else "said, and says no more:"
        text = quote.text if quote.text is not None else "(it is gone)"
        call.output.text("")
        call.output.heading(f"{quote.speaker or 'somebody'} {is_so}", quote.said_at)
        call.output.text(text)
    call.output.text("")
    lines = (Line((one.source_id, one.relation, one.target_id), plain(one)) for one in found.links)
    call.output.rows(("from", "relation", "to"), lines)


@click.command
@click.option("--state", help="Only jobs in this state, such as failed.")
@pass_call
def jobs(call: Call, state: Any) -> None:
    """List the jobs that extract knowledge from conversations."""
    found = call.place.reading().knowledge.jobs.list(state=state)
    call.output.rows(_JOB, map(_job, found))


@click.command
@click.option("--session", metavar="ID", help="Only this session.")
@click.option(
    "--merge", "is_merged", is_flag=True, help="Apply the result at once, without a proposal."
)
@pass_call
def distill(call: Call, session: str | None, is_merged: bool) -> None:
    """Extract knowledge from new turns, as a proposal on a branch."""
    store = call.place.writing()
    session = None if session is None else session_id(store, session)
    done = store.knowledge.distill(session_id=session, apply="merge" if is_merged else "propose")
    told = {"job": done.job_id, "branch": done.branch, "report": done.report, "faults": done.faults}
    call.output.fields(told)


@click.command
@click.argument("job")
@click.option("--dry-run", is_flag=True, help="Dry run: report the changes without making them.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_call
def undo(call: Call, job: str, dry_run: bool, yes: bool) -> None:
    """Undo a job; later jobs are unchanged."""
    store = call.place.writing()
    job, knowledge = job_id(store, job), store.knowledge
    would = knowledge.undo(job, dry_run=True)
    if dry_run:
        call.output.fields(plain(would))
        return
    retired = len(would.retired)
    confirm(f"Take back what {job} made ({retired} records go)?", is_sure=yes)
    call.output.fields(plain(knowledge.undo(job)))


@click.command
@click.argument("session")
@click.option("--budget", type=click.IntRange(min=1), default=4096, show_default=True)
@click.option("--query", help="The question of the user; default: the last message.")
@pass_call
def context(call: Call, session: str, budget: int, query: str | None) -> None:
    """Show the next prompt of a model, section by section, within a token budget."""
    store = call.place.reading()
    session = session_id(store, session)
    agent_id = call.place.agent_id or _agent_of(store, session)
    window = store.assemble(session_id=session, budget=budget, query=query, agent_id=agent_id)
    if call.output.format != "people":
        call.output.fields(plain(window))
        return
    lines = (
        Line((one.section, one.verdict, one.tokens, one.reason, one.ids), None)
        for one in window.report.outcomes
    )
    call.output.rows(("section", "verdict", "tokens", "why", "ids"), lines)
    call.output.note(f"{window.tokens} tokens of {window.room}")


def _agent_of(store: "ContextStore", session: str) -> str:
    """Whose session it is; no one's where it is not known. Raises NotFoundError if there is none."""
    from lance_context_core.errors import NotFoundError

    if (found := store.sessions.get(session)) is None:
        raise NotFoundError(f"no session {session!r} here: lance-ctx sessions lists them")
    return found.agent_id or ""


def _known(fact: "ContextRecord") -> Line:
    evidence = fact.metadata.get("evidence", ())
    sessions = [*dict.fromkeys(one["session_id"] for one in evidence)]
    turns = [one["source_id"] for one in evidence]
    cells = (fact.id, fact.created_at, fact.text, sessions, turns)
    return Line(cells, fields_of(fact))


def _job(job: "Job") -> Line:
    cells = (job.id, job.kind, job.state, job.updated_at, job.attempts, job.error)
    return Line(cells, plain(job))


COMMANDS = (facts, explain, jobs, distill, undo, context)

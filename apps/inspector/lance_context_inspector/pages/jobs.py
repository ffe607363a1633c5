"""The jobs that make knowledge, and what they propose."""

from typing import Any

from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.knowledge import Job
from lance_context_inspector.page import Page
from lance_context_inspector.pages._costs import cost_of
from lance_context_inspector.pages._listing import Column, listing
from lance_context_inspector.pages.versions import changed
from lance_context_inspector.view import View

STATES = ("scheduled", "running", "proposed", "succeeded", "failed", "cancelled")
_JOBS, _CHANGES = 30, 100


def tokens_of(one: Job) -> int:
    """How many tokens its model read and wrote."""
    return sum(n for name, n in one.usage.items() if name.endswith("_tokens"))


_COLUMNS = (
    Column("job", lambda one: one.kind, is_filter=True),
    Column("state", lambda one: one.state),
    Column("session", lambda one: one.session_id, is_filter=True),
    Column("made_by", lambda one: one.producer, is_filter=True),
    Column("inputs", lambda one: len(one.input_ids), is_number=True),
    Column("attempts", lambda one: one.attempts, is_number=True),
    Column("tokens", tokens_of, is_number=True),
    Column("updated", lambda one: one.updated_at),
)


async def jobs(view: View) -> Page:
    """Jobs, the newest first, or by a column; those of a `state`; with what those shown have cost."""
    state: Any = view.params.get("state") or None
    found = (await view.store.knowledge.jobs.list(state=state))[::-1]
    listed = listing(view, found, _COLUMNS, sort="-updated", size=_JOBS)
    usages = [one.usage for one in listed.part.items]
    sums = [sum(each.get(name, 0) for each in usages) for name in ("input_tokens", "output_tokens")]
    data = {
        "listing": listed,
        "state": state,
        "states": STATES,
        "tokens": {one.id: tokens_of(one) for one in listed.part.items},
        "cost": cost_of(view, *sums),
    }
    return Page("jobs.html", "Jobs", data, "/jobs")


async def job(view: View) -> Page:
    """A job: what it was about, what came of it, what it proposes, and what an undo would take."""
    one = await view.store.knowledge.jobs.get(view.one("id"))
    proposal, undone = None, None
    if one.state == "proposed" and view.is_whole:
        try:
            proposal = await view.store.knowledge.proposal(one.id)
        except NotFoundError:
            proposal = None  # Its branch is gone.
    if one.state == "succeeded" and one.undone_by is None:
        undone = await _would_undo(view, one.id)
    diff = None if proposal is None else proposal.diff
    data = {
        "job": one,
        "report": None if proposal is None else dict(proposal.report),
        "added": [] if diff is None else diff.added[:_CHANGES],
        "changed": [] if diff is None else [changed(each) for each in diff.changed[:_CHANGES]],
        "removed": [] if diff is None else diff.removed[:_CHANGES],
        "is_proposal": proposal is not None,
        "undone": undone,
    }
    return Page("job.html", f"Job: {one.kind}"[:80], data, "/jobs")


async def _would_undo(view: View, id: str) -> Any:
    try:
        return await view.store.knowledge.undo(id, dry_run=True)
    except InvalidRequestError:
        return None  # One that cannot be undone.

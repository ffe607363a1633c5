"""The jobs that make knowledge, and what they propose."""

from typing import Any

from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_inspector.page import Page, Part
from lance_context_inspector.pages._reading import KNOWLEDGE
from lance_context_inspector.pages.versions import changed
from lance_context_inspector.view import View

STATES = ("scheduled", "running", "proposed", "succeeded", "failed", "cancelled")
_JOBS, _CHANGES = 30, 100


async def jobs(view: View) -> Page:
    """Jobs, the newest first; those of a `state`."""
    number = view.number("page", 1, most=100_000)
    state: Any = view.params.get("state") or None
    start, end = (number - 1) * _JOBS, number * _JOBS + 1
    if state is None:
        ids = await view.store.context(KNOWLEDGE).records(
            end - start, start, {"kind": "job"}, newest_first=True
        )
        found = [await view.store.knowledge.jobs.get(one.id) for one in ids]
    else:
        found = (await view.store.knowledge.jobs.list(state=state))[::-1][start:end]
    data = {"part": Part.of(found, number, _JOBS), "state": state, "states": STATES}
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

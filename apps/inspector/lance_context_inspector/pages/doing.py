"""What a page may change, where it was started so: each by a form, and none of it for good."""

import shlex
from collections.abc import Awaitable, Callable, Mapping

from lance_context_core.errors import InvalidRequestError
from lance_context_inspector.page import Page
from lance_context_inspector.pages.versions import policy_of
from lance_context_inspector.view import View, ref


async def merge(view: View) -> Page:
    """Bring a branch into the one that is looked at."""
    view.require_whole()
    source, policy = view.one("source"), policy_of(view)
    before = await view.store.version()
    report = await view.store.merge(source, policy=policy)
    if not report:
        return _done(f"Nothing was left to merge from {source}.", "/timeline")
    told = f"{source} is merged: version {report.version}."
    return _done(
        told,
        view.link("/diff", before=before, after=report.version),
        undo=f"lance-ctx restore {before}",
    )


async def drop(view: View) -> Page:
    """Drop a branch, with all that is on it alone; its name has to be typed."""
    view.require_whole()
    name = view.one("name")
    if view.params.get("typed", "") != name:
        raise InvalidRequestError("the name that was typed is another one: nothing was dropped")
    was_there = await view.store.delete_branch(name)
    return _done(f"{name} is dropped." if was_there else f"{name} was gone already.", "/timeline")


async def tag(view: View) -> Page:
    """Give a version a name."""
    view.require_whole()
    name, version = view.one("name"), view.params.get("version") or None
    number = await view.store.tag(name, version=None if version is None else ref(version))
    told = f"Version {number} is called {name}."
    return _done(told, "/timeline", undo=f"lance-ctx tag -d {shlex.quote(name)}")


async def merge_job(view: View) -> Page:
    """Bring a proposal into the store."""
    id = view.one("id")
    before = await view.store.version()
    report = await view.store.knowledge.merge(id)
    link = view.link("/diff", before=before, after=report.version)
    return _done("The proposal counts now.", link, undo=f"lance-ctx undo {shlex.quote(id)}")


async def discard_job(view: View) -> Page:
    """Drop a proposal: nothing of it was in the store."""
    job = await view.store.knowledge.discard(view.one("id"))
    return _done(f"The proposal is dropped: the job is {job.state}.", view.link("/jobs"))


async def undo_job(view: View) -> Page:
    """Take back what a job made; undoing the undo brings it back."""
    undone = await view.store.knowledge.undo(view.one("id"))
    told = f"{len(undone.retired)} records are hidden, {len(undone.revived)} are back."
    link = view.link("/job", id=undone.job_id)
    return _done(told, link, undo=f"lance-ctx undo {undone.job_id}")


async def correct(view: View) -> Page:
    """Let a fact say something else."""
    fact = await view.store.knowledge.correct(view.one("id"), view.one("text"))
    return _done("It is corrected, and no job changes it from now on.", _fact(view, fact.id))


async def invalidate(view: View) -> Page:
    """Hide a fact that is wrong."""
    fact = await view.store.knowledge.invalidate(view.one("id"), reason=view.one("reason"))
    return _done("It is hidden, and no job brings it back.", _fact(view, fact.id))


async def pin(view: View) -> Page:
    """Keep a fact as it is, or no more."""
    is_pinned = view.params.get("pinned") != "no"
    fact = await view.store.knowledge.pin(view.one("id"), pinned=is_pinned)
    told = "It is pinned: no job changes it." if is_pinned else "It is not pinned any more."
    return _done(told, _fact(view, fact.id))


def _fact(view: View, id: str) -> str:
    return view.link("/record", id=id, context="knowledge")


def _done(words: str, link: str, *, undo: str | None = None) -> Page:
    return Page("done.html", "Done", {"words": words, "link": link, "undo": undo})


ALL: Mapping[str, Callable[[View], Awaitable[Page]]] = {
    "/do/merge": merge,
    "/do/drop": drop,
    "/do/tag": tag,
    "/do/merge-job": merge_job,
    "/do/discard-job": discard_job,
    "/do/undo-job": undo_job,
    "/do/correct": correct,
    "/do/invalidate": invalidate,
    "/do/pin": pin,
}
"""What changes something, by the path of its form."""

"""What a page may change, where it was started so: each by a form, and none of it for good."""

import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from lance_context_core import ContextRecord
from lance_context_core.errors import ConflictError, InvalidRequestError
from lance_context_inspector.page import Page
from lance_context_inspector.pages._reading import KNOWLEDGE
from lance_context_inspector.pages.records import found
from lance_context_inspector.pages.versions import policy_of
from lance_context_inspector.view import View, ref

_PATH = re.compile(r"/(?![/\\])[\x21-\x7e]*")
"""An address of this page: a browser reads what has tabs or a second slash in it as another one."""


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
    id, before = view.one("id"), await view.store.version()
    fact = await view.store.knowledge.get(id)
    done = await view.store.knowledge.correct(id, view.one("text"))
    inverse = ("/do/correct", {**_named(view), "text": fact.text or ""}) if fact else None
    told = "It is corrected, and no job changes it from now on."
    return await _changed(view, told, done, before, inverse=inverse)


async def invalidate(view: View) -> Page:
    """Hide a fact that is wrong."""
    before = await view.store.version()
    fact = await view.store.knowledge.invalidate(view.one("id"), reason=view.one("reason"))
    inverse = ("/do/show", {**_named(view), "context": KNOWLEDGE})
    told = "It is hidden, and no job brings it back."
    return await _changed(view, told, fact, before, inverse=inverse)


async def pin(view: View) -> Page:
    """Keep a fact as it is, or no more."""
    is_pinned, before = view.params.get("pinned") != "no", await view.store.version()
    fact = await view.store.knowledge.pin(view.one("id"), pinned=is_pinned)
    told = "It is pinned: no job changes it." if is_pinned else "It is not pinned any more."
    inverse = ("/do/pin", {**_named(view), "pinned": "no" if is_pinned else "yes"})
    return await _changed(view, told, fact, before, inverse=inverse)


async def edit(view: View) -> Page:
    """Let a memory say something else."""
    one, before = await _record(view), await view.store.version()
    if one.kind != "memory":
        raise InvalidRequestError(f"{one.id!r} is a {one.kind}: memories alone are edited")
    done = await view.store.memory.update(
        one.id, view.one("text"), user_id=one.user_id or "", session_id=one.session_id
    )
    inverse = ("/do/edit", {**_named(view), "text": one.text or ""})
    return await _changed(view, "It is edited.", done, before, inverse=inverse)


async def hide(view: View) -> Page:
    """Hide a record from every read; it stays in the store, and can be shown again."""
    one, before = await _record(view), await view.store.version()
    now, reason = datetime.now(UTC), view.one("reason")
    await _update(view, one, lifecycle_status="retired", retired_at=now, retired_reason=reason)
    inverse = ("/do/show", _named(view))
    return await _changed(view, "It is hidden from every read.", one, before, inverse=inverse)


async def show(view: View) -> Page:
    """Show a record again that was hidden."""
    one, before = await _record(view), await view.store.version()
    cleared = ("retired_at", "retired_reason")
    await _update(view, one, clear=cleared, lifecycle_status="active")
    return await _changed(view, "It is shown again.", one, before)


async def note(view: View) -> Page:
    """Keep a note with a record, in its metadata; an empty one takes the note away."""
    one, before = await _record(view), await view.store.version()
    text = view.params.get("note", "").strip()
    metadata = {name: value for name, value in one.metadata.items() if name != "note"}
    await _update(view, one, metadata={**metadata, **({"note": text} if text else {})})
    inverse = ("/do/note", {**_named(view), "note": str(one.metadata.get("note") or "")})
    told = "The note is kept." if text else "The note is gone."
    return await _changed(view, told, one, before, inverse=inverse)


async def _record(view: View) -> ContextRecord:
    """The record that a form is about, by its id, session and user, hidden or not."""
    return await found(view, view.store)


async def _update(view: View, one: ContextRecord, **changes: Any) -> None:
    """Change fields of that record and of no other. Raises ConflictError if several are called so."""
    store = view.store if one.user_id is None else view.of_user(one.user_id)
    context = store.context(one.context)
    every: dict[str, Any] = {"include_retired": True, "include_expired": True}
    if len(await context.records(2, filters={"id": one.id}, **every)) > 1:
        raise ConflictError(
            f"several records of this user are called {one.id!r}: nothing is changed"
        )
    await context.update(id=one.id, **every, **changes)


def _named(view: View) -> dict[str, str]:
    """The fields by which a form names its record, and where the person was."""
    names = ("id", "context", "session", "user", "branch", "back")
    return {name: view.params[name] for name in names if view.params.get(name) is not None}


async def _changed(
    view: View,
    words: str,
    one: ContextRecord,
    before: int,
    *,
    inverse: tuple[str, dict[str, str]] | None = None,
) -> Page:
    """What a change of a record did: the version it made, and the form that takes it back."""
    context = None if one.context == "default" else one.context
    link = view.link(
        "/record", id=one.id, context=context, session=one.session_id, user=one.user_id
    )
    after = await view.store.version()
    version = after if view.is_whole and after > before else None
    return _done(words, link, before=before, back=_back(view), inverse=inverse, version=version)


def _back(view: View) -> str | None:
    """The page that the form was on; None for a value that is not a path of this page."""
    back = view.params.get("back", "")
    return back if _PATH.fullmatch(back) else None


def _done(words: str, link: str, *, undo: str | None = None, **more: Any) -> Page:
    data = {"words": words, "link": link, "undo": undo, "inverse": None, "version": None}
    return Page("done.html", "Done", data | {"before": None, "back": None} | more)


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
    "/do/edit": edit,
    "/do/hide": hide,
    "/do/show": show,
    "/do/note": note,
}
"""What changes something, by the path of its form."""

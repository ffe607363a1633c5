"""The store in time: versions, branches, how they differ, and what a merge would do."""

from collections.abc import Collection
from itertools import islice
from typing import Literal

from lance_context_core.arguments import MergePolicy
from lance_context_core.errors import InvalidRequestError
from lance_context_core.results import RecordChange
from lance_context_inspector.drawing import branch_graph
from lance_context_inspector.page import Page, Part
from lance_context_inspector.view import View, ref
from lance_context_inspector.words import compared

_POLICIES: tuple[Literal["newest", "ours", "theirs"], ...] = ("newest", "ours", "theirs")
_VERSIONS, _CHANGES, _CONFLICTS = 30, 100, 50


async def timeline(view: View) -> Page:
    """Versions, the newest first, from those `before` a number on; and all branches in a graph."""
    view.require_whole()
    now = await view.now()
    before = view.params.get("before")
    known = await now.versions(
        limit=_VERSIONS + 1,
        before=view.number("before", 1, most=2**53) if before else None,
    )
    branches = await view.opened.store.branches()
    tags = await view.opened.store.tags()
    newest_first = known[::-1]
    data = {
        "part": Part.of(newest_first, 1, _VERSIONS),
        "branches": branches,
        "tags": tags,
        "graph": branch_graph(branches, tags, await view.opened.store.version()),
        "is_newest": not before,
    }
    return Page("timeline.html", "Timeline", data, "/timeline")


async def beside(view: View) -> Page:
    """The versions before and after the one that is looked at, for the keys `[` and `]`.

    `earlier` is None before the first one that is kept, and `later` None where now is looked at; it
    is empty for now, which comes after the newest but one.
    """
    view.require_whole()
    now = await view.now()
    here, newest = await view.store.version(), await now.version()
    earlier = await now.versions(limit=1, before=here)
    later: int | str | None = "" if view.at is not None else None
    reach = 1
    while here + 1 < newest:  # Numbers are missing where versions were thinned away.
        near = await now.versions(limit=reach, before=here + reach + 1)
        after = [one.number for one in near if one.number > here]
        if after or here + reach >= newest:
            later = after[0] if after and after[0] < newest else later
            break
        reach *= 2
    data = {"version": here, "earlier": earlier[0].number if earlier else None, "later": later}
    return Page("", "Beside", data)


async def difference(view: View) -> Page:
    """What differs from `before` to `after`, or to now: versions, tags, branches or moments."""
    scoped = not view.is_whole
    before, after = view.one("before"), view.params.get("after") or None
    found = await view.store.diff(
        ref(before, is_scoped=scoped), None if after is None else ref(after, is_scoped=scoped)
    )
    names = {one.name for one in await view.opened.store.branches()} if view.is_whole else set()
    data = {
        "before": before,
        "after": after,
        "old": _where(before, names),
        "new": _where(after, names),
        "counts": {
            "added": len(found.added),
            "changed": len(found.changed),
            "removed": len(found.removed),
        },
        "added": found.added[:_CHANGES],
        "changed": [changed(one) for one in islice(found.changed, _CHANGES)],
        "removed": found.removed[:_CHANGES],
        "most": _CHANGES,
    }
    title = f"{before} to {after or 'now'}"
    return Page("diff.html", f"Difference: {title[:60]}", data, "/timeline" if not scoped else "")


def _where(name: str | None, branches: Collection[str]) -> dict[str, str | None]:
    """What of a link leads to where a version, a tag, a branch or a moment is."""
    if name in branches:
        return {"branch": name, "at": None}
    return {"branch": None, "at": None} if name == "main" else {"at": name}


def changed(change: RecordChange) -> dict[str, object]:
    """A change, with its texts compared word by word where these differ."""
    before, after = change.before.text or "", change.after.text or ""
    return {
        "before": change.before,
        "after": change.after,
        "fields": change.fields,
        "words": compared(before, after) if before != after else None,
    }


def policy_of(view: View) -> MergePolicy:
    """The policy of a merge that was chosen. Raises InvalidRequestError for what is none."""
    chosen = view.params.get("policy") or "newest"
    for policy in _POLICIES:
        if policy == chosen:
            return policy
    raise InvalidRequestError(f"policy={chosen[:80]!r}: there are {', '.join(_POLICIES)}")


async def merging(view: View) -> Page:
    """What a merge of the branch `source` would do: nothing is changed."""
    view.require_whole()
    source, policy = view.one("source"), policy_of(view)
    report = await view.store.merge(source, policy=policy, dry_run=True)
    fork = next((one for one in await view.opened.store.branches() if one.name == source), None)
    data = {
        "source": source,
        "fork": fork,
        "policy": policy,
        "policies": _POLICIES,
        "report": report,
        "conflicts": report.conflicts[:_CONFLICTS],
        "would": bool(report),
    }
    return Page("merge.html", f"Merging {source[:60]}", data, "/timeline")

"""A table's refs: engine branches that hold the store's branches, tags and versions.

A ref is here the full name of an engine branch, whose prefix is its use, as `heads/draft` or
`tags/v1`; None is main. (A caller's `Ref` names a version.) `forks` maps each ref to its fork
point. The engine's own tags are not used: it removes no version older than the oldest of them. A
branch holds exactly what it shows, and what it shows can be erased.
"""

import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from lance_context_core._util.checks import check_name, shown
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import FEW_ATTEMPTS, Attempts, retried
from lance_context_core.errors import InvalidRequestError, NotFoundError, StorageError
from lance_context_core.storage.lance.errors import (
    asked,
    is_damage,
    is_missing_file,
    meant,
    translated,
)
from lance_context_core.storage.names import shown_name

MAIN = "main"
"""The first branch of every store, which cannot be deleted."""

_HEAD, _BASE, _TAG, _KEPT, _GONE = "heads/", "bases/", "tags/", "kept/", "gone/"

_EPOCH, _MICROSECOND = datetime.fromtimestamp(0, UTC), timedelta(microseconds=1)

# The engine also accepts letters outside ASCII, and then cannot list its branches any more.
_NAME = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9_-])?")


@frozen
class At:
    """One version of one ref."""

    ref: str | None
    """None is main."""
    version: int


class Pin(Protocol):
    """A moment of the store."""

    async def locate(self, name: str, handle: Any) -> At | None:
        """The table `name` then; None if it did not exist. `handle` is of any ref."""


def head(branch: str) -> str | None:
    """The ref that a branch of the store writes to."""
    return None if branch == MAIN else _HEAD + branch


def base(branch: str, number: int) -> str:
    """The ref of a branch's last common version with its parent; the highest counts."""
    return f"{_BASE}{branch}.{number}"


def gone(branch: str) -> str:
    """The ref that marks a branch as being deleted; deleted last."""
    return _GONE + branch


def gone_among(refs: Iterable[str]) -> list[str]:
    """The branches that are being deleted."""
    return [ref.removeprefix(_GONE) for ref in refs if ref.startswith(_GONE)]


def tagged(tag: str) -> str:
    """The ref of a tag's version."""
    return _TAG + tag


def kept(version: int, created_at: datetime, branch: str = MAIN) -> str:
    """The ref that keeps a version of a branch when its neighbours are removed.

    A version without rows is removed all the same, since the engine keeps only the files that a ref
    refers to: then the ref stands for it, with the moment in its name.
    """
    owner = "" if branch == MAIN else f"{branch}."
    return f"{_KEPT}{owner}{version}.{(created_at - _EPOCH) // _MICROSECOND}"


def is_kept(ref: str | None) -> bool:
    """Whether the ref exists only to keep a version."""
    return ref is not None and ref.startswith(_KEPT)


def kept_of(branch: str, refs: Iterable[str]) -> dict[int, str]:
    """Those of `refs` that keep versions of the branch, by version."""
    found = {}
    for ref in filter(is_kept, refs):
        *owner, number, _ = ref.removeprefix(_KEPT).split(".")
        if (".".join(owner) or MAIN) == branch:
            found[int(number)] = ref
    return found


def moment_of(ref: str) -> datetime:
    """The moment of the version that a ref keeps."""
    return _EPOCH + int(ref.rpartition(".")[2]) * _MICROSECOND


def branch_of(ref: str | None) -> str | None:
    """The branch that writes to a ref; None if none does."""
    if ref is None:
        return MAIN
    return ref.removeprefix(_HEAD) if ref.startswith(_HEAD) else None


def tag_of(ref: str) -> str | None:
    """The tag of a ref; None if it has none."""
    return ref.removeprefix(_TAG) if ref.startswith(_TAG) else None


def owner_of(ref: str) -> str:
    """The user's name of the branch or the tag of a ref."""
    name = ref.partition("/")[2]
    if is_kept(ref):
        return ".".join(name.split(".")[:-2]) or MAIN
    return name.rpartition(".")[0] if ref.startswith(_BASE) else name


def named(ref: str) -> str:
    """The name in messages of a ref other than main: a branch or a tag."""
    return f"{'tag' if ref.startswith(_TAG) else 'branch'} {owner_of(ref)!r}"


def fork_of(ref: str, forks: Mapping[str, At]) -> At:
    """The fork point of a ref other than main. Raises NotFoundError if not among `forks`."""
    if (at := forks.get(ref)) is None:
        raise NotFoundError(f"{named(ref)} does not exist: see branches() and tags()")
    return at


def belonging_to(branch: str, forks: dict[str, At]) -> list[str]:
    """A branch's refs among `forks`, each before those that it was forked from."""
    own = str(head(branch))
    bases = bases_of(branch, forks)
    # A base that a merge left was forked from the branch, the branch perhaps from the first base.
    late = [base for base in bases if forks[base].ref == own]
    early = [base for base in bases if base not in late]
    kept = kept_of(branch, forks).values()
    there = [ref for ref in (own, gone(branch)) if ref in forks]
    return [*kept, *late, *there[:1], *early, *there[1:]]


def bases_of(branch: str, forks: dict[str, At]) -> list[str]:
    """The refs among `forks` that hold the branch's bases, newest first."""
    numbers = [
        int(ref.rpartition(".")[2])
        for ref in forks
        if ref.startswith(_BASE) and ref.rpartition(".")[0] == _BASE + branch
    ]
    return [base(branch, number) for number in sorted(numbers, reverse=True)]


def next_base(branch: str, forks: dict[str, At]) -> str:
    """The name of the branch's next base, which is valid once it exists."""
    bases = bases_of(branch, forks)
    return base(branch, int(bases[0].rpartition(".")[2]) + 1 if bases else 0)


def check_ref(name: object, what: str) -> str:
    """`name`, if valid for a branch or a tag; otherwise raises InvalidRequestError.

    It has 1 to 200 of the letters a to z and A to Z, digits, `.`, `-` and `_`; no dot at its ends,
    no two dots in a row, not the ending `.lock`, and not `main`.
    """
    text = check_name(name, "name")
    if not _NAME.fullmatch(text) or ".." in text or text.endswith(".lock"):
        raise InvalidRequestError(
            f"name={shown(text)} is not a name for a {what}: use up to 200 ASCII letters, digits, "
            "'-', '_', and single dots between them"
        )
    if text == MAIN:
        raise InvalidRequestError(
            f"name={text!r} is the branch that every store begins with: choose another name"
        )
    return text


async def listed(handle: Any, table: str, *, with_gone: bool = False) -> dict[str, At]:
    """All refs of a table but main, with their fork points.

    Leaves out branches whose deletion has begun, unless `with_gone`.
    """
    found = {ref: at for ref, at in (await _listed(handle, table)).items() if not _is_below(ref)}
    if with_gone:
        return found
    hidden = {ref for branch in gone_among(found) for ref in belonging_to(branch, found)}
    return {ref: at for ref, at in found.items() if ref not in hidden}


async def fork(handle: Any, table: str, ref: str, at: At) -> Any:
    """A handle of a new ref, forked from the version `at`; it must not exist."""
    problem = f"cannot make a branch of {shown_name(table)}: others kept removing its files"
    attempts = Attempts(problem, FEW_ATTEMPTS)
    while True:
        attempts.begin()
        forked = await asked(
            f"make a branch of {shown_name(table)}",
            handle.branches.create(ref, at.ref, at.version),
        )
        if await _is_whole(handle, table, ref):
            return forked
        # Another process dropped the last ref of the directory, and with it our files, not yet
        # known.
        await drop(handle, table, ref)


async def drop(handle: Any, table: str, ref: str) -> None:
    """Delete an existing ref without forks of its own, and the data of it alone."""
    await asked(f"delete a branch of {shown_name(table)}", handle.branches.delete(ref))


async def clear(handle: Any, table: str, ref: str) -> None:
    """Delete the files of a missing ref, whose process was killed creating or deleting it.

    The engine drops a directory with the last ref below it, so this creates one there.
    """
    below = f"{ref}/{uuid.uuid4().hex}"
    with translated(f"remove what is left of a branch of {shown_name(table)}"):
        await handle.branches.create(below, None, await handle.version())
        await handle.branches.delete(below)


async def clear_all(handle: Any, table: str) -> list[str]:
    """Finish clearings that were killed; returns the existing refs."""
    found = await _listed(handle, table)
    for ref in filter(_is_below, found):
        await drop(handle, table, ref)
    return [ref for ref in found if not _is_below(ref)]


async def versions_of(handle: Any, table: str) -> list[dict[str, Any]]:
    """The engine's list of the versions of the handle's ref.

    Raises NotFoundError if empty: others have removed the ref.
    """
    action = f"list the versions of {shown_name(table)}"
    # The engine fails if one is removed while it lists them.
    found: list[dict[str, Any]] = await retried(
        handle.list_versions, on=StorageError, meant=partial(meant, action)
    )
    if not found:
        ref = handle.current_branch()
        what = f"on {named(ref)} " if ref else ""
        raise NotFoundError(
            f"{shown_name(table)} has no versions {what}any more: open the store again"
        )
    return found


async def has_version(handle: Any, table: str, ref: str | None, version: int) -> bool:
    """Whether that version of a ref exists; others may have removed it; 0 is none."""
    if version == 0:
        return False
    # Not from the list of all: the engine fails to make it while others remove some.
    try:
        (await opened(handle, table, ref, version)).close()
    except NotFoundError:
        return False
    except StorageError as error:
        if not is_missing_file(error):
            raise
        return False
    return True


async def opened(handle: Any, table: str, ref: str | None, version: int | None = None) -> Any:
    """A handle of an existing ref; with `version`, for reading that one."""
    action = f"open a branch of {shown_name(table)}"
    return await asked(action, handle.branches.checkout(ref or MAIN, version))


def _is_below(ref: str) -> bool:
    """Whether `clear` created it."""
    return ref.count("/") > 1


async def _is_whole(handle: Any, table: str, ref: str) -> bool:
    try:
        (await opened(handle, table, ref)).close()
    except StorageError as error:
        if not is_damage(error):
            raise
        return False
    return True


async def _listed(handle: Any, table: str) -> dict[str, At]:
    action = f"list the branches of {shown_name(table)}"
    # The engine fails if others delete a ref while it lists them.
    found = await retried(
        handle.branches.list, on=StorageError, attempts=FEW_ATTEMPTS, meant=partial(meant, action)
    )
    return {
        name: At(about["parent_branch"], int(about["parent_version"]))
        for name, about in found.items()
    }

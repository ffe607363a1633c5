"""Earlier moments of the store: by number, by tag, by branch, by time; and the way back to them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from lance_context_core.engine import reading, refs
from lance_context_core.engine.access import Pin
from lance_context_core.engine.applying import Changes
from lance_context_core.engine.errors import translated
from lance_context_core.engine.names import shown_name
from lance_context_core.engine.refs import At
from lance_context_core.engine.revisions import new_revision
from lance_context_core.engine.schema import KEY, VECTOR, vector_length, vector_model
from lance_context_core.engine.table import Table
from lance_context_core.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
)
from lance_context_core.records import Version

_MAX_ATTEMPTS = 20

Ref = int | str | datetime
"""A version of the records, a tag or a branch, or a moment."""


@dataclass(frozen=True, slots=True)
class AtTag:
    """The store as a tag named it."""

    tag: str

    async def locate(self, name: str, handle: Any) -> At | None:
        """What the tag names of the table `name`; None if the table did not exist then."""
        line = refs.tagged(self.tag)
        at = (await refs.lines(handle, name)).get(line)
        if at is None:
            return None
        version = await (await refs.opened(handle, name, line)).version()
        # What is erased from under a tag is missing on its own line only.
        return await _rooted(handle, name, at) if version == at.version else At(line, version)


@dataclass(frozen=True, slots=True)
class AtHead:
    """The store as a branch has it, at the moment when it is asked for."""

    branch: str

    async def locate(self, name: str, handle: Any) -> At | None:
        """The newest version of the table `name` on the branch; None if it has none there."""
        line = refs.head(self.branch)
        if line is not None and line not in await refs.lines(handle, name):
            return None
        return At(line, await (await refs.opened(handle, name, line)).version())


@dataclass(frozen=True, slots=True)
class AtMoment:
    """One line of the store as it was at a moment, or, for some tables, at a version."""

    line: str | None
    moment: datetime
    numbers: Mapping[str, int]
    """The version of the tables for which it is known exactly."""

    async def locate(self, name: str, handle: Any) -> At | None:
        """The newest version of the table `name` at that moment; None if it did not exist."""
        if name in self.numbers:
            return await _rooted(handle, name, At(self.line, self.numbers[name]))
        if self.line is not None and self.line not in await refs.lines(handle, name):
            return None
        known = await _versions(handle, name, self.line)
        past = [version.number for version in known if version.created_at <= self.moment]
        return await _rooted(handle, name, At(self.line, max(past))) if past else None


async def pin(records: Table, ref: Ref) -> Pin:
    """The moment that `ref` names; `records` is the table that versions are counted by.

    A number or a time is one of the line that `records` is on. Raises NotFoundError if there is no
    such version, tag or branch, or if the line is younger than the moment.
    """
    handle = await records.reader()
    if isinstance(ref, str):
        return await _named(records.name, handle, ref)
    known = [] if handle is None else await _versions(handle, records.name, records.line)
    if isinstance(ref, datetime):
        if ref.utcoffset() is None:
            raise InvalidRequestError(f"{ref!r} has no time zone: pass an aware datetime")
        if not known or known[0].created_at > ref:
            first = known[0].created_at.isoformat() if known else "never"
            raise NotFoundError(f"nothing was stored at {ref.isoformat()}: first write {first}")
        return AtMoment(records.line, ref, {})
    if isinstance(ref, bool) or not isinstance(ref, int):
        raise InvalidRequestError(
            f"{ref!r} is no version: pass a number, a tag, a branch or a datetime"
        )
    for version in known:
        if version.number == ref:
            return AtMoment(records.line, version.created_at, {records.name: ref})
    span = f"{known[0].number} to {known[-1].number}" if known else "none yet"
    raise NotFoundError(f"version {ref} does not exist: versions are {span}")


async def versions(table: Table) -> list[Version]:
    """All versions of a table's line that are kept, oldest first, with their tags."""
    handle = await table.reader()
    if handle is None:
        return []
    names: dict[int, list[str]] = {}
    for tag, at in (await _tags(handle, table.name)).items():
        if at.line == table.line:
            names.setdefault(at.version, []).append(tag)
    return [
        Version(
            number=version.number,
            created_at=version.created_at,
            tags=tuple(sorted(names.get(version.number, ()))),
        )
        for version in await _versions(handle, table.name, table.line)
    ]


async def tags(table: Table) -> dict[str, At]:
    """What each tag names."""
    handle = await table.reader()
    return {} if handle is None else await _tags(handle, table.name)


async def move_tag(table: Table, tag: str, at: At) -> None:
    """Name a version, whatever the tag named before."""
    handle, line = await table.writer(), refs.tagged(tag)
    named = (await refs.lines(handle, table.name)).get(line)
    if named == at:
        return
    if named is not None:
        await table.drop(line)
    await table.fork(line, at)


async def delete_tag(table: Table, tag: str) -> bool:
    """Forget a tag; the version stays. Returns whether the tag existed."""
    handle = await table.reader()
    if handle is None or tag not in await _tags(handle, table.name):
        return False
    await table.drop(refs.tagged(tag))
    return True


async def restore(table: Table, moment: Pin) -> None:
    """Make the table what it was, as a new version; empty if it did not exist then."""
    handle = await table.writer()
    with translated(f"restore {table.label}"):
        # What others wrote meanwhile is undone too.
        await handle.checkout_latest()
    at = await moment.locate(table.name, handle)
    with translated(f"restore {table.label}"):
        if at is None:
            await handle.delete("true")
        elif at.line == table.line and at.version != await handle.version():
            await handle.restore(at.version)
    if at is not None and at.line != table.line:
        await _imitate(table, handle, at)
    await table.complete(handle)
    await table.sync(handle)


async def _imitate(table: Table, handle: Any, at: At) -> None:
    """Make the table equal to what another line has, in content and in order, in one commit."""
    source = await refs.opened(handle, table.name, at.line, at.version)
    schema = await source.schema()
    if VECTOR in schema.names:
        field = schema.field(VECTOR)
        await table.ensure_vectors(vector_length(field), vector_model(field))
    for _ in range(_MAX_ATTEMPTS):
        with translated(f"restore {table.label}"):
            changes = await _changes(handle, source)
        if not changes or await table.apply(changes) == changes.expected:
            return
        with translated(f"restore {table.label}"):
            await handle.checkout_latest()
    raise ConflictError(f"{table.label} kept being changed by others: try again")


async def _changes(handle: Any, source: Any) -> Changes:
    """What makes the one the other.

    The longest beginning of the source that stands here in the same order stays; what comes after
    is added anew, since the order of rows is that of their commits.
    """
    here = (await reading.scan(handle, None, [KEY, "revision"])).to_pylist()
    there = await reading.scan(source, None, [KEY, "revision"])
    places = {(row[KEY], row["revision"]): place for place, row in enumerate(here)}
    wanted = [(row[KEY], row["revision"]) for row in there.to_pylist()]
    n_kept, last = 0, -1
    while n_kept < len(wanted) and places.get(wanted[n_kept], -1) > last:
        last = places[wanted[n_kept]]
        n_kept += 1
    kept = set(wanted[:n_kept])
    row_ids = there["_rowid"].to_pylist()[n_kept:]
    names = (await source.schema()).names
    rows = await reading.take(source, row_ids, names) if row_ids else there.slice(0, 0)
    if row_ids:
        # A row that goes and comes back at once must not be taken for the one that stays.
        revisions = [new_revision() if one in places else one[1] for one in wanted[n_kept:]]
        index = rows.column_names.index("revision")
        rows = rows.set_column(index, rows.schema.field(index), [revisions])
    removed = [one for one in places if one not in kept]
    return Changes(rows=rows, removed=removed, on=(KEY, "revision"))


async def _named(name: str, handle: Any, ref: str) -> Pin:
    if ref == refs.MAIN and handle is not None:
        return AtHead(ref)
    lines = {} if handle is None else await refs.lines(handle, name)
    if refs.tagged(ref) in lines:
        return AtTag(ref)
    if refs.head(ref) in lines:
        return AtHead(ref)
    tags = sorted(tag for line in lines if (tag := refs.tag_of(line)))
    branches = sorted(one for line in lines if (one := refs.branch_of(line)))
    raise NotFoundError(
        f"tag {ref!r} does not exist, nor a branch of that name: "
        f"there are the tags {tags} and the branches {[refs.MAIN, *branches]}"
    )


async def _tags(handle: Any, name: str) -> dict[str, At]:
    lines = await refs.lines(handle, name)
    return {tag: at for line, at in lines.items() if (tag := refs.tag_of(line))}


async def _listed(handle: Any, name: str) -> list[dict[str, Any]]:
    for _ in range(_MAX_ATTEMPTS - 1):
        # One that others remove while all are listed makes the engine fail.
        with suppress(StorageError), translated(f"list the versions of {shown_name(name)}"):
            listed: list[dict[str, Any]] = await handle.list_versions()
            return listed
    with translated(f"list the versions of {shown_name(name)}"):
        return list(await handle.list_versions())


async def _versions(handle: Any, name: str, line: str | None) -> list[Version]:
    """All versions of a line, ascending; the first is the one that the line was made from."""
    lines = await refs.lines(handle, name)
    at = None if line is None else lines[line]
    opened = await refs.opened(handle, name, line)
    listed = await _listed(opened, name)
    found = {
        # The engine gives local time without its zone.
        about["version"]: Version(
            number=about["version"], created_at=about["timestamp"].astimezone(UTC)
        )
        for about in listed
    }
    for number, kept in refs.kept_of(str(refs.branch_of(line)), lines).items():
        found.setdefault(number, Version(number=number, created_at=refs.moment_of(kept)))
    if at is not None and min(found) > at.version:
        # What a line begins with is held on the line that it was made from, and there alone.
        before = await _versions(handle, name, at.line)
        found.update({one.number: one for one in before if one.number == at.version})
    return [found[number] for number in sorted(found)]


async def _rooted(handle: Any, name: str, at: At) -> At:
    """Where to find what `at` names, which may not be left on its own line.

    The first version of a line may only be on its parent, and one without rows on the line that
    keeps it.
    """
    lines = await refs.lines(handle, name)
    kept = refs.kept_of(str(refs.branch_of(at.line)), lines).get(at.version)
    root = None if at.line is None else lines[at.line]
    is_first = root is not None and root.version >= at.version
    if not kept and not is_first:
        return at
    opened = await refs.opened(handle, name, at.line)
    if any(about["version"] == at.version for about in await _listed(opened, name)):
        return at
    return At(kept, at.version) if kept else await _rooted(handle, name, cast(At, root))

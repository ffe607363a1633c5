"""Earlier moments of the store: by number, by tag, by branch, by time; and the way back to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lance_context_core.engine import refs
from lance_context_core.engine.errors import translated
from lance_context_core.engine.names import shown_name
from lance_context_core.engine.refs import At
from lance_context_core.engine.table import Pin, Table
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.records import Version

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
        return at if version == at.version else At(line, version)


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
            return At(self.line, self.numbers[name])
        if self.line is not None:
            if self.line not in await refs.lines(handle, name):
                return None
            handle = await refs.opened(handle, name, self.line)
        past = [v.number for v in await _versions(handle, name) if v.created_at <= self.moment]
        return At(self.line, max(past)) if past else None


async def pin(records: Table, ref: Ref) -> Pin:
    """The moment that `ref` names; `records` is the table that versions are counted by.

    A number or a time is one of the line that `records` is on. Raises NotFoundError if there is no
    such version, tag or branch, or if the line is younger than the moment.
    """
    handle = await records.reader()
    if isinstance(ref, str):
        return await _named(records.name, handle, ref)
    known = [] if handle is None else await _versions(handle, records.name)
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
        for version in await _versions(handle, table.name)
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
        await refs.drop(handle, table.name, line)
    await refs.fork(handle, table.name, line, at)


async def delete_tag(table: Table, tag: str) -> bool:
    """Forget a tag; the version stays. Returns whether the tag existed."""
    handle = await table.reader()
    if handle is None or tag not in await _tags(handle, table.name):
        return False
    await refs.drop(await table.writer(), table.name, refs.tagged(tag))
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
        elif at.line != table.line:
            raise InvalidRequestError("cannot restore what is on another branch: merge it")
        elif at.version != await handle.version():
            await handle.restore(at.version)
    await table.complete(handle)


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


async def _versions(handle: Any, name: str) -> list[Version]:
    with translated(f"list the versions of {shown_name(name)}"):
        listed = await handle.list_versions()
    found = [
        # The engine gives local time without its zone.
        Version(number=about["version"], created_at=about["timestamp"].astimezone(UTC))
        for about in listed
    ]
    return sorted(found, key=lambda version: version.number)

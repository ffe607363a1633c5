"""Earlier moments of the store: by number, by tag, by time; and the way back to them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lance_context_core._json import check_name, shown
from lance_context_core.engine.errors import translated
from lance_context_core.engine.names import shown_name
from lance_context_core.engine.table import Pin, Table
from lance_context_core.errors import (
    InvalidRequestError,
    NotFoundError,
)
from lance_context_core.records import Version

# The engine accepts letters outside ASCII too, and then cannot list its tags any more.
_TAG = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,198}[A-Za-z0-9_-])?")

Ref = int | str | datetime
"""A version of the records, a tag, or a moment."""


@dataclass(frozen=True, slots=True)
class AtTag:
    """The store as a tag named it."""

    tag: str

    async def version_of(self, name: str, handle: Any) -> int | None:
        """The version of the table `name` that the tag names; None if it did not exist."""
        with translated(f"read the tags of {shown_name(name)}"):
            tags = await handle.tags.list()
        return int(tags[self.tag]["version"]) if self.tag in tags else None


@dataclass(frozen=True, slots=True)
class AtMoment:
    """The store as it was at a moment, or, for some tables, at a version."""

    moment: datetime
    numbers: Mapping[str, int]
    """The version of the tables for which it is known exactly."""

    async def version_of(self, name: str, handle: Any) -> int | None:
        """The newest version of the table `name` at that moment; None if it did not exist."""
        if name in self.numbers:
            return self.numbers[name]
        past = [v.number for v in await _versions(handle, name) if v.created_at <= self.moment]
        return max(past, default=None)


async def pin(records: Table, ref: Ref) -> Pin:
    """The moment that `ref` names; `records` is the table that versions are counted by.

    Raises NotFoundError if there is no such version or tag, or if the store is younger than the
    moment.
    """
    handle = await records.reader()
    if isinstance(ref, str):
        tags = {} if handle is None else await _tags(handle, records.name)
        if ref not in tags:
            raise NotFoundError(
                f"tag {ref!r} does not exist: there are {sorted(tags) or 'no tags'}"
            )
        return AtTag(ref)
    known = [] if handle is None else await _versions(handle, records.name)
    if isinstance(ref, datetime):
        if ref.utcoffset() is None:
            raise InvalidRequestError(f"{ref!r} has no time zone: pass an aware datetime")
        if not known or known[0].created_at > ref:
            first = known[0].created_at.isoformat() if known else "never"
            raise NotFoundError(f"nothing was stored at {ref.isoformat()}: first write {first}")
        return AtMoment(ref, {})
    if isinstance(ref, bool) or not isinstance(ref, int):
        raise InvalidRequestError(f"{ref!r} is no version: pass a number, a tag or a datetime")
    for version in known:
        if version.number == ref:
            return AtMoment(version.created_at, {records.name: ref})
    span = f"{known[0].number} to {known[-1].number}" if known else "none yet"
    raise NotFoundError(f"version {ref} does not exist: versions are {span}")


async def versions(table: Table) -> list[Version]:
    """All versions of a table that are kept, oldest first, with their tags."""
    handle = await table.reader()
    if handle is None:
        return []
    names: dict[int, list[str]] = {}
    for tag, number in (await _tags(handle, table.name)).items():
        names.setdefault(number, []).append(tag)
    return [
        Version(
            number=version.number,
            created_at=version.created_at,
            tags=tuple(sorted(names.get(version.number, ()))),
        )
        for version in await _versions(handle, table.name)
    ]


def check_tag(name: object) -> str:
    """`name`, if a tag may be called so; raises InvalidRequestError if not.

    It has 1 to 200 of the letters a to z and A to Z, digits, `.`, `-` and `_`; dots stand neither
    at its ends nor side by side, and `.lock` is no ending.
    """
    text = check_name(name, "name")
    if not _TAG.fullmatch(text) or ".." in text or text.endswith(".lock"):
        raise InvalidRequestError(
            f"name={shown(text)} is no name for a tag: use up to 200 ASCII letters, digits, '-', "
            "'_', and single dots between them"
        )
    return text


async def tags(table: Table) -> dict[str, int]:
    """The version that each tag names."""
    handle = await table.reader()
    return {} if handle is None else await _tags(handle, table.name)


async def move_tag(table: Table, tag: str, version: int) -> None:
    """Name a version, whatever the tag named before."""
    handle = await table.writer()
    with translated(f"tag {table.label}"):
        if tag in await _tags(handle, table.name):
            await handle.tags.update(tag, version)
        else:
            await handle.tags.create(tag, version)


async def delete_tag(table: Table, tag: str) -> bool:
    """Forget a tag; the version stays. Returns whether the tag existed."""
    handle = await table.reader()
    if handle is None or tag not in await _tags(handle, table.name):
        return False
    with translated(f"delete a tag of {table.label}"):
        await (await table.writer()).tags.delete(tag)
    return True


async def restore(table: Table, moment: Pin) -> None:
    """Make the table what it was, as a new version; empty if it did not exist then."""
    handle = await table.writer()
    with translated(f"restore {table.label}"):
        # What others wrote meanwhile is undone too.
        await handle.checkout_latest()
    version = await moment.version_of(table.name, handle)
    with translated(f"restore {table.label}"):
        if version is None:
            await handle.delete("true")
        elif version != await handle.version():
            await handle.restore(version)
    await table.complete(handle)


async def _tags(handle: Any, name: str) -> dict[str, int]:
    with translated(f"read the tags of {shown_name(name)}"):
        return {tag: int(about["version"]) for tag, about in (await handle.tags.list()).items()}


async def _versions(handle: Any, name: str) -> list[Version]:
    with translated(f"list the versions of {shown_name(name)}"):
        listed = await handle.list_versions()
    found = [
        # The engine gives local time without its zone.
        Version(number=about["version"], created_at=about["timestamp"].astimezone(UTC))
        for about in listed
    ]
    return sorted(found, key=lambda version: version.number)

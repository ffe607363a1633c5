"""Time travel: versions by number, tag, branch or time, and restoring them."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.errors import (
    InternalError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
)
from lance_context_core.storage.lance import branches as refs
from lance_context_core.storage.lance import manifests, reads
from lance_context_core.storage.lance.branches import At, Pin
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.schema import KEY, VECTOR, vector_length, vector_model
from lance_context_core.storage.names import new_revision
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import WriteBatch
from lance_context_core.types import Version

# The times of a ref's versions, from the files of a directory.
#
# The engine reads the manifests of all versions to tell the time of one. On an object store, and in
# memory, no other way exists.


@frozen
class Moments:
    """The versions whose manifests are in one directory."""

    directory: Path

    async def numbers(self) -> list[int]:
        """The numbers of the versions, ascending; reads no file."""
        return await asyncio.to_thread(manifests.versions, self.directory)

    async def of(self, numbers: Sequence[int]) -> dict[int, datetime]:
        """When these versions were made; without those removed meanwhile."""
        return await asyncio.to_thread(self._of, numbers)

    async def last_before(self, moment: datetime, numbers: Sequence[int]) -> int | None:
        """The last of these ascending versions that was made by then.

        Reads a few of them: each is later than the previous one. 0 if none was; None if one of
        those read was removed meanwhile.
        """
        return await asyncio.to_thread(self._last_before, moment, numbers)

    def _of(self, numbers: Sequence[int]) -> dict[int, datetime]:
        found = {}
        for number in numbers:
            if (moment := manifests.created_at(self.directory, number)) is not None:
                found[number] = moment
        return found

    def _last_before(self, moment: datetime, numbers: Sequence[int]) -> int | None:
        def made(number: int) -> datetime:
            if (at := manifests.created_at(self.directory, number)) is None:
                raise FileNotFoundError
            return at

        try:
            place = bisect_right(numbers, moment, key=made)
        except FileNotFoundError:
            return None
        return numbers[place - 1] if place else 0


async def moments_of_ref(handle: Any, ref: str | None) -> Moments | None:
    """The versions of a ref of the table of `handle`, if in a directory."""
    root = Path(await handle.uri())
    if not root.is_absolute():
        return None
    return Moments(root if ref is None else root / "tree" / ref)


Ref = int | str | datetime
"""A version of the records, a tag or a branch, or a moment."""


@frozen
class AtTag:
    """The store at a tag."""

    tag: str
    records: Table

    async def locate(self, name: str, handle: Any) -> At | None:
        """The tag's version of the table `name`; None if the table did not exist then.

        Raises NotFoundError if the tag was deleted since.
        """
        ref = refs.tagged(self.tag)
        at = (await refs.listed(handle, name)).get(ref)
        if at is None:
            await _require(self.records, ref)
            return None
        version = await (await refs.opened(handle, name, ref)).version()
        # An erasure under a tag removes rows on the tag's own ref only.
        return await _rooted(handle, name, at) if version == at.version else At(ref, version)


@frozen
class AtHead:
    """The current state of a branch, at the time of the call."""

    branch: str
    records: Table

    async def locate(self, name: str, handle: Any) -> At | None:
        """The newest version of the table `name` on the branch; None if it has none.

        Raises NotFoundError if the branch was deleted since.
        """
        ref = refs.head(self.branch)
        if ref is not None and ref not in await refs.listed(handle, name):
            await _require(self.records, ref)
            return None
        return At(ref, await (await refs.opened(handle, name, ref)).version())


@frozen
class AtMoment:
    """One ref of the store at a moment, or, for some tables, at a version."""

    ref: str | None
    moment: datetime
    numbers: Mapping[str, int]
    """The versions of the tables for which it is known exactly."""

    async def locate(self, name: str, handle: Any) -> At | None:
        """The newest version of the table `name` then; None if it did not exist."""
        if name in self.numbers:
            return await _rooted(handle, name, At(self.ref, self.numbers[name]))
        if self.ref is not None and self.ref not in await refs.listed(handle, name):
            return None
        number = await _last_before(handle, name, self.ref, self.moment)
        return None if number is None else await _rooted(handle, name, At(self.ref, number))


class AtNumber:
    """One ref of the store at a version of its records, whose moment is read lazily.

    Only other tables need the moment: on an object store it requires reading all versions.
    """

    def __init__(self, records: Table, number: int) -> None:
        """At the version of that number, which exists."""
        self._records = records
        self._number = number
        self._moment: datetime | None = None

    async def locate(self, name: str, handle: Any) -> At | None:
        """The newest version of the table `name` then; None if it did not exist."""
        ref = self._records.ref
        if name == self._records.name:
            return await _rooted(handle, name, At(ref, self._number))
        if self._moment is None:
            known = await versions(self._records, limit=1, before=self._number + 1)
            if not known or known[-1].number != self._number:
                raise NotFoundError(
                    f"version {self._number} was pruned: list the existing ones with versions()"
                )
            self._moment = known[-1].created_at
        return await AtMoment(ref, self._moment, {}).locate(name, handle)


async def pin(records: Table, ref: Ref) -> Pin:
    """The moment of `ref`; `records` is the table whose versions count.

    A number or a time is one of the branch of `records`. Raises NotFoundError if no such version,
    tag or branch exists, or if the branch is younger than the moment.
    """
    handle = await records.access.reader()
    if isinstance(ref, str):
        return await _named(records, handle, ref)
    name, current = records.name, records.ref
    if isinstance(ref, datetime):
        if ref.utcoffset() is None:
            raise InvalidRequestError(f"{ref!r} has no time zone: pass an aware datetime")
        number = None if handle is None else await _last_before(handle, name, current, ref)
        if number is not None:
            return AtMoment(current, ref, {name: number})
        known = [] if handle is None else await _versions(handle, name, current)
        first = known[0].created_at.isoformat() if known else "never"
        raise NotFoundError(f"nothing was stored at {ref.isoformat()}: first write {first}")
    if isinstance(ref, bool) or not isinstance(ref, int):
        raise InvalidRequestError(
            f"{ref!r} is not a version: pass a number, a tag, a branch or a datetime"
        )
    if handle is not None:
        is_there = await _is_there(handle, name, current, ref)
        named = (await records.access.names()).get(ref, ref)
        # An earlier one only if the other never came about.
        if (named > ref or not is_there) and await _is_there(handle, name, current, named):
            return AtNumber(records, named)
        if is_there:
            return AtNumber(records, ref)
    known = [] if handle is None else await _versions(handle, name, current)
    for version in known:
        if version.number == ref:
            return AtMoment(current, version.created_at, {name: ref})
    raise NotFoundError(_lacking(ref, [one.number for one in known]))


def _lacking(number: int, kept: Sequence[int]) -> str:
    """Why the kept versions, ascending, lack that number, and the remedy."""
    if not kept:
        return f"version {number} does not exist: nothing was written yet"
    if not 0 < number < kept[-1]:
        return f"version {number} does not exist: the newest is {kept[-1]}"
    place = bisect_left(kept, number)
    near = " and ".join(map(str, kept[max(place - 1, 0) : place + 1]))
    return f"version {number} was pruned; the nearest: {near}. Tags protect versions"


async def versions(
    table: Table, *, limit: int | None = None, before: int | None = None
) -> list[Version]:
    """The kept versions of a table's ref, oldest first, with their tags.

    With `limit` the newest ones, of those whose number is less than `before`. Leaves out a version
    whose number was reported for a later one.
    """
    for what, value in (("limit", limit), ("before", before)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise InvalidRequestError(f"{what}={value!r}: give a whole number")
    if limit is not None and limit < 0:
        raise InvalidRequestError(f"limit={limit!r}: give a whole number, 0 or more")
    handle = await table.access.reader()
    if handle is None:
        return []
    meaning = await table.access.names()
    elsewhere = {told for told, number in meaning.items() if number > told}
    elsewhere.difference_update(meaning.values())
    names: dict[int, list[str]] = {}
    for tag, at in (await _tags(handle, table.name)).items():
        if at.ref == table.ref:
            names.setdefault(at.version, []).append(tag)
    return [
        Version(
            number=version.number,
            created_at=version.created_at,
            tags=tuple(sorted(names.get(version.number, ()))),
        )
        for version in await _versions(
            handle, table.name, table.ref, limit=limit, before=before, but=elsewhere
        )
    ]


async def tags(table: Table) -> dict[str, At]:
    """The version of each tag."""
    handle = await table.access.reader()
    return {} if handle is None else await _tags(handle, table.name)


async def move_tag(table: Table, tag: str, at: At) -> None:
    """Set a tag to a version, new or moved."""
    handle, ref = await table.access.writer(), refs.tagged(tag)
    named = (await refs.listed(handle, table.name)).get(ref)
    if named == at:
        return
    if named is not None:
        await table.access.drop(ref)
    await table.access.fork(ref, at)


async def delete_tag(table: Table, tag: str) -> bool:
    """Delete a tag; the version stays. Returns whether the tag existed."""
    handle = await table.access.reader()
    if handle is None or tag not in await _tags(handle, table.name):
        return False
    await table.access.drop(refs.tagged(tag))
    return True


async def restore(table: Table, at: At | None) -> None:
    """Restore the table to that state, in a new version; empty without such a state."""
    handle = await table.access.writer()
    async with table.access.commits.committing(handle):
        with translated(f"restore {table.label}"):
            # It also undoes what others wrote meanwhile.
            await handle.checkout_latest()
        version = await handle.version()

        async def go_back(handle: Any) -> None:
            if at is None:
                await handle.delete("true")
            elif at.ref == table.ref and at.version != version:
                await handle.restore(at.version)

        await table.access.commits.insist(f"restore {table.label}", handle, go_back)
        if at is not None and at.ref != table.ref:
            await _imitate(table, handle, at)
        await table.access.complete(handle)
    await table.access.commits.sync(handle)


async def _imitate(table: Table, handle: Any, at: At) -> None:
    """Make the table equal to another ref, in content and order, in one commit."""
    source = await refs.opened(handle, table.name, at.ref, at.version)
    schema = await source.schema()
    if VECTOR in schema.names:
        field = schema.field(VECTOR)
        await table.vectors.ensure(vector_length(field), vector_model(field))
    attempts = Attempts(f"{table.label} kept being changed by others")
    while True:
        attempts.begin()
        with translated(f"restore {table.label}"):
            changes = await _changes(handle, source)
        if not changes.n_rows:
            return
        # Of a key with two rows, one is deleted at a time.
        if (await table.write(changes)).is_done and not table.spec.repeats_keys:
            return
        with translated(f"restore {table.label}"):
            await handle.checkout_latest()


async def _changes(handle: Any, source: Any) -> WriteBatch:
    """The changes that make one table equal to the other.

    The longest common beginning in the source's order stays; later rows are added again, since the
    order of rows is that of their commits.
    """
    here = (await reads.scan(handle, None, [KEY, "revision"])).to_pylist()
    there = await reads.scan(source, None, [KEY, "revision"])
    places = {(row[KEY], row["revision"]): place for place, row in enumerate(here)}
    wanted = [(row[KEY], row["revision"]) for row in there.to_pylist()]
    n_kept, last = 0, -1
    while n_kept < len(wanted) and places.get(wanted[n_kept], -1) > last:
        last = places[wanted[n_kept]]
        n_kept += 1
    kept = set(wanted[:n_kept])
    row_ids = there["_rowid"].to_pylist()[n_kept:]
    names = (await source.schema()).names
    rows = await reads.take(source, row_ids, names) if row_ids else there.slice(0, 0)
    if row_ids:
        # A row that is deleted and added at once must not be taken for a row that stays.
        revisions = [new_revision() if one in places else one[1] for one in wanted[n_kept:]]
        index = rows.column_names.index("revision")
        rows = rows.set_column(index, rows.schema.field(index), [revisions])
    removed = {key: revision for key, revision in places if (key, revision) not in kept}
    return WriteBatch(bulk=rows, deletes=removed, expect=removed, is_whole=False)


async def _require(records: Table, ref: str) -> None:
    """Raise NotFoundError unless the store has that branch or tag, by its records."""
    handle = await records.access.peek()
    refs.fork_of(ref, {} if handle is None else await refs.listed(handle, records.name))


async def _named(records: Table, handle: Any, ref: str) -> Pin:
    if ref == refs.MAIN and handle is not None:
        return AtHead(ref, records)
    forks = {} if handle is None else await refs.listed(handle, records.name)
    if refs.tagged(ref) in forks:
        return AtTag(ref, records)
    if refs.head(ref) in forks:
        return AtHead(ref, records)
    tags = sorted(tag for one in forks if (tag := refs.tag_of(one)))
    branches = sorted(branch for one in forks if (branch := refs.branch_of(one)))
    raise NotFoundError(
        f"tag {ref!r} does not exist, nor a branch of that name: "
        f"there are the tags {tags} and the branches {[refs.MAIN, *branches]}"
    )


async def _tags(handle: Any, name: str) -> dict[str, At]:
    forks = await refs.listed(handle, name)
    return {tag: at for ref, at in forks.items() if (tag := refs.tag_of(ref))}


async def _versions(
    handle: Any,
    name: str,
    ref: str | None,
    *,
    limit: int | None = None,
    before: int | None = None,
    but: Collection[int] = (),
) -> list[Version]:
    """Versions of a ref, ascending; the first is the one that it was forked from."""
    forks = await refs.listed(handle, name)
    at = None if ref is None else refs.fork_of(ref, forks)
    kept = refs.kept_of(str(refs.branch_of(ref)), forks)
    made = {number: refs.moment_of(one) for number, one in kept.items()}
    files = await moments_of_ref(handle, ref)
    if files is None:
        made |= await _told(handle, name, ref)
        numbers = {*made}
    else:
        numbers = {*made, *await files.numbers()}
    if at is not None and (not numbers or min(numbers) > at.version):
        # The first version of a ref is held only on the ref that it was forked from.
        root = await _versions(handle, name, at.ref, limit=1, before=at.version + 1)
        made |= {one.number: one.created_at for one in root if one.number == at.version}
        numbers |= made.keys()
    wanted = sorted(one for one in numbers if (before is None or one < before) and one not in but)
    wanted = wanted[max(len(wanted) - limit, 0) :] if limit is not None else wanted
    if files is not None:
        made |= await files.of([one for one in wanted if one not in made])
        if wanted and not made.keys() & {*wanted}:
            made |= await _told(handle, name, ref)
    return [Version(number=one, created_at=made[one]) for one in wanted if one in made]


async def _told(handle: Any, name: str, ref: str | None) -> dict[int, datetime]:
    """When the versions of a ref were made, by the engine, if their manifests exist."""
    opened = await refs.opened(handle, name, ref)
    # The engine gives local time without its zone.
    return {
        about["version"]: about["timestamp"].astimezone(UTC)
        for about in await refs.versions_of(opened, name)
    }


async def _last_before(handle: Any, name: str, ref: str | None, moment: datetime) -> int | None:
    """The newest version of a ref made by then; None if none was."""
    if (files := await moments_of_ref(handle, ref)) is not None:
        found = await files.last_before(moment, await files.numbers())
        forks = await refs.listed(handle, name)
        kept = refs.kept_of(str(refs.branch_of(ref)), forks).items()
        past = [number for number, one in kept if refs.moment_of(one) <= moment]
        # Before its own first version a branch has that of its parent.
        if found or (found == 0 and ref is None):
            return max([*past, found]) or None
    known = await _versions(handle, name, ref)
    past = [one.number for one in known if one.created_at <= moment]
    return max(past) if past else None


async def _is_there(handle: Any, name: str, ref: str | None, number: int) -> bool:
    """Whether a version can be opened, without reading any other."""
    if number < 1:
        return False
    try:
        (await refs.opened(handle, name, ref, number)).close()
    except (NotFoundError, StorageError, InternalError, InvalidRequestError):
        return False
    return True


async def _rooted(handle: Any, name: str, at: At) -> At:
    """The location of `at`, which may not be on its own ref.

    The first version of a ref may only be on its parent, and one without rows on the ref that keeps
    it.
    """
    forks = await refs.listed(handle, name)
    kept = refs.kept_of(str(refs.branch_of(at.ref)), forks).get(at.version)
    root = None if at.ref is None else refs.fork_of(at.ref, forks)
    is_first = root is not None and root.version >= at.version
    if not kept and not is_first:
        return at
    opened = await refs.opened(handle, name, at.ref)
    if any(about["version"] == at.version for about in await refs.versions_of(opened, name)):
        return at
    return At(kept, at.version) if kept else await _rooted(handle, name, cast(At, root))

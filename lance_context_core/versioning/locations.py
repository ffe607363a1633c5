"""Operations on the whole store, all tables and scopes: tags, branches and restore."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_name
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import FEW_ATTEMPTS
from lance_context_core.codecs.records import COLUMNS, from_row
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    ContextStoreError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
)
from lance_context_core.scope import Scope
from lance_context_core.storage import database as db
from lance_context_core.storage import store_locks
from lance_context_core.storage.database import RECORDS_TABLE
from lance_context_core.storage.lance import branches, versions
from lance_context_core.storage.lance import diff as comparing
from lance_context_core.storage.lance.branches import At
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.lance.errors import may_pass
from lance_context_core.storage.lance.schema import KEY, VECTOR
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.storage.names import collection_of, kv_of
from lance_context_core.storage.table import Table
from lance_context_core.types import ContextRecord, Diff, RecordChange

# Whole-store operations run one after the other if they create, delete or walk branches and tags.

_PATIENCE_SECONDS = 600
"""How long an operation waits for its turn."""

_PAUSE_SECONDS = 0.005

_held: ContextVar[frozenset[object]] = ContextVar("lance_context_turns", default=frozenset())
"""The stores whose turn the caller holds: operations call others, and functions of the user."""


@asynccontextmanager
async def turn(
    connection: Connection, *, patience_seconds: float | None = None
) -> AsyncIterator[None]:
    """Holds the turn to create, delete or walk a store's branches and tags, against other processes.

    A half-made one looks like the remains of a crash, and would be removed. With a log on a server
    it excludes other machines, too. Object stores without one have no locks: there the turn excludes
    only tasks and threads with the same open store. Raises ConflictError, before anything is done,
    if others hold the turn for longer than `patience_seconds`, ten minutes by default; and
    StorageError if the server lost the turn meanwhile.
    """
    if patience_seconds is None:
        patience_seconds = _PATIENCE_SECONDS
    if connection.place in (held := _held.get()):
        yield
        return
    refusal = ConflictError(
        f"others have been naming, merging, thinning or erasing in {connection.uri!r} for "
        f"{patience_seconds:g} seconds: nothing was done, call again. A stopped process keeps "
        "its turn: end or resume it"
    )
    # One of the folders of the records, since commits to them lock others.
    folder = f"{RECORDS_TABLE}.lance/_transactions"
    has_locks = connection.root is not None or store_locks.is_of_server(connection)
    taking = (
        store_locks.locked(
            connection, folder, patience_seconds=patience_seconds, refusal=lambda: refusal
        )
        if has_locks
        else _in_this_process(connection, patience_seconds, refusal=lambda: refusal)
    )
    async with taking:
        token = _held.set(held | {connection.place})
        try:
            yield
        finally:
            _held.reset(token)


@asynccontextmanager
async def _in_this_process(
    connection: Connection, patience_seconds: float, *, refusal: Callable[[], Exception]
) -> AsyncIterator[None]:
    until = time.monotonic() + patience_seconds
    while not connection.turns.acquire(blocking=False):  # The waiters may share no loop.
        if time.monotonic() > until:
            raise refusal()
        await asyncio.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        connection.turns.release()


T = TypeVar("T")

NAMED = (
    *(db.RECORDS_TABLE, db.COLD_TABLE, db.SESSIONS_TABLE),
    *(db.DOCUMENTS_TABLE, db.BLOBS_TABLE, db.GRAPH_TABLE),
)
"""The tables that exist once a store."""


@frozen
class Whole:
    """The store as a whole.

    Everything here but `tables` raises InvalidRequestError in a scope, and ReadOnlyError at an
    earlier version.
    """

    resources: Resources
    scope: Scope

    async def tag(self, name: str, *, version: Ref | None = None) -> int:
        """Tags the current version, or another one, in every table; returns its number."""
        self.require("tag")
        self.resources.writable()
        branches.check_ref(name, "tag")
        await self.resources.records.access.writer()
        return await self.in_turn(lambda: self._tag(name, version))

    async def _tag(self, name: str, version: Ref | None) -> int:
        records = self.resources.records
        handle = await records.access.writer()
        if branches.head(name) in await branches.listed(handle, records.name):
            raise AlreadyExistsError(f"name={name!r} is a branch: choose another name for the tag")
        places = await self.places(version)
        here = places[records]
        existing = (await versions.tags(records)).get(name)
        if existing is not None and existing != here:
            raise AlreadyExistsError(
                f"tag {name!r} names version {existing.version} already: "
                "choose another name, or delete_tag() it first"
            )
        for table in await self.main().tables():
            if table.name not in {one.name for one in places}:
                await versions.delete_tag(table, name)  # remains of a crash
        for table, at in places.items():
            await versions.move_tag(table, name, at)
        return here.version

    async def places(self, ref: Ref | None) -> dict[Table, At]:
        """Returns each existing table's version at `ref`, or now.

        The records come last: something made in all tables exists once the records have it, and a
        crash before leaves nothing visible. Raises NotFoundError if there were no records.
        """
        await self.resources.settle()
        records = self.resources.records
        await records.access.writer()
        pin = None if ref is None else await versions.pin(records, ref)
        places = {}
        for table in sorted(await self.tables(), key=lambda table: table is records):
            handle = await table.access.writer()
            if pin is None:
                places[table] = At(table.ref, await table.version())
            elif (at := await pin.locate(table.name, handle)) and not branches.is_kept(at.ref):
                places[table] = at  # without rows then, it is as good as absent
        if records not in places:
            raise NotFoundError(f"there were no records at {ref!r}: nothing to name")
        return places

    async def tags(self) -> dict[str, int]:
        """Returns the version that each tag names."""
        named = await versions.tags(self.resources.records)
        return {tag: at.version for tag, at in named.items()}

    async def delete_tag(self, name: str) -> bool:
        """Deletes a tag in every table; returns whether it existed."""
        self.require("delete a tag")
        self.resources.writable()
        name = check_name(name, "name")
        gone: list[bool] = []

        async def delete() -> None:
            tables = await self.main().tables()
            tables.sort(key=lambda table: table.name != db.RECORDS_TABLE)
            for table in tables:
                await require_childless(table, branches.tagged(name), f"tag {name!r}")
            gone.extend([await versions.delete_tag(table, name) for table in tables])

        await self.in_turn(delete)
        return any(gone)

    async def restore(self, ref: Ref) -> int:
        """Restores every table as a new version; returns its number."""
        self.require("restore")
        self.resources.writable()
        return await self.in_turn(lambda: self._restore(ref))

    async def _restore(self, ref: Ref) -> int:
        await self.resources.settle()
        pin = await versions.pin(self.resources.records, ref)
        known = {table.name for table in await self.tables()}
        roots = await self.main().tables()
        # All of them before the first write: a tag or a branch may go meanwhile.
        places = [await pin.locate(root.name, await root.access.reader()) for root in roots]
        for root, at in zip(roots, places, strict=True):
            # A table that did not exist then, and does not exist now, need not be created.
            if root.name in known or at is not None:
                table = self.resources.database.table(root.name, root.spec)
                await versions.restore(table, at)
        return await self.resources.records.version()

    async def in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        """Returns the result of `work`, which creates, deletes, prunes or walks branches and tags.

        Such operations take turns. On an object store without a log other processes do not, and
        `work` may meet half-made ones: it is restarted. An error that occurs twice in the same way
        is not caused by them. Raises ConflictError if others hold the turn for ten minutes, or
        interfere again and again.
        """
        async with turn(self.resources.database.root.connection):
            failure: Exception | None = None
            for _ in range(FEW_ATTEMPTS):
                try:
                    return await work()
                except ContextStoreError as error:
                    if not may_pass(error) or str(error) == str(failure):
                        raise
                    failure = error
            raise ConflictError(
                f"others kept making or removing branches, tags or versions: call again ({failure})"
            ) from failure

    def main(self) -> "Whole":
        """Returns the store on its main branch."""
        return self.on(branches.MAIN)

    def on(self, branch: str) -> "Whole":
        """Returns the store on a branch, which should exist."""
        database = self.resources.current().on(branch)
        return replace(self, resources=replace(self.resources, database=database))

    async def tables(self) -> list[Table]:
        """Returns the existing tables of the store."""
        return self.tables_among(await self.resources.database.table_names())

    def tables_among(self, names: Iterable[str]) -> list[Table]:
        """Returns those of these names that are the store's."""
        database = self.resources.database
        return [
            database.table(name, db.spec_of(name))
            for name in names
            if name in NAMED or collection_of(name) is not None or kv_of(name) is not None
        ]

    async def tables_to(self, action: str) -> list[Table]:
        """Returns all tables, for `action`."""
        self.require(action)
        return await self.tables()

    def require(self, action: str) -> None:
        """Raises for a handle with a scope or an earlier version: it cannot do `action`."""
        if parts := self.scope.parts():
            raise InvalidRequestError(
                f"cannot {action} within a scope ({parts}): that concerns the whole store, "
                "do it through the store that was opened"
            )
        if isinstance(self.resources.database, db.PinnedDatabase):
            raise ReadOnlyError(
                f"cannot {action} at an earlier version: do it through the store that was opened"
            )


async def require_childless(
    table: Table, ref: str, what: str, *, but: Collection[str] = ()
) -> None:
    """Raises if a branch was created from a version of that ref: the ref holds its data."""
    if (handle := await table.access.reader()) is None:
        return
    for child, at in (await branches.listed(handle, table.name, with_gone=True)).items():
        if at.ref == ref and child not in but:
            raise InvalidRequestError(
                f"cannot delete {what}: {branches.owner_of(child)!r} was made from it, delete that first"
            )


# Differences between two versions, by record and by field.

_INCIDENTAL = ("updated_at", "author")
"""Columns about the author and time of a write, not its content."""

_COMPARED = [one.name for one in fields(ContextRecord) if one.name not in _INCIDENTAL]


async def diff(before: Table, after: Table, where: str | None) -> Diff:
    """Returns the rows added, changed and removed between two versions of a table.

    Of rows that were neither written nor moved it reads only the addresses.
    """
    old, new = await comparing.apart(before, after, where, columns=[KEY, "revision"])
    both = old.join(new, keys=KEY, right_suffix="_new", join_type="full outer")
    is_gone, is_new = pc.is_null(both["_rowid_new"]), pc.is_null(both["_rowid"])
    differs = pc.fill_null(pc.not_equal(both["revision"], both["revision_new"]), fill_value=False)
    changed = both.filter(differs).sort_by("_rowid_new")
    pairs = zip(
        await _read(before, changed, "_rowid"),
        await _read(after, changed, "_rowid_new"),
        strict=True,
    )
    changes = [RecordChange(before=a, after=b, fields=differing(a, b)) for a, b in pairs]
    return Diff(
        added=await _read(after, both.filter(is_new), "_rowid_new", in_order=True),
        changed=[change for change in changes if change.fields],
        removed=await _read(before, both.filter(is_gone), "_rowid", in_order=True),
    )


def differing(before: ContextRecord, after: ContextRecord) -> tuple[str, ...]:
    """Returns the differing fields in order, except the time and author of the update."""
    return tuple(name for name in _COMPARED if getattr(before, name) != getattr(after, name))


async def _read(
    table: Table, rows: pa.Table, row_ids: str, *, in_order: bool = False
) -> list[ContextRecord]:
    """Returns the records with these row ids, in their order, or in commit order."""
    wanted: Any = rows[row_ids].to_pylist()
    found = await table.take(sorted(wanted) if in_order else wanted, columns=[*COLUMNS, VECTOR])
    return [from_row(row) for row in found.to_pylist()]

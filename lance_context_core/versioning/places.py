"""What concerns the whole store, all of its tables and everybody's records: names, and going back."""

from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from lance_context_core._checks import check_name
from lance_context_core._resources import Resources
from lance_context_core._values import frozen
from lance_context_core.engine import database as db
from lance_context_core.engine.files.locks import locked
from lance_context_core.engine.names import collection_of, kv_of
from lance_context_core.engine.refs import refs, versions
from lance_context_core.engine.refs.refs import At
from lance_context_core.engine.refs.versions import Ref
from lance_context_core.engine.table.table import Table
from lance_context_core.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from lance_context_core.scope import Scope

NAMED = (
    *(db.RECORDS_TABLE, db.COLD_TABLE, db.SESSIONS_TABLE),
    *(db.DOCUMENTS_TABLE, db.BLOBS_TABLE, db.GRAPH_TABLE),
)
"""The tables of which there is one each."""

_PATIENCE_SECONDS = 600
"""How long who makes or removes a tag or a branch waits for another who does."""


@frozen
class Whole:
    """The store as one thing.

    Everything here but `tables` raises InvalidRequestError in a scope, and ReadOnlyError at an
    earlier version.
    """

    resources: Resources
    scope: Scope

    async def tag(self, name: str, *, version: Ref | None = None) -> int:
        """Name the current version, or another one, in every table; returns its number."""
        self.require("tag")
        self.resources.writable()
        refs.check_ref(name, "tag")
        await self.resources.records.access.writer()
        async with self.naming():
            return await self._tag(name, version)

    async def _tag(self, name: str, version: Ref | None) -> int:
        records = self.resources.records
        handle = await records.access.writer()
        if refs.head(name) in await refs.listed(handle, records.name):
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
                await versions.delete_tag(table, name)  # left behind by a crash
        for table, at in places.items():
            await versions.move_tag(table, name, at)
        return here.version

    async def places(self, ref: Ref | None) -> dict[Table, At]:
        """Where each table is at `ref`, or now, of those that are there.

        The records come last: what is made of all tables exists when they have it, and a crash
        before leaves nothing that is seen. Raises NotFoundError if there were no records.
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
            elif (at := await pin.locate(table.name, handle)) and not refs.is_kept(at.ref):
                places[table] = at  # had it no rows then, it is as good as absent
        if records not in places:
            raise NotFoundError(f"there were no records at {ref!r}: nothing to name")
        return places

    async def tags(self) -> dict[str, int]:
        """The version that each tag names."""
        named = await versions.tags(self.resources.records)
        return {tag: at.version for tag, at in named.items()}

    async def delete_tag(self, name: str) -> bool:
        """Forget a tag in every table; returns whether it existed."""
        self.require("delete a tag")
        self.resources.writable()
        name = check_name(name, "name")
        async with self.naming():
            tables = await self.main().tables()
            tables.sort(key=lambda table: table.name != db.RECORDS_TABLE)
            for table in tables:
                await require_childless(table, refs.tagged(name), f"tag {name!r}")
            return any([await versions.delete_tag(table, name) for table in tables])

    async def restore(self, ref: Ref) -> int:
        """Make every table what it was, as a new version; returns its number."""
        self.require("restore")
        self.resources.writable()
        await self.resources.settle()
        pin = await versions.pin(self.resources.records, ref)
        known = {table.name for table in await self.tables()}
        for root in await self.main().tables():
            handle = await root.access.reader()
            # A table that was not there then, and is not here now, need not be made for that.
            if root.name in known or await pin.locate(root.name, handle) is not None:
                table = self.resources.database.table(root.name, root.spec)
                await versions.restore(table, pin)
        return await self.resources.records.version()

    @asynccontextmanager
    async def naming(self) -> AsyncIterator[None]:
        """Make or remove a tag or a branch in here, in one table after the other: nobody else does.

        Half of one looks like what a crash left behind, and would be removed. There are no locks on
        object stores, nor before the records exist. Raises StorageError after ten minutes.
        """
        records = Path(self.resources.database.uri) / f"{db.RECORDS_TABLE}.lance"
        # One of its folders, since commits to it lock others.
        refusal = StorageError(
            f"somebody else has been making or removing a tag or a branch of "
            f"{self.resources.database.uri!r} for {_PATIENCE_SECONDS} seconds: nothing was "
            "done. A process that is stopped keeps its lock: end it, or let it go on"
        )
        async with locked(
            records / "_transactions", patience_seconds=_PATIENCE_SECONDS, refusal=lambda: refusal
        ):
            yield

    def main(self) -> "Whole":
        """The store on its main branch."""
        return self.on(refs.MAIN)

    def on(self, branch: str) -> "Whole":
        """The store on a branch, which should exist."""
        database = self.resources.current().on(branch)
        return replace(self, resources=replace(self.resources, database=database))

    async def tables(self) -> list[Table]:
        """The tables that exist, of those that are the store's."""
        return self.tables_among(await self.resources.database.table_names())

    def tables_among(self, names: Iterable[str]) -> list[Table]:
        """Those of these names that are the store's."""
        database = self.resources.database
        return [
            database.table(name, db.spec_of(name))
            for name in names
            if name in NAMED or collection_of(name) is not None or kv_of(name) is not None
        ]

    async def tables_to(self, action: str) -> list[Table]:
        """All tables, to do `action` with them."""
        self.require(action)
        return await self.tables()

    def require(self, action: str) -> None:
        """Raise for a handle that sees a part or the past: it cannot do `action`."""
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
    """Raise if a branch was made from a version of that ref: the ref holds its data."""
    if (handle := await table.access.reader()) is None:
        return
    for child, at in (await refs.listed(handle, table.name, with_gone=True)).items():
        if at.ref == ref and child not in but:
            raise InvalidRequestError(
                f"cannot delete {what}: {refs.owner_of(child)!r} was made from it, delete that first"
            )

"""What concerns the whole store, all of its tables and everybody's records: names, and going back."""

from dataclasses import dataclass

from lance_context_core._json import check_name
from lance_context_core.engine import versions
from lance_context_core.engine.database import Database
from lance_context_core.engine.names import collection_of
from lance_context_core.engine.schema import RECORDS, SESSIONS, VECTORS
from lance_context_core.engine.table import Table
from lance_context_core.engine.versions import Ref
from lance_context_core.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
)
from lance_context_core.scope import Scope
from lance_context_core.stores.resources import Resources


@dataclass(frozen=True, slots=True)
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
        versions.check_tag(name)
        records = self.resources.records
        await records.writer()
        tables = await self.tables()
        pin = None if version is None else await versions.pin(records, version)
        numbers = {
            table.name: await table.version()
            if pin is None
            else await pin.version_of(table.name, await table.writer())
            for table in tables
        }
        number = numbers[records.name]
        if number is None:
            raise NotFoundError(f"there were no records at {version!r}: nothing to name")
        existing = (await versions.tags(records)).get(name)
        if existing is not None and existing != number:
            raise AlreadyExistsError(
                f"tag {name!r} names version {existing} already: "
                "choose another name, or delete_tag() it first"
            )
        # The records last: the tag exists when they have it, and a crash before leaves none.
        for table in sorted(tables, key=lambda table: table is records):
            at = numbers[table.name]
            if at is not None:
                await versions.move_tag(table, name, at)
        return number

    async def delete_tag(self, name: str) -> bool:
        """Forget a tag in every table; returns whether it existed."""
        self.require("delete a tag")
        name = check_name(name, "name")
        tables = sorted(await self.tables(), key=lambda table: table is not self.resources.records)
        removed = [await versions.delete_tag(table, name) for table in tables]
        return any(removed)

    async def restore(self, ref: Ref) -> int:
        """Make every table what it was, as a new version; returns its number."""
        self.require("restore")
        pin = await versions.pin(self.resources.records, ref)
        for table in await self.tables():
            await versions.restore(table, pin)
        return await self.resources.records.version()

    async def tables(self) -> list[Table]:
        """The tables that exist, of those that are the store's."""
        specs = {"records": RECORDS, "sessions": SESSIONS}
        database = self.resources.database
        return [
            database.table(name, specs.get(name, VECTORS))
            for name in await database.table_names()
            if name in specs or collection_of(name) is not None
        ]

    def require(self, action: str) -> None:
        """Raise for a handle that sees a part or the past: it cannot do `action`."""
        if parts := self.scope.parts():
            raise InvalidRequestError(
                f"cannot {action} within a scope ({parts}): that concerns the whole store, "
                "do it through the store that was opened"
            )
        if not isinstance(self.resources.database, Database):
            raise ReadOnlyError(
                f"cannot {action} at an earlier version: do it through the store that was opened"
            )

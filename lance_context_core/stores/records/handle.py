"""The context handle: opens and closes its store, selects a version, compacts its files."""

import builtins
from dataclasses import replace
from pathlib import Path
from typing import Self, Unpack

from lance_context_core._handle import Opened
from lance_context_core._opening import opened
from lance_context_core._util.checks import check_name
from lance_context_core.errors import NotFoundError
from lance_context_core.maintenance.compaction import CompactionStats
from lance_context_core.scope import Scope
from lance_context_core.storage.lance import versions
from lance_context_core.storage.lance.fragments import CompactionMetrics
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.stores.records.embedding_backlog import with_background
from lance_context_core.stores.records.lookup import ContextOptions, opening
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import Diff, Version
from lance_context_core.versioning.locations import Whole, diff


class ContextHandle(Opened):
    """The base of `AsyncContext` without the methods for records."""

    def __init__(self, records: Records, *, is_owner: bool = False) -> None:
        """Use `create`, `open`, or `AsyncContextStore.context`."""
        self._live = records
        self._records = records
        self._is_owner = is_owner

    @classmethod
    async def create(cls, uri: str | Path, **options: Unpack[ContextOptions]) -> Self:
        """Create the context `name` in the store at `uri`; the first write creates it.

        The handle owns the store, which its `close` closes. See `ContextOptions`; raises
        InvalidRequestError, before anything is created, for invalid options.
        """
        chosen = opening(options)
        name = check_name(chosen.name, "name")
        resources = with_background(opened(uri, chosen.store))
        records = Records(resources, Scope(), name)
        context = cls(records, is_owner=True)
        try:
            if chosen.embedding_dim is not None:
                await records.table.vectors.ensure(chosen.embedding_dim, None)
            if chosen.is_compacted:
                resources.writable()
                await resources.compaction.start(chosen.schedule)
        except BaseException:
            await context.close()
            raise
        return context

    @classmethod
    async def open(cls, uri: str | Path, **options: Unpack[ContextOptions]) -> Self:
        """As `create`, for an existing store: raises NotFoundError if it does not exist."""
        context = await cls.create(uri, **options)
        try:
            exists = await context.version() > 0
        except BaseException:
            await context.close()
            raise
        if not exists:
            await context.close()
            raise NotFoundError(f"no store at {context.uri()!r}: create() makes one")
        return context

    async def close(self) -> None:
        """Close the store of `create` or `open`; a store's own context closes nothing."""
        if self._is_owner:
            await self._live.resources.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri()!r}, name={self.name!r})"

    @property
    def name(self) -> str:
        """The name of the context."""
        return self._live.context

    def uri(self) -> str:
        """The URI of the store."""
        return self._live.resources.database.uri

    def branch(self) -> str:
        """The branch of the store: "main", unless another is open."""
        return self._live.resources.database.branch

    # Versions

    async def version(self) -> int:
        """Return the number of the current version; 0 before the first write."""
        await self._records.resources.settle()
        return await self._records.table.version()

    async def versions(
        self, *, limit: int | None = None, before: int | None = None
    ) -> builtins.list[Version]:
        """Return the existing versions, oldest first. See `AsyncContextStore.versions`."""
        await self._live.resources.settle()
        return await versions.versions(self._live.table, limit=limit, before=before)

    async def checkout(self, version: Ref) -> Self:
        """Check out an earlier version, tag, or aware datetime in this handle.

        It then reads that version, and refuses writes with ReadOnlyError, until `checkout_latest`.
        Other handles of the store are not affected. Raises NotFoundError if it does not exist.
        """
        self._records = await self._at(version)
        return self

    async def checkout_latest(self) -> Self:
        """Return this handle to the latest version, for reading and writing."""
        self._records = self._live
        return self

    async def tag(self, name: str, *, version: Ref | None = None) -> int:
        """Tag the store's current version, or another one. See `AsyncContextStore.tag`."""
        number = None if version is None else await self._ref(version)
        return await self._whole().tag(name, version=number)

    async def tags(self) -> dict[str, int]:
        """Return the version of each tag of the store."""
        return await self._whole().tags()

    async def delete_tag(self, name: str) -> bool:
        """Delete a tag of the store, not its version; returns whether it existed."""
        return await self._whole().delete_tag(name)

    async def restore(self, version: Ref) -> int:
        """Restore the whole store to a version, as a new version, which is returned.

        This includes its other contexts, its history and its collections. See
        `AsyncContextStore.restore`.
        """
        return await self._whole().restore(await self._ref(version))

    async def diff(self, before: Ref, after: Ref | None = None) -> Diff:
        """Return the changes of this context between two versions, or up to the current one.

        Expired and retired records are compared too: they exist, though hidden.
        """
        old = await self._at(before)
        new = self._records if after is None else await self._at(after)
        where = self._records.where(include_expired=True, include_retired=True)
        return await diff(old.table, new.table, where)

    # Compaction

    async def compact(
        self, *, target_rows_per_fragment: int | None = None, materialize_deletions: bool = True
    ) -> CompactionMetrics:
        """Merge small fragments into large ones now; reads get faster and return the same.

        Returns `fragments_removed`, `fragments_added`, `files_removed` and `files_added`. The two
        parameters are accepted for compatibility: the engine sets both automatically.
        """
        del target_rows_per_fragment, materialize_deletions
        self._writable()
        return await self._live.resources.compaction.compact()

    async def compaction_stats(self) -> CompactionStats:
        """Return the fragmentation of the records, and the results of compaction so far."""
        return await self._live.resources.compaction.stats()

    # Helpers

    def _writable(self) -> Records:
        """Return the records; raises ReadOnlyError if an earlier version is checked out."""
        self._records.resources.writable()
        return self._records

    async def _ref(self, version: Ref) -> Ref:
        """Return `version`, as a number if it consists of digits and is no tag."""
        if isinstance(version, str) and version.isdecimal() and version not in await self.tags():
            return int(version)
        return version

    async def _at(self, version: Ref) -> Records:
        """Return the records of that version."""
        resources = await self._live.resources.shown_at(await self._ref(version))
        return replace(self._live, resources=resources)

    def _whole(self) -> Whole:
        return Whole(self._records.resources, self._records.scope)

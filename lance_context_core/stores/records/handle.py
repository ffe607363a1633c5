"""A context as a whole: the store that it opens and ends, the moment that it looks at, its files."""

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
from lance_context_core.stores.records.lookup import ContextOptions, opening
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import Diff, Version
from lance_context_core.versioning.locations import Whole, diff


class ContextHandle(Opened):
    """What a context is beside its records; `AsyncContext` adds the verbs of these."""

    def __init__(self, records: Records, *, is_owner: bool = False) -> None:
        """Use `create`, `open`, or `AsyncContextStore.context`."""
        self._live = records
        self._records = records
        self._is_owner = is_owner

    @classmethod
    async def create(cls, uri: str | Path, **options: Unpack[ContextOptions]) -> Self:
        """The context `name` of the store at `uri`, which is made when it is first written to.

        The store belongs to this handle and ends with its `close`. `ContextOptions` says what the
        options mean; raises InvalidRequestError, before anything is made, for what is none.
        """
        chosen = opening(options)
        name = check_name(chosen.name, "name")
        resources = opened(uri, chosen.store)
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
        """As `create`, for a store that must exist: raises NotFoundError where there is none."""
        context = await cls.create(uri, **options)
        try:
            exists = await context.version() > 0
        except BaseException:
            await context.close()
            raise
        if not exists:
            await context.close()
            raise NotFoundError(f"there is no store at {context.uri()!r}: create() makes one")
        return context

    async def close(self) -> None:
        """End the store that `create` or `open` opened; a store's own context closes nothing."""
        if self._is_owner:
            await self._live.resources.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri()!r}, name={self.name!r})"

    @property
    def name(self) -> str:
        """The name of the context."""
        return self._live.context

    def uri(self) -> str:
        """Where the store is."""
        return self._live.resources.database.uri

    def branch(self) -> str:
        """The branch of the store that is read and written: "main", unless the store is on one."""
        return self._live.resources.database.branch

    # Versions

    async def version(self) -> int:
        """The number of the version that is read; 0 before anything was written."""
        await self._records.resources.settle()
        return await self._records.table.version()

    async def versions(
        self, *, limit: int | None = None, before: int | None = None
    ) -> builtins.list[Version]:
        """The versions that are kept, oldest first. See `AsyncContextStore.versions`."""
        await self._live.resources.settle()
        return await versions.versions(self._live.table, limit=limit, before=before)

    async def checkout(self, version: Ref) -> Self:
        """Turn this handle to an earlier moment: a version, a tag, or an aware datetime.

        It then reads what was, and refuses writes with ReadOnlyError, until `checkout_latest`.
        Other handles of the store are not touched. Raises NotFoundError if there was no such moment.
        """
        self._records = await self._at(version)
        return self

    async def checkout_latest(self) -> Self:
        """Turn this handle back to the present, for reading and writing."""
        self._records = self._live
        return self

    async def tag(self, name: str, *, version: Ref | None = None) -> int:
        """Name the store's current version, or another one. See `AsyncContextStore.tag`."""
        number = None if version is None else await self._ref(version)
        return await self._whole().tag(name, version=number)

    async def tags(self) -> dict[str, int]:
        """The version that each tag of the store names."""
        return await self._whole().tags()

    async def delete_tag(self, name: str) -> bool:
        """Forget a tag of the store, not the version that it names; returns whether it existed."""
        return await self._whole().delete_tag(name)

    async def restore(self, version: Ref) -> int:
        """Make the whole store what it was, as a new version, which is returned.

        That concerns its other contexts, its history and its collections too. See
        `AsyncContextStore.restore`.
        """
        return await self._whole().restore(await self._ref(version))

    async def diff(self, before: Ref, after: Ref | None = None) -> Diff:
        """What changed in this context from one version to another, or to what is read now.

        Expired and retired records are compared too: they are there, if hidden.
        """
        old = await self._at(before)
        new = self._records if after is None else await self._at(after)
        where = self._records.where(include_expired=True, include_retired=True)
        return await diff(old.table, new.table, where)

    # Compaction

    async def compact(
        self, *, target_rows_per_fragment: int | None = None, materialize_deletions: bool = True
    ) -> CompactionMetrics:
        """Merge small fragments into large ones, now; reads get faster, nothing changes for them.

        Returns `fragments_removed`, `fragments_added`, `files_removed` and `files_added`. The two
        parameters are accepted for compatibility: the engine chooses both by itself.
        """
        del target_rows_per_fragment, materialize_deletions
        self._writable()
        return await self._live.resources.compaction.compact()

    async def compaction_stats(self) -> CompactionStats:
        """How fragmented the records are, and what compaction has done so far."""
        return await self._live.resources.compaction.stats()

    # Helpers

    def _writable(self) -> Records:
        """The records; raises ReadOnlyError while the handle looks at an earlier moment."""
        self._records.resources.writable()
        return self._records

    async def _ref(self, version: Ref) -> Ref:
        """`version`, as a number if it is digits that are no tag."""
        if isinstance(version, str) and version.isdecimal() and version not in await self.tags():
            return int(version)
        return version

    async def _at(self, version: Ref) -> Records:
        """The records as they were at that moment."""
        resources = await self._live.resources.shown_at(await self._ref(version))
        return replace(self._live, resources=resources)

    def _whole(self) -> Whole:
        return Whole(self._records.resources, self._records.scope)

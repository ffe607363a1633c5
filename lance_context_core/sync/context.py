"""The record API, from synchronous code."""

import builtins
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack

from lance_context_core._loop import block_on
from lance_context_core._options import takes
from lance_context_core.engine.files.maintenance import CompactionMetrics
from lance_context_core.engine.refs.versions import Ref
from lance_context_core.filters import FilterLike
from lance_context_core.protocols import SearchMode
from lance_context_core.records import Diff, Version, WriteResult
from lance_context_core.search.fusion import Fusion
from lance_context_core.stores.records.context import AsyncContext
from lance_context_core.stores.records.finding import DEFAULTS, HitArguments
from lance_context_core.stores.records.mappings import (
    RecordChanges,
    RecordDict,
    RecordFields,
)
from lance_context_core.stores.records.opening import ContextOptions
from lance_context_core.upkeep.fragments import CompactionStats

T = TypeVar("T")
C = TypeVar("C", bound="Context")


class Context:
    """The records of a store under one name, as the record API gives them.

    `AsyncContext` is the asynchronous one, which says what holds for all of its methods.
    """

    def __init__(self, uri: str | Path, **options: Unpack[ContextOptions]) -> None:
        """The same as `create`."""
        self._aio = block_on(AsyncContext.create(uri, **options))

    @classmethod
    def create(cls, uri: str | Path, **options: Unpack[ContextOptions]) -> Self:
        """The context `name` of the store at `uri`, new or not. See `AsyncContext.create`."""
        return cls(uri, **options)

    @classmethod
    def open(cls, uri: str | Path, **options: Unpack[ContextOptions]) -> Self:
        """As `create`, for a store that must exist, else NotFoundError. See `AsyncContext.open`."""
        return blocking_over(block_on(AsyncContext.open(uri, **options)), cls)

    def close(self) -> None:
        """End the store that `create` or `open` opened. See `AsyncContext.close`."""
        block_on(self._aio.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._aio).removeprefix("Async")

    @property
    def name(self) -> str:
        """The name of the context."""
        return self._aio.name

    def uri(self) -> str:
        """Where the store is."""
        return self._aio.uri()

    def branch(self) -> str:
        """The branch of the store that is read and written. See `AsyncContext.branch`."""
        return self._aio.branch()

    # Writing

    def add(
        self,
        role: str,
        content: Any,
        content_type: str | None = None,
        data_type: str | None = None,
        embedding: Sequence[float] | None = None,
        **fields: Unpack[RecordFields],
    ) -> WriteResult:
        """Add one record; returns its id and version. See `AsyncContext.add`."""
        return block_on(self._aio.add(role, content, content_type, data_type, embedding, **fields))

    def add_many(self, records: Iterable[Mapping[str, Any]]) -> WriteResult:
        """Add records in one commit, all or none. See `AsyncContext.add_many`."""
        # Taken out here: an iterable that itself asks the store could not do so on its loop.
        return block_on(self._aio.add_many([*records]))

    def upsert(
        self,
        role: str,
        content: Any,
        content_type: str | None = None,
        data_type: str | None = None,
        embedding: Sequence[float] | None = None,
        *,
        key: Literal["external_id", "id"] = "external_id",
        **fields: Unpack[RecordFields],
    ) -> dict[str, Any]:
        """Add a record, or replace the one with its `external_id`. See `AsyncContext.upsert`."""
        return block_on(
            self._aio.upsert(role, content, content_type, data_type, embedding, key=key, **fields)
        )

    def upsert_many(
        self,
        records: Iterable[Mapping[str, Any]],
        *,
        key: Literal["external_id", "id"] = "external_id",
    ) -> builtins.list[dict[str, Any]]:
        """Add or replace records in one commit. See `AsyncContext.upsert_many`."""
        return block_on(self._aio.upsert_many([*records], key=key))

    def update(
        self,
        *,
        id: str | None = None,
        external_id: str | None = None,
        embedding: Sequence[float] | None = None,
        clear: Iterable[str] = (),
        include_expired: bool = False,
        include_retired: bool = False,
        **changes: Unpack[RecordChanges],
    ) -> dict[str, Any]:
        """Change fields of one record; what is not named stays. See `AsyncContext.update`."""
        return block_on(
            self._aio.update(
                id=id,
                external_id=external_id,
                embedding=embedding,
                clear=clear,
                include_expired=include_expired,
                include_retired=include_retired,
                **changes,
            )
        )

    def delete(self, *, id: str | None = None, external_id: str | None = None) -> bool:
        """Forget a record; returns False if it is absent already. See `AsyncContext.delete`."""
        return block_on(self._aio.delete(id=id, external_id=external_id))

    def forget(self, *, id: str | None = None, external_id: str | None = None) -> bool:
        """The same as `delete`. See `AsyncContext.forget`."""
        return block_on(self._aio.forget(id=id, external_id=external_id))

    def embed_pending(self, *, limit: int | None = None) -> int:
        """Embed what has no vector yet; returns how many. See `AsyncContext.embed_pending`."""
        return block_on(self._aio.embed_pending(limit=limit))

    # Reading

    def get(self, *, id: str | None = None, external_id: str | None = None) -> RecordDict | None:
        """The visible record with that id; None if there is none. See `AsyncContext.get`."""
        return block_on(self._aio.get(id=id, external_id=external_id))

    def get_blob(self, id: str) -> bytes | None:
        """The bytes of the visible record with that id, or None. See `AsyncContext.get_blob`."""
        return block_on(self._aio.get_blob(id))

    def list(
        self,
        limit: int | None = None,
        offset: int | None = None,
        filters: FilterLike | None = None,
        *,
        include_expired: bool = False,
        include_retired: bool = False,
        include_binary: bool = True,
        include_embedding: bool = True,
        newest_first: bool = False,
    ) -> builtins.list[RecordDict]:
        """Records that match `filters`, in the order of writing. See `AsyncContext.list`."""
        return block_on(
            self._aio.list(
                limit,
                offset,
                filters,
                include_expired=include_expired,
                include_retired=include_retired,
                include_binary=include_binary,
                include_embedding=include_embedding,
                newest_first=newest_first,
            )
        )

    def scan(
        self,
        *,
        filters: FilterLike | None = None,
        batch_size: int = 1_000,
        include_expired: bool = False,
        include_retired: bool = False,
    ) -> Iterator[RecordDict]:
        """The records that `list` would return, one by one. See `AsyncContext.scan`."""
        records = self._aio.scan(
            filters=filters,
            batch_size=batch_size,
            include_expired=include_expired,
            include_retired=include_retired,
        )
        return _fetched(records, at_once=batch_size)

    def entries(self) -> int:
        """How many records `list` would return. See `AsyncContext.entries`."""
        return block_on(self._aio.entries())

    @takes(HitArguments, DEFAULTS)
    def search(
        self,
        query: str | Sequence[float],
        limit: int | None = 10,
        filters: FilterLike | None = None,
        *,
        mode: SearchMode | None = None,
        **arguments: Unpack[HitArguments],
    ) -> builtins.list[RecordDict]:
        """The records nearest to `query`, best first. See `AsyncContext.search`."""
        return block_on(self._aio.search(query, limit, filters, mode=mode, **arguments))

    @takes(HitArguments, DEFAULTS)
    def retrieve(
        self,
        *,
        text: str | None = None,
        vector: Sequence[float] | None = None,
        limit: int | None = 10,
        filters: FilterLike | None = None,
        fusion: Literal["convex", "rrf"] | Fusion = "convex",
        **arguments: Unpack[HitArguments],
    ) -> builtins.list[RecordDict]:
        """The records that answer best by words and meaning. See `AsyncContext.retrieve`."""
        return block_on(
            self._aio.retrieve(
                text=text, vector=vector, limit=limit, filters=filters, fusion=fusion, **arguments
            )
        )

    def related(
        self,
        target_id: str,
        relation: str | None = None,
        limit: int | None = None,
        *,
        include_expired: bool = False,
        include_retired: bool = False,
    ) -> builtins.list[RecordDict]:
        """The records with a relationship to `target_id`. See `AsyncContext.related`."""
        return block_on(
            self._aio.related(
                target_id,
                relation,
                limit,
                include_expired=include_expired,
                include_retired=include_retired,
            )
        )

    # Versions

    def version(self) -> int:
        """The number of the version that is read. See `AsyncContext.version`."""
        return block_on(self._aio.version())

    def versions(
        self, *, limit: int | None = None, before: int | None = None
    ) -> builtins.list[Version]:
        """The versions that are kept, oldest first. See `AsyncContext.versions`."""
        return block_on(self._aio.versions(limit=limit, before=before))

    def checkout(self, version: Ref) -> Self:
        """Turn this handle to an earlier moment, and return it. See `AsyncContext.checkout`."""
        block_on(self._aio.checkout(version))
        return self

    def checkout_latest(self) -> Self:
        """Turn this handle back to the present. See `AsyncContext.checkout_latest`."""
        block_on(self._aio.checkout_latest())
        return self

    def tag(self, name: str, *, version: Ref | None = None) -> int:
        """Name a version of the store; returns its number. See `AsyncContext.tag`."""
        return block_on(self._aio.tag(name, version=version))

    def tags(self) -> dict[str, int]:
        """The version that each tag of the store names. See `AsyncContext.tags`."""
        return block_on(self._aio.tags())

    def delete_tag(self, name: str) -> bool:
        """Forget a tag; returns whether it existed. See `AsyncContext.delete_tag`."""
        return block_on(self._aio.delete_tag(name))

    def restore(self, version: Ref) -> int:
        """Make the whole store what it was, as a new version. See `AsyncContext.restore`."""
        return block_on(self._aio.restore(version))

    def diff(self, before: Ref, after: Ref | None = None) -> Diff:
        """What changed in this context between two versions. See `AsyncContext.diff`."""
        return block_on(self._aio.diff(before, after))

    # Compaction

    def compact(
        self, *, target_rows_per_fragment: int | None = None, materialize_deletions: bool = True
    ) -> CompactionMetrics:
        """Merge small fragments into large ones, now. See `AsyncContext.compact`."""
        return block_on(
            self._aio.compact(
                target_rows_per_fragment=target_rows_per_fragment,
                materialize_deletions=materialize_deletions,
            )
        )

    def compaction_stats(self) -> CompactionStats:
        """How fragmented the records are. See `AsyncContext.compaction_stats`."""
        return block_on(self._aio.compaction_stats())


def blocking_over(aio: AsyncContext, cls: type[C]) -> C:
    """The blocking context over one that is open already."""
    context = cls.__new__(cls)
    context._aio = aio  # noqa: SLF001 - the class is this module's own
    return context


def _fetched(items: AsyncIterator[T], *, at_once: int) -> Iterator[T]:
    """The items; the way to the store's loop is taken once for `at_once` of them."""

    async def some() -> list[T]:
        found: list[T] = []
        async for item in items:
            found.append(item)
            if len(found) == at_once:
                break
        return found

    while found := block_on(some()):
        yield from found

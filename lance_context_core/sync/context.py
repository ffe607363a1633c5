"""The record API, from synchronous code."""

import builtins
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack

from lance_context_core._loop import block_on, nothing_is_left
from lance_context_core.storage.lance.versions import Ref
from lance_context_core.stores.records.context import AsyncContext
from lance_context_core.stores.records.lookup import ContextOptions
from lance_context_core.sync._blocking import Blocking, Named, blocking, iterating
from lance_context_core.types import Progress, WriteResult

C = TypeVar("C", bound="Context")


class Context(Named[AsyncContext]):
    """The records of a store under one name, as the record API gives them.

    `AsyncContext` is the asynchronous one, which says what holds for all of its methods.
    """

    def __init__(self, uri: str | Path, **options: Unpack[ContextOptions]) -> None:
        """The same as `create`."""
        super().__init__(block_on(AsyncContext.create(uri, **options)))

    @classmethod
    def create(cls, uri: str | Path, **options: Unpack[ContextOptions]) -> Self:
        """The context `name` of the store at `uri`, new or not. See `AsyncContext.create`."""
        return cls(uri, **options)

    @classmethod
    def open(cls, uri: str | Path, **options: Unpack[ContextOptions]) -> Self:
        """As `create`, for a store that must exist, else NotFoundError. See `AsyncContext.open`."""
        return blocking_over(block_on(AsyncContext.open(uri, **options)), cls)

    close = blocking(AsyncContext.close, at_once=lambda _: nothing_is_left())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def uri(self) -> str:
        """Where the store is."""
        return self._aio.uri()

    def branch(self) -> str:
        """The branch of the store that is read and written. See `AsyncContext.branch`."""
        return self._aio.branch()

    # Writing

    add = blocking(AsyncContext.add)

    def add_many(
        self,
        records: Iterable[Mapping[str, Any]],
        *,
        progress: Callable[[Progress], object] | None = None,
    ) -> WriteResult:
        """Add records in one commit, all or none. See `AsyncContext.add_many`."""
        # Taken out here: an iterable that itself asks the store could not do so on its loop.
        return block_on(self._aio.add_many([*records], progress=progress))

    upsert = blocking(AsyncContext.upsert)

    def upsert_many(
        self,
        records: Iterable[Mapping[str, Any]],
        *,
        key: Literal["external_id", "id"] = "external_id",
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[dict[str, Any]]:
        """Add or replace records in one commit. See `AsyncContext.upsert_many`."""
        return block_on(self._aio.upsert_many([*records], key=key, progress=progress))

    update = blocking(AsyncContext.update)
    delete = blocking(AsyncContext.delete)
    forget = blocking(AsyncContext.forget)
    embed_pending = blocking(AsyncContext.embed_pending)

    # Reading

    get = blocking(AsyncContext.get)
    get_blob = blocking(AsyncContext.get_blob)
    list = blocking(AsyncContext.list)
    records = blocking(AsyncContext.records)
    scan = iterating(AsyncContext.scan)
    entries = blocking(AsyncContext.entries)
    search = blocking(AsyncContext.search)
    retrieve = blocking(AsyncContext.retrieve)
    related = blocking(AsyncContext.related)

    # Versions

    version = blocking(AsyncContext.version)
    versions = blocking(AsyncContext.versions)

    def checkout(self, version: Ref) -> Self:
        """Turn this handle to an earlier moment, and return it. See `AsyncContext.checkout`."""
        block_on(self._aio.checkout(version))
        return self

    def checkout_latest(self) -> Self:
        """Turn this handle back to the present. See `AsyncContext.checkout_latest`."""
        block_on(self._aio.checkout_latest())
        return self

    tag = blocking(AsyncContext.tag)
    tags = blocking(AsyncContext.tags)
    delete_tag = blocking(AsyncContext.delete_tag)
    restore = blocking(AsyncContext.restore)
    diff = blocking(AsyncContext.diff)

    # Compaction

    compact = blocking(AsyncContext.compact)
    compaction_stats = blocking(AsyncContext.compaction_stats)


def blocking_over(aio: AsyncContext, cls: type[C]) -> C:
    """The blocking context over one that is open already."""
    context = cls.__new__(cls)
    Blocking.__init__(context, aio)
    return context

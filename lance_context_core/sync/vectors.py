"""Collections of documents with vectors, from synchronous code."""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from lance_context_core._loop import block_on
from lance_context_core._options import takes
from lance_context_core.filters import FilterLike
from lance_context_core.records import Document, Erasure, SearchHit
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.stores.vectors import AsyncVectors


@dataclass(frozen=True, slots=True)
class Vectors:
    """One collection of documents; `AsyncVectors` is the asynchronous one."""

    _aio: AsyncVectors

    @property
    def collection(self) -> str:
        """The name of the collection."""
        return self._aio.collection

    def add(self, documents: Sequence[Document]) -> builtins.list[str]:
        """Add documents in one commit, all or none; returns their ids. See `AsyncVectors.add`."""
        return block_on(self._aio.add(documents))

    def upsert(self, documents: Sequence[Document]) -> builtins.list[str]:
        """Add or replace documents in one commit; returns their ids. See `AsyncVectors.upsert`."""
        return block_on(self._aio.upsert(documents))

    @takes(SearchArguments, searching.DEFAULTS)
    def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        include_embedding: bool = False,
        **arguments: Unpack[SearchArguments],
    ) -> builtins.list[SearchHit[Document]]:
        """The documents that match best, best first. See `AsyncVectors.search`."""
        return block_on(self._aio.search(query, include_embedding=include_embedding, **arguments))

    def get(
        self, ids: Sequence[str], *, include_embedding: bool = False
    ) -> builtins.list[Document]:
        """Documents in the order of `ids`; unknown ids are left out. See `AsyncVectors.get`."""
        return block_on(self._aio.get(ids, include_embedding=include_embedding))

    def list(
        self,
        *,
        filter: FilterLike | None = None,
        limit: int | None = None,
        offset: int = 0,
        include_embedding: bool = False,
    ) -> builtins.list[Document]:
        """Matching documents in the order in which they were added. See `AsyncVectors.list`."""
        return block_on(
            self._aio.list(
                filter=filter, limit=limit, offset=offset, include_embedding=include_embedding
            )
        )

    def delete(self, ids: Sequence[str] | None = None, *, filter: FilterLike | None = None) -> int:
        """Delete by id, by filter, or by both; returns how many. See `AsyncVectors.delete`."""
        return block_on(self._aio.delete(ids, filter=filter))

    def erase(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: FilterLike | None = None,
        sole_writer: bool = False,
        dry_run: bool = False,
    ) -> Erasure:
        """Remove documents from every file of the collection. See `AsyncVectors.erase`."""
        return block_on(
            self._aio.erase(ids, filter=filter, sole_writer=sole_writer, dry_run=dry_run)
        )

    def count(self, *, filter: FilterLike | None = None) -> int:
        """How many documents match. See `AsyncVectors.count`."""
        return block_on(self._aio.count(filter=filter))

    def list_collections(self) -> builtins.list[str]:
        """The names of all collections of the store. See `AsyncVectors.list_collections`."""
        return block_on(self._aio.list_collections())

    def delete_collection(self) -> int:
        """Remove this collection; returns its size. See `AsyncVectors.delete_collection`."""
        return block_on(self._aio.delete_collection())

"""Files in the store, from synchronous code."""

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from lance_context_core._loop import block_on
from lance_context_core._options import takes
from lance_context_core.documents.conditions import Scopes
from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.documents.loading import DEFAULTS, DocumentSource, ReadingArguments
from lance_context_core.filters import FilterLike
from lance_context_core.records import (
    DocumentChunk,
    DocumentProgress,
    DocumentsAdded,
    DocumentScope,
    Erasure,
    SearchHit,
    SourceDocument,
)
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments


@dataclass(frozen=True, slots=True)
class Documents:
    """Files that were read, and the passages in them; `AsyncDocuments` is the asynchronous one."""

    _aio: AsyncDocuments

    @takes(ReadingArguments, DEFAULTS)
    def add(
        self,
        source: DocumentSource,
        *,
        scope: DocumentScope | None = None,
        metadata: Mapping[str, Any] | None = None,
        name: str | None = None,
        uri: str | None = None,
        **arguments: Unpack[ReadingArguments],
    ) -> SourceDocument:
        """Read a file, cut it, embed it, and keep it, in one commit. See `AsyncDocuments.add`."""
        return block_on(
            self._aio.add(source, scope=scope, metadata=metadata, name=name, uri=uri, **arguments)
        )

    @takes(ReadingArguments, DEFAULTS)
    def add_many(
        self,
        sources: Iterable[DocumentSource],
        *,
        scope: DocumentScope | None = None,
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[DocumentProgress], object] | None = None,
        **arguments: Unpack[ReadingArguments],
    ) -> DocumentsAdded:
        """Add files one after the other, whatever becomes of each. See `AsyncDocuments.add_many`."""
        return block_on(
            self._aio.add_many(
                sources, scope=scope, metadata=metadata, progress=progress, **arguments
            )
        )

    @takes(SearchArguments, searching.DEFAULTS)
    def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        scope: Scopes | None = None,
        type: str | Sequence[str] | None = None,
        document_id: str | Sequence[str] | None = None,
        **arguments: Unpack[SearchArguments],
    ) -> builtins.list[SearchHit[DocumentChunk]]:
        """The passages that answer `query` best, best first. See `AsyncDocuments.search`."""
        return block_on(
            self._aio.search(query, scope=scope, type=type, document_id=document_id, **arguments)
        )

    def get(self, document_id: str) -> SourceDocument | None:
        """What is known of a document, or None. See `AsyncDocuments.get`."""
        return block_on(self._aio.get(document_id))

    def list(
        self,
        *,
        scope: Scopes | None = None,
        type: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> builtins.list[SourceDocument]:
        """Documents in the order in which they were added. See `AsyncDocuments.list`."""
        return block_on(
            self._aio.list(scope=scope, type=type, filter=filter, limit=limit, offset=offset)
        )

    def count(
        self,
        *,
        scope: Scopes | None = None,
        type: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,
    ) -> int:
        """How many documents `list` would return. See `AsyncDocuments.count`."""
        return block_on(self._aio.count(scope=scope, type=type, filter=filter))

    def chunks(
        self, document_id: str, *, limit: int | None = None, offset: int = 0
    ) -> builtins.list[DocumentChunk]:
        """A document's passages in the order of its text. See `AsyncDocuments.chunks`."""
        return block_on(self._aio.chunks(document_id, limit=limit, offset=offset))

    def text(self, document_id: str) -> str:
        """The text that was read of a document. See `AsyncDocuments.text`."""
        return block_on(self._aio.text(document_id))

    def content(self, document_id: str) -> bytes | None:
        """The bytes of the file, where they were kept. See `AsyncDocuments.content`."""
        return block_on(self._aio.content(document_id))

    @takes(ReadingArguments, DEFAULTS)
    def update(
        self,
        document_id: str,
        source: DocumentSource | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        name: str | None = None,
        uri: str | None = None,
        **arguments: Unpack[ReadingArguments],
    ) -> SourceDocument:
        """Replace a document's content or metadata in one commit. See `AsyncDocuments.update`."""
        return block_on(
            self._aio.update(
                document_id, source, metadata=metadata, name=name, uri=uri, **arguments
            )
        )

    def delete(self, document_id: str) -> bool:
        """Remove a document and its chunks in one commit. See `AsyncDocuments.delete`."""
        return block_on(self._aio.delete(document_id))

    def erase(
        self, document_id: str, *, sole_writer: bool = False, dry_run: bool = False
    ) -> Erasure:
        """Remove a document from every file of the store. See `AsyncDocuments.erase`."""
        return block_on(self._aio.erase(document_id, sole_writer=sole_writer, dry_run=dry_run))

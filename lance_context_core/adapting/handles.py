"""Handles over a store that a caller passes, or one opened from its URI."""

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.chunking import Chunker
from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.documents.readers.choosing import type_said_by
from lance_context_core.documents.reading import ReadDocument, Written
from lance_context_core.errors import InvalidRequestError
from lance_context_core.maintenance.types import TableUpkeep
from lance_context_core.scope import Scope
from lance_context_core.storage.lance.indexes import IndexPolicy
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.sync import ContextStore
from lance_context_core.types import DocumentChunk, DocumentScope, SourceDocument

StoreLike: TypeAlias = ContextStore | AsyncContextStore | str | Path
"""An open store, or a scope, branch or version of one; or its location: a directory or URI."""


def uri_of(store: StoreLike) -> str:
    """Returns the given URI, from which another process can open the same store again.

    Raises InvalidRequestError for an open store, whose scope and embedder are not in a URI,
    and for `memory://`, which is another store in each process.
    """
    if not isinstance(store, str | Path) or str(store).startswith("memory://"):
        raise InvalidRequestError(
            f"store={store!r:.80}: pass the URI of a directory or object store to serialise it "
            "or send it to another process"
        )
    return str(store)


class Handle:
    """One store, asynchronous and blocking, which `close` closes if it was opened here.

    Creating a handle does no I/O, so it is safe in a constructor. It can be pickled
    if it was given a URI, and its embedder can be: see `uri_of`.
    """

    aio: AsyncContextStore
    sync: ContextStore
    """The blocking store over `aio`: each reads the other's writes."""

    def __init__(self, store: StoreLike, *, embedder: Any = None) -> None:
        """Wraps an open `store`, or the one at a URI.

        The `embedder` is for a store that is opened here; an open one has its own. Raises
        InvalidRequestError for anything but a store, URI or embedder.
        """
        self._given = store
        self._embedder = embedder
        self._is_owner = isinstance(store, str | Path)
        if isinstance(store, ContextStore):
            self.sync, self.aio = store, store.aio
            return
        if isinstance(store, str | Path):
            store = AsyncContextStore.open(store, embedder=embedder)
        if not isinstance(store, AsyncContextStore):
            raise InvalidRequestError(
                f"store={store!r:.80}: give a ContextStore, an AsyncContextStore, or where one is"
            )
        self.sync, self.aio = ContextStore(store), store

    @property
    def scope(self) -> Scope:
        """The scope of the handle, which is also stamped on its writes."""
        return self.aio._scope  # noqa: SLF001 - the store has no word for it: `scope` narrows

    def now(self) -> datetime:
        """Returns the time of the store's clock."""
        return self.aio.clock.now()

    def reopened(self) -> Self:
        """Returns another handle of the same argument; of a URI an open one, even after `close`."""
        return type(self)(self._given, embedder=self._embedder)

    def close(self) -> None:
        """Closes the store if it was opened here; closing twice is no error."""
        if self._is_owner:
            self.sync.close()

    async def aclose(self) -> None:
        """As `close`."""
        if self._is_owner:
            await self.aio.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), embedder=self._embedder), (uri_of(self._given),)


class HandleOwner:
    """A base of classes that take or open a store: maintenance, `close`, both kinds of `with`."""

    _handle: Handle

    def maintain(
        self, *, policy: IndexPolicy | None = None, only_due: bool = False
    ) -> list[TableUpkeep]:
        """Maintains the whole store now, as `ContextStore.maintain`; this is also automatic.

        Raises InvalidRequestError over a scope or an earlier version.
        """
        return self._handle.sync.maintain(policy=policy, only_due=only_due)

    async def amaintain(
        self, *, policy: IndexPolicy | None = None, only_due: bool = False
    ) -> list[TableUpkeep]:
        """As `maintain`."""
        return await self._handle.aio.maintain(policy=policy, only_due=only_due)

    def close(self) -> None:
        """Closes the store if it was given by its URI; a passed store stays open."""
        self._handle.close()

    async def aclose(self) -> None:
        """As `close`."""
        await self._handle.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


# Texts of a framework's loaders, added to `store.documents`, and cited from there.


@frozen_by_name
class LoadedText:
    """A file, page or row that a loader has read."""

    source: str | None = None
    """The path or URL of the file; absent if the loader does not provide it."""
    page: int | None = None
    """Counted from 1."""
    section: str | None = None
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key, without page and section."""


async def add_loaded(
    documents: AsyncDocuments,
    texts: Iterable[LoadedText],
    *,
    scope: DocumentScope | None = None,
    chunker: Chunker | None = None,
) -> list[SourceDocument]:
    """Adds loaded texts, each file in one commit; returns the documents, in order.

    Consecutive texts of one source with equal metadata are the pages of one file; any
    other is a file of its own. Skips blank texts. A file that already exists in the scope,
    by the hash of its texts, is left unchanged. `texts` may be a generator, which runs in
    worker threads; one file is in memory at a time. With `chunker=BlockChunker()` each text is a
    passage as it is.
    """
    added, files = list[SourceDocument](), _files(texts)
    while (file := await asyncio.to_thread(next, files, None)) is not None:
        first = file[0]
        name = _name(first.source)
        content = json.dumps([(one.text, one.page, one.section) for one in file])
        added.append(
            await documents.add(
                content.encode(),
                scope=scope,
                metadata=first.metadata,
                name=name,
                uri=first.source,
                type=type_said_by(name),
                reader=_LoadedReader(),
                chunker=chunker,
                keep="uri",
                max_bytes=max(1, len(content)),
            )
        )
    return added


def citation_of(chunk: DocumentChunk) -> dict[str, Any]:
    """Returns a passage's citation as JSON, without absent fields.

    The fields are `citation`, `document_id`, `name`, `type`, `title`, `uri`, `page`, `section`, and
    the offsets `start` and `end` in the document's text.
    """
    facts = {
        "citation": chunk.citation,
        "document_id": chunk.document_id,
        "name": chunk.name,
        "type": chunk.type,
        "title": chunk.title,
        "uri": chunk.uri,
        "page": chunk.page,
        "section": chunk.section,
        "start": chunk.start,
        "end": chunk.end,
    }
    return {name: value for name, value in facts.items() if value is not None}


class _LoadedReader:
    """Reads the files that `add_loaded` builds from pages."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:  # noqa: ARG002 - any name
        written, n_pages = Written(), None
        for text, page, section in json.loads(content):
            written.add(text, page=page, section=section)
            if page is not None:
                n_pages = max(page, n_pages or 0)
        return written.document(n_pages=n_pages)


def _files(texts: Iterable[LoadedText]) -> Iterator[list[LoadedText]]:
    """Yields the texts of each file, none of them blank."""
    held = list[LoadedText]()
    for one in texts:
        if not one.text or one.text.isspace():
            continue
        if held and (one.source is None or _whole(one) != _whole(held[0])):
            yield held
            held = []
        held.append(one)
    if held:
        yield held


def _whole(text: LoadedText) -> tuple[str | None, Mapping[str, Any]]:
    """Returns the properties that the pages of one file share."""
    return text.source, text.metadata


def _name(source: str | None) -> str:
    """Returns the name of a file at that path or URL."""
    if source is None:
        return "untitled"
    path = re.split(r"[?#]", source)[0] if "://" in source else source
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] or "untitled"

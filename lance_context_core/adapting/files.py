"""What a framework's loaders have read already, put into `store.documents`, and cited from there."""

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.documents.chunking import Chunker
from lance_context_core.documents.documents import AsyncDocuments
from lance_context_core.documents.readers.choosing import type_said_by
from lance_context_core.documents.reading import ReadDocument, Written
from lance_context_core.types import DocumentChunk, DocumentScope, SourceDocument


@frozen_by_name
class LoadedText:
    """A file that a loader has read, or a page or row of one."""

    source: str | None = None
    """The path or URL of the file; absent if the loader does not say it."""
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
    """Add what was loaded, each file in one commit; returns the documents, in order.

    Texts of one source that follow each other and have equal metadata are the pages of one file; any
    other is a file of its own. What is blank is left out. As of any file, what the scope has
    already, by the hash of its texts, is left as it is. `texts` may be a generator, which runs in
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
    """What a passage is cited by, as JSON, without what is absent.

    That is `citation`, `document_id`, `name`, `type`, `title`, `uri`, `page`, `section`, and the offsets
    `start` and `end` in the document's text.
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
    """Reads what `add_loaded` makes of the pages of a file."""

    def read(self, content: bytes, *, name: str) -> ReadDocument:  # noqa: ARG002 - any name
        written, n_pages = Written(), None
        for text, page, section in json.loads(content):
            written.add(text, page=page, section=section)
            if page is not None:
                n_pages = max(page, n_pages or 0)
        return written.document(n_pages=n_pages)


def _files(texts: Iterable[LoadedText]) -> Iterator[list[LoadedText]]:
    """The texts of each file, none of them blank."""
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
    """What the pages of one file have in common."""
    return text.source, text.metadata


def _name(source: str | None) -> str:
    """What a file at that path or URL is called."""
    if source is None:
        return "untitled"
    path = re.split(r"[?#]", source)[0] if "://" in source else source
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] or "untitled"

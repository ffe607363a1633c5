"""Source documents in the store: added, searched, replaced and deleted as wholes."""

import asyncio
import builtins
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, Literal, Unpack

from lance_context_core._handle import handle
from lance_context_core._progress import check_progress, tell, told_at_the_end
from lance_context_core._util import cooperative as steps
from lance_context_core._util.calls import takes
from lance_context_core._util.checks import check_count, check_json_object, check_span, shown
from lance_context_core.blobs.blobs import AsyncBlobs
from lance_context_core.codecs import sources
from lance_context_core.codecs.sources import CHUNK
from lance_context_core.documents import loading
from lance_context_core.documents.adding import Adding, owner_of
from lance_context_core.documents.loading import DEFAULTS, DocumentSource, ReadingArguments
from lance_context_core.documents.scoped import (
    ScopedDocuments,
    Scopes,
    among,
    below,
    in_scopes,
    place_of,
)
from lance_context_core.documents.syncing import (
    HIDDEN,
    Syncing,
    Wanted,
    check_how,
    check_patterns,
    list_files,
)
from lance_context_core.erasure import erase, selector
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import CHUNK_FIELDS, FilterLike
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.search import query as searching
from lance_context_core.search.options import AS_USUAL, SearchArguments
from lance_context_core.storage import sql
from lance_context_core.storage.database import DOCUMENTS_TABLE
from lance_context_core.types import (
    DocumentChunk,
    DocumentProgress,
    DocumentsAdded,
    DocumentScope,
    DocumentsSynced,
    Erasure,
    FailedDocument,
    Progress,
    SearchHit,
    SourceDocument,
)
from lance_context_core.versioning.locations import Whole

_NO_MORE: Any = object()

_FURTHER = 4
"""The factor by which more hits are requested if one document dominates an answer."""


@handle
class AsyncDocuments:
    """Source documents and their passages; each file is written in one commit.

    A store has none until a file is added.
    """

    _documents: ScopedDocuments

    @takes(ReadingArguments, DEFAULTS)
    @told_at_the_end("documents")
    async def add(
        self,
        source: DocumentSource,
        *,
        metadata: Mapping[str, Any] | None = None,
        scope: DocumentScope | None = None,
        progress: Callable[[Progress], object] | None = None,
        name: str | None = None,
        uri: str | None = None,
        **arguments: Unpack[ReadingArguments],
    ) -> SourceDocument:
        """Reads a file, cuts it into passages, embeds them, and stores it in one commit.

        - `source`: a path, the bytes of a file, an open file, or an HTTP URL.
        - `scope`: the conversation or project of the document; without one, for all.
        - `name`, `uri`: its name and location, if the source does not contain them.
        - `type`: the file type, such as `markdown`; by default detected from first bytes and name.
        - `reader`: reads the file, in place of the reader of its type.
        - `chunker`: cuts it; by default into passages of 1,500 characters: see `TextChunker`.
        - `keep`: what is stored besides its text: the `bytes`, to open the file again, and the
          `uri` of its location; the `uri` alone; or neither, only the `hash`, which is always
          stored.
        - `max_bytes`: larger files are refused before they are read.
        - `fetch`: fetches a URL: a function that returns the bytes, or an open file; it is called
          in a worker thread.

        A file that already exists in its scope, by the hash of its bytes, is left unchanged and
        returned, so the call may be repeated; `metadata` is merged into the existing metadata. A
        file with an older content in the scope, by its `uri`, is updated: see `update`. Raises
        UnreadableDocumentError, before anything is written, if no text can be read from it.

        `progress` is called as passages are made and embedded, up to 512 at a time, and once the
        document is stored; an exception from it before that, as when cancelling, ends the call, and
        nothing is written.
        """
        self._documents.resources.writable()
        reading = loading.check_arguments(arguments, self.add)
        place, about = place_of(scope), check_json_object(metadata or {}, "metadata")
        loaded = await loading.loaded(source, reading, name=name, uri=uri)
        hash, adding = loaded.spooled.hash, Adding(self._documents)
        if (found := await self._documents.known(place, hash, loaded.uri)) is None:
            return await adding.add(loaded, reading, place, about, progress)
        changed = None if found.hash == hash else loaded
        is_from_there = isinstance(source, bytes) or found.uri == loaded.uri
        keeps_name = name is None and is_from_there
        new = {**found.metadata, **about}
        if changed is None and new == found.metadata:
            return found
        return await adding.update(found.id, changed, reading, new, progress, keeps_name=keeps_name)

    @takes(ReadingArguments, DEFAULTS)
    async def add_many(
        self,
        sources: Iterable[DocumentSource],
        *,
        scope: DocumentScope | None = None,
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[DocumentProgress], object] | None = None,
        **arguments: Unpack[ReadingArguments],
    ) -> DocumentsAdded:
        """Adds files one after the other, each in its own commit; returns the outcomes.

        One file is in memory at a time, and `sources` may be a generator. A file that cannot be
        read is reported in `failed`, and the next one follows; other errors, such as of the disk,
        are raised. After a crash the call may be repeated: stored files are not read again.
        `progress` is called after each file, and the generator runs in worker threads.
        """
        self._documents.resources.writable()
        loading.check_arguments(arguments, self.add_many)
        check_progress(progress)
        if isinstance(sources, str | bytes) or not isinstance(sources, Iterable):
            raise InvalidRequestError(f"sources={shown(sources)}: pass a list of files")
        n_files = len(sources) if isinstance(sources, Sized) else None
        done, failed = builtins.list[SourceDocument](), builtins.list[FailedDocument]()
        files, n_done = iter(sources), 0
        # The loop continues even if the caller's code blocks.
        while (source := await asyncio.to_thread(next, files, _NO_MORE)) is not _NO_MORE:
            document, error, name = None, None, _called(source)
            try:
                document = await self.add(source, scope=scope, metadata=metadata, **arguments)
                done.append(document)
            except InvalidRequestError as raised:
                error = raised
                failed.append(FailedDocument(name=name, error=raised))
            n_done += 1
            now = DocumentProgress(
                n_done=n_done, n_total=n_files, name=name, document=document, error=error
            )
            await tell(progress, now)
        return DocumentsAdded(documents=tuple(done), failed=tuple(failed))

    @takes(ReadingArguments, DEFAULTS)
    async def sync(
        self,
        files: str | Path | Iterable[str | Path],
        *,
        include: str | Sequence[str] | None = None,
        ignore: str | Sequence[str] = HIDDEN,
        scope: DocumentScope | None = None,
        metadata: Mapping[str, Any] | None = None,
        check: Literal["time", "hash"] = "time",
        dry_run: bool = False,
        progress: Callable[[DocumentProgress], object] | None = None,
        **arguments: Unpack[ReadingArguments],
    ) -> DocumentsSynced:
        """Syncs the documents of a folder with its files; returns the changes.

        Adds new files, updates changed ones, renames the documents of moved ones, and deletes the
        documents of removed ones, each in a commit of its own: after a crash the call may be
        repeated. A file is identified by its path, and its document's `name` is its path below the
        folder.

        - `files`: a folder, or a list of files: then only these are added, updated or deleted.
        - `include`, `ignore`: patterns as in `.gitignore`, such as `*.md` or `docs/**/*.pdf`; files
          and folders that begin with a dot are ignored by default. Documents of excluded files are
          deleted. Links are not followed.
        - `metadata`: merged into that of each document.
        - `check`: `time` treats a file of the same size and time as unchanged, without reading it;
          `hash` reads each.
        - `dry_run`: only reports the changes; files may still turn out to have no text.
        - The other arguments as in `add`, but `keep` is `uri` by default, since the folder has the
          bytes; it must not be `hash`.

        A file or folder that cannot be read is reported in `failed`, and its documents stay
        unchanged. Raises NotFoundError if the folder does not exist. `progress` is called after
        each file.
        """
        self._documents.resources.writable()
        check_progress(progress)
        reading = loading.check_arguments({"keep": "uri", **arguments}, self.sync)
        check_how(check, reading["keep"])
        syncing = Syncing(
            Adding(self._documents),
            reading,
            place_of(scope),
            check_json_object(metadata or {}, "metadata"),
            check,
            dry_run,
            progress,
        )
        wanted = Wanted(
            include=check_patterns(include, "include"),
            ignore=check_patterns(ignore, "ignore") or (),
        )
        return await syncing.run(await asyncio.to_thread(list_files, files, wanted))

    @takes(SearchArguments, searching.DEFAULTS)
    async def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        scope: Scopes | None = None,
        type: str | Sequence[str] | None = None,
        document_id: str | Sequence[str] | None = None,
        path: str | Sequence[str] | None = None,
        offset: int = 0,
        per_document: int | None = None,
        **arguments: Unpack[SearchArguments],
    ) -> builtins.list[SearchHit[DocumentChunk]]:
        """Returns the best passages for `query`, best first. See `AsyncContextStore.search`.

        `scope` searches the documents of that conversation or project, and those for all; several
        scopes search any of them. Without one, searches all that the handle sees. `type`,
        `document_id` and `path`, a file or folder as `sync` names them, restrict it further; a
        `filter` applies to the documents' metadata and to the fields of chunks.

        `offset` skips the best hits, for the next page of an answer: pages are those of one
        ranking up to the `n_candidates` of the options. `per_document` limits the passages of one
        document: 1 finds documents, each by its best passage.
        """
        searched = searching.Searched(
            table=self._documents.table,
            resources=self._documents.resources,
            where=self._documents.where(
                sql.equals("kind", CHUNK),
                in_scopes(scope),
                among("file_type", type, "type"),
                among("document_id", document_id, "document_id"),
                below(path),
            ),
            filterable=CHUNK_FIELDS,
            columns=sources.CHUNK_COLUMNS,
            read=sources.from_chunk_row,
        )

        async def best(limit: int) -> builtins.list[SearchHit[DocumentChunk]]:
            asked: SearchArguments = {**arguments, "limit": limit}
            return await searching.search(searched, query, **asked)

        return await _page(best, arguments, offset=offset, per_document=per_document)

    async def around(
        self,
        passage: DocumentChunk | SearchHit[DocumentChunk],
        *,
        before: int = 1,
        after: int = 1,
    ) -> builtins.list[DocumentChunk]:
        """Returns a passage with the passages `before` and `after` it in its document.

        They are in the order of the text; fewer at its ends. Empty if the document no longer
        exists.
        """
        chunk = passage.record if isinstance(passage, SearchHit) else passage
        if not isinstance(chunk, DocumentChunk):
            raise InvalidRequestError(
                f"passage={shown(passage)}: give a chunk, or a hit of search()"
            )
        check_count(before, "before", least=0)
        check_count(after, "after", least=0)
        near = range(max(chunk.position - before, 0), chunk.position + after + 1)
        ids = [sources.chunk_id(chunk.document_id, position) for position in near]
        where = sql.all_of([self._documents.one(chunk.document_id, CHUNK), sql.in_list("id", ids)])
        found = await self._documents.table.select(where, columns=sources.CHUNK_COLUMNS)
        return await steps.each_row(sources.from_chunk_row, found.sort_by("position"))

    async def get(self, document_id: str) -> SourceDocument | None:
        """Returns a document's description; None if the id does not exist."""
        return await self._documents.find(document_id)

    async def list(
        self,
        *,
        scope: Scopes | None = None,
        type: str | Sequence[str] | None = None,
        path: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> builtins.list[SourceDocument]:
        """Returns documents in the order of adding: `limit` after `offset`, or all.

        `scope`, `type` and `path` as in `search`.
        """
        check_span(offset=offset, limit=limit, last=None)
        where = self._documents.listed(scope, type, path, filter)
        rows = await self._documents.table.slice(
            where, columns=sources.COLUMNS, limit=limit, offset=offset
        )
        return await steps.each_row(sources.from_row, rows)

    async def count(
        self,
        *,
        scope: Scopes | None = None,
        type: str | Sequence[str] | None = None,
        path: str | Sequence[str] | None = None,
        filter: FilterLike | None = None,
    ) -> int:
        """Returns the number of documents that `list` would return."""
        return await self._documents.table.count(self._documents.listed(scope, type, path, filter))

    async def chunks(
        self, document_id: str, *, limit: int | None = None, offset: int = 0
    ) -> builtins.list[DocumentChunk]:
        """Returns a document's passages in the order of its text: `limit` after `offset`, or all.

        Empty if the document does not exist.
        """
        check_span(offset=offset, limit=limit, last=None)
        where = self._documents.one(document_id, CHUNK)
        found = await self._documents.table.select(where, columns=sources.CHUNK_COLUMNS)
        rows = found.sort_by("position").slice(offset, limit)
        return await steps.each_row(sources.from_chunk_row, rows)

    async def text(self, document_id: str) -> str:
        """Returns the text of a document, to which its chunks' offsets refer.

        Raises NotFoundError if the document does not exist.
        """
        return await self._documents.text(document_id)

    async def content(self, document_id: str) -> bytes | None:
        """Returns the bytes of the file; None unless they were stored.

        Raises NotFoundError if the document does not exist.
        """
        found = await self._documents.values(document_id, "blob", "payload_uri", *SCOPE_PARTS)
        if (uri := found.get("payload_uri")) is not None:
            return await AsyncBlobs(self._documents.blobs(owner_of(found))).get(uri)
        content: bytes | None = found["blob"]
        return content

    @takes(ReadingArguments, DEFAULTS)
    @told_at_the_end("documents")
    async def update(
        self,
        document_id: str,
        source: DocumentSource | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        progress: Callable[[Progress], object] | None = None,
        name: str | None = None,
        uri: str | None = None,
        **arguments: Unpack[ReadingArguments],
    ) -> SourceDocument:
        """Replaces a document's content or metadata, or both, in one commit; its id stays.

        Afterwards the chunks are exactly those of the new content. Only differences are written,
        and only passages with new text are embedded. Arguments not given stay; without a change
        nothing is written. Raises NotFoundError if the document does not exist,
        UnreadableDocumentError, before anything is written, if no text can be read from the file.
        `progress` is called as by `add`.
        """
        self._documents.resources.writable()
        reading = loading.check_arguments(arguments, self.update)
        about = None if metadata is None else check_json_object(metadata, "metadata")
        loaded = None
        if source is not None:
            loaded = await loading.loaded(source, reading, name=name, uri=uri)
        keeps_name = name is None and isinstance(source, bytes)
        return await Adding(self._documents).update(
            document_id, loaded, reading, about, progress, name, uri, keeps_name=keeps_name
        )

    async def delete(self, document_id: str) -> bool:
        """Deletes a document and its chunks in one commit; returns whether it existed.

        Older versions of the store still contain it: see `erase`.
        """
        return await Adding(self._documents).delete(document_id)

    async def erase(
        self,
        document_id: str,
        *,
        sole_writer: bool = False,
        dry_run: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> Erasure:
        """Erases a document from every file of the store. See `AsyncContextStore.erase`."""
        where = self._documents.all_of(document_id)
        meant = selector.of_table(self._documents.scope, DOCUMENTS_TABLE, where)
        check_progress(progress)
        whole = Whole(self._documents.resources, self._documents.scope)
        return await erase.erase(
            whole, meant, sole_writer=sole_writer, dry_run=dry_run, progress=progress
        )


def _called(source: object) -> str:
    if isinstance(source, bytes | bytearray | memoryview):
        return "untitled"
    return str(getattr(source, "name", source))


# Pages of an answer, and the limit for each document


async def _page(
    best: Callable[[int], Awaitable[builtins.list[SearchHit[DocumentChunk]]]],
    arguments: Mapping[str, Any],
    *,
    offset: int,
    per_document: int | None,
) -> builtins.list[SearchHit[DocumentChunk]]:
    """Returns `limit` of the `best` after the first `offset`, at most so many of one document."""
    limit = arguments.get("limit", searching.DEFAULTS["limit"])
    check_count(offset, "offset", least=0)
    if per_document is not None:
        check_count(per_document, "per_document")
    if not offset and per_document is None:
        return await best(limit)
    end = offset + check_count(limit, "limit", least=0)
    if per_document is None or not limit:
        return (await best(end if limit else 0))[offset:]
    wanted = max(end, AS_USUAL.n_candidates)
    while True:
        hits = await best(wanted)
        kept = _first_of_each(hits, per_document)
        if len(kept) >= end or len(hits) < wanted:
            return kept[offset:end]
        wanted *= _FURTHER


def _first_of_each(
    hits: Sequence[SearchHit[DocumentChunk]], n: int
) -> builtins.list[SearchHit[DocumentChunk]]:
    """Returns the hits in their order, the first `n` of each document."""
    seen, kept = Counter[str](), builtins.list[SearchHit[DocumentChunk]]()
    for one in hits:
        if seen[one.record.document_id] < n:
            seen[one.record.document_id] += 1
            kept.append(one)
    return kept

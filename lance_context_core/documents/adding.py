"""Adds files as documents, or as the new content of one, each in one commit."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lance_context_core._util.checks import check_name, dumps, loads
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.blobs.blobs import Keeping, let_go
from lance_context_core.codecs import sources
from lance_context_core.codecs.sources import DOCUMENT, Source
from lance_context_core.documents import loading
from lance_context_core.documents.loading import Loaded, ReadingArguments
from lance_context_core.documents.scoped import ScopedDocuments
from lance_context_core.documents.writing import Chunking, gone_of, inserted, keys_of, unchanged
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.spooled_batch import SpooledBatch
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.types import DocumentScope, Progress, SourceDocument


@frozen
class Adding:
    """Adds files to the documents of a scope, and replaces their content."""

    documents: ScopedDocuments

    async def add(
        self,
        loaded: Loaded,
        reading: ReadingArguments,
        place: DocumentScope,
        about: Mapping[str, Any],
        progress: Callable[[Progress], object] | None,
        *,
        is_by_uri: bool = False,
    ) -> SourceDocument:
        """Adds a file; returns the document, or the one that another writer added meanwhile.

        A file is identified by its content, or, with `is_by_uri`, by its URI.
        """
        named_by = (loaded.uri or "") if is_by_uri else loaded.spooled.hash
        made = await asyncio.to_thread(loading.read, loaded, reading, scope=place, metadata=about)
        keeping = Keeping(self.documents.blobs(), loaded, made)
        attempts = Attempts("the same document kept being added and deleted by others")
        while True:
            attempts.begin()
            id, found = await self.documents.free_id(place, named_by, is_uri=is_by_uri)
            if found is not None:
                return found
            now = self.documents.resources.clock.now()
            row = sources.to_row(made, id, scope=self.documents.scope, now=now)
            rows = await self._chunking(id, self.documents.scope, progress).rows(made, row, now)
            await keeping.before()
            if await inserted(self.documents.table, row, rows):
                await keeping.after()
                return sources.from_row(_whole(row))

    async def update(
        self,
        document_id: str,
        loaded: Loaded | None,
        reading: ReadingArguments,
        about: Mapping[str, Any] | None,
        progress: Callable[[Progress], object] | None,
        name: str | None = None,
        uri: str | None = None,
        *,
        keeps_name: bool,
        properties: Mapping[str, Any] | None = None,
    ) -> SourceDocument:
        """Replaces the content by that of a file, the metadata, or both; None leaves it unchanged."""
        made: Source | None = None
        attempts = Attempts("the same document kept being changed by others")
        while True:
            attempts.begin()
            old = await self.documents.row(document_id)
            kept = loads(old["metadata"], "metadata") if old["metadata"] else {}
            scope, owner = sources.from_row(old).scope, owner_of(old)
            chunking = self._chunking(document_id, owner, progress)
            before = await chunking.held(self.documents.parts(document_id))
            if loaded is None:
                made = unchanged(old, await self.documents.spooled_text(document_id), before)
            elif made is None:
                given = replace(loaded, uri=loaded.uri or old["uri"])
                if keeps_name:
                    given = replace(given, name=old["name"])
                made = await asyncio.to_thread(
                    loading.read, given, reading, scope=scope, metadata={}
                )
            made = replace(made, scope=scope, metadata=kept if about is None else about)
            if loaded is None and name is not None:
                made = replace(made, name=check_name(name, "name"))
            if loaded is None and uri is not None:
                made = replace(made, uri=check_name(uri, "uri"))
            if properties is not None:
                made = replace(made, properties=properties)
            now = self.documents.resources.clock.now()
            row = sources.to_row(made, document_id, scope=owner, now=now, old=old)
            rows = await chunking.rows(made, row, now, before)
            gone = gone_of(made, before)
            if len(rows) == 1 and not gone and sources.says_the_same(row, old):
                return sources.from_row(old)
            known = {key: one.revision for key, one in before.items()}
            known |= {old[KEY]: old["revision"]}
            seen = {key: known.get(key) for key in (*keys_of(rows), *gone)}
            keeping = Keeping(self.documents.blobs(owner), loaded, made)
            await keeping.before()
            batch = WriteBatch(deletes=gone, expect=seen, mode=Mode.UPSERT)
            if isinstance(rows, SpooledBatch):
                batch = replace(batch, bulk=rows)
            else:
                batch = replace(batch, rows=rows)
            if (await self.documents.table.write(batch)).is_done:
                await keeping.after(instead_of=old.get("payload_uri"))
                return sources.from_row(_whole(row))

    async def note(self, documents: Sequence[SourceDocument]) -> None:
        """Stores these documents' current properties, without a new revision, in one commit.

        If others change one of them at the same moment, each is a commit of its own.
        """
        table = self.documents.table
        said = {one.id: dumps(one.properties) for one in documents}
        which = [sql.equals("kind", DOCUMENT), sql.in_list("document_id", list(said))]
        columns = [name for name in (await table.schema()).names if not name.startswith("_")]
        old = (await table.select(self.documents.where(*which), columns=columns)).to_pylist()
        seen = {row[KEY]: row["revision"] for row in old}
        rows = [
            sources.succeeding(row, row) | {"properties": said[row["document_id"]]} for row in old
        ]
        batch = WriteBatch(rows, Mode.UPSERT, expect=seen)
        if len(seen) == len(rows) and (await table.write(batch)).is_done:
            return
        for id, properties in said.items():
            where = self.documents.one(id)
            await table.write(WriteBatch(where=where, values={"properties": properties}))

    async def delete(self, document_id: str) -> bool:
        """Deletes a document and its chunks in one commit; returns whether it existed."""
        where = self.documents.one(document_id)
        columns = ["payload_uri", *SCOPE_PARTS]
        rows = (await self.documents.table.select(where, columns=columns)).to_pylist()
        whole = WriteBatch(where=self.documents.all_of(document_id))
        n = (await self.documents.table.write(whole)).n_removed
        for row in rows:
            await let_go(self.documents.blobs(owner_of(row)), row.get("payload_uri"))
        return n > 0 and bool(rows)

    # Helpers

    def _chunking(
        self, id: str, owner: Scope, progress: Callable[[Progress], object] | None
    ) -> Chunking:
        return Chunking(
            table=self.documents.table,
            resources=self.documents.resources,
            id=id,
            owner=owner,
            progress=progress,
        )


def owner_of(row: Mapping[str, Any]) -> Scope:
    """Returns the scope that owns a document."""
    return Scope(**{part: row[part] for part in SCOPE_PARTS})


def _whole(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the row with None in its missing columns."""
    return {**dict.fromkeys(sources.COLUMNS), **row}

"""The rows of a document: existing ones, and those to write.

However long the document is, memory holds only the chunks of one step as rows, or a piece of its
text.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from operator import attrgetter
from typing import Any

from lance_context_core._embedding import embedded
from lance_context_core._progress import tell
from lance_context_core._resources import Resources
from lance_context_core._util import cooperative as steps
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.codecs import sources
from lance_context_core.codecs.sources import CHUNK, Source, Text
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.schema import KEY, SEARCH_TEXT, VECTOR
from lance_context_core.storage.spooled_batch import SpooledBatch
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.types import Passage, Progress

STEP = 512
"""How many chunks are made, embedded and spooled at a time."""


@frozen_by_name
class Held:
    """An existing chunk or piece, without its text and its vector."""

    is_chunk: bool
    position: int
    revision: int
    created_at: datetime
    passage: Passage
    says: bytes
    """A digest of its content."""
    embeds: bytes | None
    """A digest of the embedded text; a piece has none."""


Parts = Mapping[str, Held]
"""By key."""

NOTHING: Parts = {}

Rows = list[Row] | SpooledBatch
"""A document's own row, and those of its chunks; in memory, or spooled."""


@frozen_by_name
class Chunking:
    """The offsets of one document's chunks, and their conversion to rows."""

    table: Table
    resources: Resources
    id: str
    owner: Scope
    progress: Callable[[Progress], object] | None = None
    """Called with the passages, step by step, before they are written."""

    async def held(self, where: sql.Clause) -> dict[str, Held]:
        """Returns the matching chunks and pieces, all of this document."""
        found = dict[str, Held]()
        columns = sources.REPLACED
        async for batch in self.table.batches(where, columns=columns, batch_rows=STEP):
            rows = batch.to_pylist()
            held = await steps.each(self._held, rows)
            found |= {row[KEY]: one for row, one in zip(rows, held, strict=True)}
        return found

    async def rows(self, source: Source, row: Row, now: datetime, before: Parts = NOTHING) -> Rows:
        """Returns the rows to write for a document, `row` being its own: those of one step, or spooled.

        Skips chunks with the same content as `before`; a chunk whose text moved within the document
        reuses its vector. If there were none, they have the revision of `row`.
        """
        renew = Renewing(before, None if before else row["revision"])
        chunks = self._chunks(source, now, renew)
        if len(source.passages) <= STEP and not sources.n_pieces(source):
            return [row, *await anext(chunks, [])]

        async def all_steps() -> AsyncIterator[Sequence[Row]]:
            yield [row]
            for position in range(sources.n_pieces(source)):
                piece = sources.to_piece_row(source, self.id, position, scope=self.owner, now=now)
                if (new := renew(piece)) is not None:
                    yield [new]
            async for step in chunks:
                yield step

        return await self.table.spool(all_steps())

    async def _chunks(
        self, source: Source, now: datetime, renew: "Renewing"
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Yields the rows of the chunks, step by step; none is empty."""
        where = {one.embeds: key for key, one in renew.before.items() if one.is_chunk}

        def made(position: int) -> dict[str, Any] | None:
            row = sources.to_chunk_row(source, self.id, position, scope=self.owner, now=now)
            return renew(row)

        for start in range(0, len(source.passages), STEP):
            positions = range(start, min(start + STEP, len(source.passages)))
            rows = [row for row in await steps.each(made, positions) if row is not None]
            if rows:
                await self._make_found(rows, where)
            now_made = Progress(
                n_done=positions.stop,
                n_total=len(source.passages),
                what="passages",
                name=source.name,
            )
            await tell(self.progress, now_made)
            if rows:
                yield rows

    async def _make_found(
        self, rows: Sequence[dict[str, Any]], where: Mapping[bytes | None, str]
    ) -> None:
        """Adds search columns to rows; `where` maps digests to the keys of rows with the vectors."""
        composer = self.resources.composer
        shown = await steps.each(sources.as_record, rows)
        texts = [composer.embed_text(one) for one in shown]
        keys = [where.get(_digest(text)) for text in texts] if where else [None] * len(rows)
        known = await self._vectors({key for key in keys if key is not None})
        new = [index for index, key in enumerate(keys) if key not in known]
        vectors = await embedded(
            self.table,
            self.resources,
            given=[None] * len(new),
            texts=[texts[index] for index in new],
        )
        made_now = dict(zip(new, vectors, strict=True))
        for index, row in enumerate(rows):
            row[SEARCH_TEXT] = composer.index_text(shown[index])
            row[VECTOR] = made_now[index] if index in made_now else known[keys[index]]

    async def _vectors(self, keys: Collection[str]) -> dict[str | None, Any]:
        """Returns the vectors of chunks that have one, by key."""
        if not keys or VECTOR not in (await self.table.schema()).names:
            return {}
        where = sql.in_list(KEY, sorted(keys))
        rows = (await self.table.select(where, columns=[KEY, VECTOR])).to_pylist()
        return {row[KEY]: row[VECTOR] for row in rows if row[VECTOR] is not None}

    def _held(self, row: Mapping[str, Any]) -> Held:
        composer, is_chunk = self.resources.composer, row["kind"] == CHUNK
        return Held(
            is_chunk=is_chunk,
            position=row["position"],
            revision=row["revision"],
            created_at=row["created_at"],
            passage=sources.passage_of(row),
            says=_digest(sources.said(row)),
            embeds=_digest(composer.embed_text(sources.as_record(row))) if is_chunk else None,
        )


@frozen
class Renewing:
    """Decides from the previous rows how a row is written."""

    before: Parts
    revision: int | None
    """The columns common to all rows if all are new."""

    def __call__(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the row to write; None if its content is unchanged."""
        if (old := self.before.get(row[KEY])) is None:
            return row if self.revision is None else row | {"revision": self.revision}
        if _digest(sources.said(row)) == old.says:
            return None
        return sources.succeeding(row, {"revision": old.revision, "created_at": old.created_at})


async def inserted(table: Table, row: Row, rows: Rows) -> bool:
    """Adds the rows of a document, `row` being its own, in one commit, unless it exists by now.

    Returns whether they were added.
    """
    if isinstance(rows, SpooledBatch):
        return (await table.write(WriteBatch(bulk=rows, expect={row[KEY]: None}))).is_done
    return len((await table.write(WriteBatch(rows, Mode.INSERT))).lost) < len(rows)


def keys_of(rows: Rows) -> list[str]:
    """Returns the keys of rows."""
    return rows.keys if isinstance(rows, SpooledBatch) else [row[KEY] for row in rows]


def gone_of(source: Source, before: Parts) -> list[str]:
    """Returns the keys of previous rows that no longer exist."""
    n_chunks, n_pieces = len(source.passages), sources.n_pieces(source)
    return [
        key
        for key, one in before.items()
        if one.position >= (n_chunks if one.is_chunk else n_pieces)
    ]


def unchanged(row: Mapping[str, Any], text: Text, before: Parts) -> Source:
    """Returns the stored state of an unchanged document."""
    document = sources.from_row(row)
    chunks = sorted((one for one in before.values() if one.is_chunk), key=attrgetter("position"))
    return Source(
        name=document.name,
        type=document.type,
        hash=document.hash,
        size=document.size,
        text=text,
        passages=tuple(one.passage for one in chunks),
        scope=document.scope,
        title=document.title,
        n_pages=document.n_pages,
        uri=document.uri,
        payload_uri=row.get("payload_uri"),
        blob=row["blob"],
        metadata=document.metadata,
        properties=document.properties,
    )


def _digest(value: object) -> bytes:
    return blake2b(repr(value).encode(), digest_size=16).digest()

"""Images, recordings and films in the store: added, analysed, and found with other records."""

import asyncio
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

from lance_context_core._handle import handle
from lance_context_core._util.calls import takes
from lance_context_core._util.checks import (
    check_count,
    check_json_object,
    check_name,
    check_span,
    check_text,
    shown,
)
from lance_context_core.blobs.blobs import AsyncBlobs, Keeping, ScopedBlobs, let_go
from lance_context_core.documents.loading import DocumentSource, load
from lance_context_core.errors import NotFoundError, UnreadableDocumentError
from lance_context_core.filters import FilterLike
from lance_context_core.media import captioning
from lance_context_core.media.captioning import (
    KINDS,
    ImageAnalysis,
    ImageAnalyzer,
    from_record,
    image_id,
    said_of,
    to_record,
    with_said,
)
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.search import query as searching
from lance_context_core.search.options import ALONE, SearchArguments
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import IMAGES_COLLECTION
from lance_context_core.storage.write_batch import WriteBatch
from lance_context_core.stores.records import changes, writes
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.stores.records.writes import Draft
from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.types import ContextRecord, Document, ImageRecord, SearchHit
from lance_context_core.types.media import SCHEME

# Media types by the first bytes of a file: names and declared types are not trusted.

MediaKind = Literal["image", "audio", "video"]

_MARKS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
    b"ID3": "audio/mpeg",
    b"fLaC": "audio/flac",
    b"OggS": "audio/ogg",
    b"\x1aE\xdf\xa3": "video/webm",
}
_FORMS = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
"""Types of files that begin with `RIFF`."""
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1"), "image/heic"),
}
"""Brands of MP4 containers that are images."""
_FRAMES = {b"\xff\xfb", b"\xff\xf3", b"\xff\xf2"}
"""The first bytes of an MP3 without a tag."""


def type_of(content: bytes, name: str) -> str:
    """Returns a file's media type. Raises UnreadableDocumentError for an unsupported one."""
    head = content[:1024]
    for mark, type in _MARKS.items():
        if head.startswith(mark):
            return type
    if head.startswith(b"RIFF") and (type := _FORMS.get(head[8:12], "")):
        return type
    if head[4:8] == b"ftyp":
        return "audio/mp4" if head[8:11] == b"M4A" else _BRANDS.get(head[8:12], "video/mp4")
    if head[:2] in _FRAMES:
        return "audio/mpeg"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<svg") or (start.startswith((b"<?xml", b"<!")) and b"<svg" in start):
        return "image/svg+xml"
    if not content:
        raise UnreadableDocumentError(f"{name!r} is empty: it has no byte")
    raise UnreadableDocumentError(
        f"{name!r} is not a picture, sound or film of a supported format: store it in store.blobs"
    )


def kind_of(content_type: str) -> str:
    """Returns `image`, `audio` or `video`."""
    return content_type.partition("/")[0]


_MEDIA = sql.in_list("kind", KINDS)


@handle
class AsyncImages:
    """Images, recordings and films: each is a record, found by the store's search.

    The record has the kind `image`, `audio` or `video` and the description as its text; its bytes
    are a blob.
    """

    _records: Records

    async def add(
        self,
        source: DocumentSource,
        *,
        name: str | None = None,
        session_id: str = "",
        caption: str | None = None,
        text: str | None = None,
        tags: Sequence[str] = (),
        vector: Sequence[float] | None = None,
        metadata: Mapping[str, Any] | None = None,
        analyzer: ImageAnalyzer | None = None,
        max_bytes: int = 256 * 1024 * 1024,
        max_pixels: int = 64_000_000,
    ) -> ImageRecord:
        """Adds a file with its description; leaves one that its scope and session have unchanged.

        - `source`: a path, the bytes of a file, or an open one. Its first bytes determine the type.
        - `name`: its name, if the source has none.
        - `caption`, `text`, `tags`: a caption, the text or speech in it, and words of
          your own: all are searched.
        - `vector`: its vector in a space of images: see `similar`.
        - `analyzer`: fills those that you do not give.
        - `max_bytes`, `max_pixels`: larger files are refused before decoding.

        Raises UnreadableDocumentError, before anything is written, for a broken, too large, or
        unsupported file; MissingExtraError for an image without the extra `images`.
        """
        self._records.resources.writable()
        given = ImageAnalysis(
            caption=_text(caption, "caption"),
            text=_text(text, "text"),
            tags=captioning.check_tags(tags),
            vector=vector,
        )
        about = check_json_object(metadata or {}, "metadata")
        session = check_name(session_id, "session_id") if session_id else None
        analyzer = captioning.check_analyzer(analyzer)
        max_pixels = check_count(max_pixels, "max_pixels")
        loaded = await asyncio.to_thread(
            load, source, name=name, uri=None, max_bytes=check_count(max_bytes, "max_bytes")
        )
        spooled = loaded.spooled
        if (found := await self.get(image_id(session, spooled.hash))) is not None:
            return found

        def made() -> tuple[ContextRecord, ImageAnalysis]:
            content = spooled.content()
            content_type = type_of(content, loaded.name)
            seen = captioning.look(content, content_type, name=loaded.name, max_pixels=max_pixels)
            said = _joined(given, captioning.analyzed(analyzer, content, content_type))
            record = to_record(
                seen,
                said,
                kind=kind_of(content_type),
                content_type=content_type,
                name=loaded.name,
                hash=spooled.hash,
                size=spooled.size,
                uri=f"{SCHEME}{spooled.hash}",
                session_id=session,
                metadata=about,
                now=self._records.now(),
            )
            return record, said

        record, said = await asyncio.to_thread(made)
        keeping = Keeping(self._blobs(), loaded, record, record.content_type)
        await keeping.before()
        await self._place(record.id, said.vector)
        draft = Draft(record=record, identity=("id", record.id))
        await writes.insert(self._records, lambda _, one: one, [draft], keep_existing=True)
        await keeping.after()
        return await self._required(record.id)

    @takes(SearchArguments, searching.DEFAULTS)
    async def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        session_id: str | None = None,
        **arguments: Unpack[SearchArguments],
    ) -> builtins.list[SearchHit[ImageRecord]]:
        """Returns the best matches for `query` by caption, text and tags, best first.

        In one session, or in all. `AsyncContextStore.search` finds them among all other records.
        """
        within = {} if session_id is None else {"session_id": check_name(session_id, "session_id")}
        hits = await self._records.search(query, _MEDIA, within=within, room=ALONE, **arguments)
        return [
            SearchHit(
                record=from_record(hit.record), score=hit.score, channels=hit.channels, why=hit.why
            )
            for hit in hits
        ]

    async def similar(
        self, to: str | Sequence[float], *, limit: int = 10
    ) -> builtins.list[SearchHit[ImageRecord]]:
        """Returns the images with the nearest vectors, best first; only those with a vector.

        `to` is a vector, of an image or of a query in the same space, or the id of an image with
        one. Raises NotFoundError if that has none, DimensionMismatchError for another length.
        """
        vector: Any = to
        if isinstance(to, str):
            (found, *_) = [*await self._vectors().get([to], include_embedding=True), None]
            if found is None or found.embedding is None:
                raise NotFoundError(f"to={shown(to)}: no picture with that id and a vector")
            vector = found.embedding
        if not await self._vectors().count():
            return []
        near = await self._vectors().search(vector, limit=limit + isinstance(to, str))
        records = {
            one.id: one
            for one in await self._read(sql.in_list("id", [n.record.id or "" for n in near]))
        }
        return [
            SearchHit(
                record=records[hit.record.id], score=hit.score, channels=hit.channels, why=hit.why
            )
            for hit in near
            if hit.record.id in records and hit.record.id != to
        ][:limit]

    async def get(self, image_id: str) -> ImageRecord | None:
        """Returns an image's description; None if the id does not exist."""
        found = await self._read(sql.equals("id", check_name(image_id, "image_id")))
        return next(iter(found), None)

    async def list(
        self,
        *,
        session_id: str | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> builtins.list[ImageRecord]:
        """Returns all images, or a session's, in the order of adding: `limit` after `offset`."""
        check_span(offset=offset, limit=limit, last=None)
        where = self._records.where(_MEDIA, *_session(session_id), filter=filter)
        found = await self._records.read(where, offset=offset, limit=limit, columns=WITHOUT_BLOB)
        return [from_record(one) for one in found]

    async def count(
        self, *, session_id: str | None = None, filter: FilterLike | None = None
    ) -> int:
        """Returns the number of images that `list` would return."""
        where = self._records.where(_MEDIA, *_session(session_id), filter=filter)
        return await self._records.table.count(where)

    async def content(self, image_id: str) -> bytes:
        """Returns the bytes of the file. Raises NotFoundError if the id does not exist."""
        found = await self._required(image_id)
        return await AsyncBlobs(self._blobs(_owner(found))).get(found.hash)

    async def thumbnail(self, image_id: str) -> bytes | None:
        """Returns a thumbnail of at most 256 x 256 pixels, JPEG or PNG; None for other media.

        Raises NotFoundError if the id does not exist.
        """
        where = self._records.where(_MEDIA, sql.equals("id", check_name(image_id, "image_id")))
        for one in await self._records.read(where):
            return one.blob
        raise NotFoundError(f"image_id={shown(image_id)}: no such picture")

    async def update(
        self,
        image_id: str,
        *,
        caption: str | None = None,
        text: str | None = None,
        tags: Sequence[str] | None = None,
        vector: Sequence[float] | None = None,
        metadata: Mapping[str, Any] | None = None,
        analyzer: ImageAnalyzer | None = None,
    ) -> ImageRecord:
        """Updates the description with the given values and the analyzer's; the rest stays.

        Raises NotFoundError if the id does not exist.
        """
        self._records.resources.writable()
        found = await self._required(image_id)
        given = ImageAnalysis(
            caption=_text(caption, "caption"),
            text=_text(text, "text"),
            tags=() if tags is None else captioning.check_tags(tags),
            vector=vector,
        )
        about = None if metadata is None else check_json_object(metadata, "metadata")
        if (analyzer := captioning.check_analyzer(analyzer)) is not None:
            content = await self.content(image_id)
            seen = await asyncio.to_thread(
                captioning.analyzed, analyzer, content, found.content_type
            )
            given = _joined(given, seen)

        def change(record: ContextRecord) -> ContextRecord:
            said = _joined(given, said_of(record))
            if tags is not None:
                said = replace(said, tags=given.tags)
            record = with_said(record, said)
            return (
                replace(record, embedding=None)
                if about is None
                else replace(record, embedding=None, metadata=about)
            )

        await self._place(image_id, given.vector)
        where = self._records.where(_MEDIA, sql.equals("id", image_id))
        if await changes.patch(self._records, where, change) is None:
            raise NotFoundError(f"image_id={shown(image_id)}: no such picture")
        return await self._required(image_id)

    async def delete(self, image_id: str) -> bool:
        """Deletes a file's record, and its bytes unless still named; returns whether it existed.

        Older versions of the store still contain it: see `AsyncContextStore.erase`, which takes its
        id.
        """
        self._records.resources.writable()
        found = await self.get(image_id)
        where = self._records.own(_MEDIA, sql.equals("id", image_id))
        n = (await self._records.table.write(WriteBatch(where=where))).n_removed
        if found is not None:
            if await self._vectors().get([image_id]):
                await self._vectors().delete([image_id])
            await let_go(self._blobs(_owner(found)), found.uri)
        return n > 0

    # Helpers

    async def _read(self, *conditions: sql.Clause) -> builtins.list[ImageRecord]:
        where = self._records.where(_MEDIA, *conditions)
        found = await self._records.read(where, columns=WITHOUT_BLOB)
        return [from_record(one) for one in found]

    async def _required(self, image_id: str) -> ImageRecord:
        if (found := await self.get(image_id)) is None:
            raise NotFoundError(f"image_id={shown(image_id)}: no such picture")
        return found

    def _blobs(self, owner: Scope | None = None) -> ScopedBlobs:
        scope = self._records.scope if owner is None else owner
        return ScopedBlobs(self._records.resources, scope)

    def _vectors(self) -> AsyncVectors:
        return AsyncVectors(IMAGES_COLLECTION, self._records.resources, self._records.scope)

    async def _place(self, id: str, vector: Sequence[float] | None) -> None:
        """Stores an image's vector."""
        if vector is not None:
            await self._vectors().upsert([Document(id=id, embedding=vector)])


def _text(text: str | None, what: str) -> str | None:
    return None if text is None else check_text(text, what)


def _joined(one: ImageAnalysis, other: ImageAnalysis) -> ImageAnalysis:
    """Returns the first analysis, with its absent values from the other one."""
    return ImageAnalysis(
        caption=one.caption if one.caption is not None else _text(other.caption, "caption"),
        text=one.text if one.text is not None else _text(other.text, "text"),
        tags=one.tags or captioning.check_tags(other.tags),
        vector=one.vector if one.vector is not None else other.vector,
    )


def _session(session_id: str | None) -> builtins.list[sql.Clause]:
    if session_id is None:
        return []
    return [sql.equals("session_id", check_name(session_id, "session_id"))]


def _owner(image: ImageRecord) -> Scope:
    """Returns its owner."""
    return Scope(**{part: getattr(image, part) for part in SCOPE_PARTS})

"""The documents that one handle sees: their conditions and reads."""

import weakref
from collections.abc import Iterable, Mapping, Sequence
from tempfile import SpooledTemporaryFile
from typing import Any

import pyarrow as pa

from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_name, check_names, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.blobs.blobs import ScopedBlobs
from lance_context_core.codecs import sources
from lance_context_core.codecs.sources import CHUNK, DOCUMENT, TEXT, Text
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.filters import SOURCE_FIELDS, FilterLike
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.database import DOCUMENTS_TABLE
from lance_context_core.storage.lance.schema import DOCUMENTS, KEY
from lance_context_core.storage.table import Table
from lance_context_core.stores.scoped import Scoped
from lance_context_core.types import DocumentScope, SourceDocument

# Conditions on scopes, types and ids.

Scopes = DocumentScope | Sequence[DocumentScope]
"""One scope, or several."""


def place_of(scope: object) -> DocumentScope:
    """Returns the scope of a document; without one, that for all."""
    if scope is None:
        return DocumentScope()
    if not isinstance(scope, DocumentScope):
        raise InvalidRequestError(
            f"scope={shown(scope)}: give DocumentScope(conversation_id=…) or (project_id=…)"
        )
    return scope


def in_scopes(scope: Scopes | None) -> sql.Clause:
    """Matches documents in one of the scopes, or for all."""
    if scope is None:
        return sql.EVERYTHING
    given = [scope] if isinstance(scope, DocumentScope) else scope
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidRequestError(f"scope={shown(scope)}: give a DocumentScope, or several")
    everybody = sql.all_of([sql.is_absent("conversation_id"), sql.is_absent("project_id")])
    named = [
        sql.equals(part, value)
        for one in map(place_of, given)
        for part in ("conversation_id", "project_id")
        if (value := getattr(one, part)) is not None
    ]
    return sql.any_of([everybody, *named])


def among(column: str, values: str | Sequence[str] | None, where: str) -> sql.Clause:
    """Matches rows whose column has one of the values; everything for None."""
    if values is None:
        return sql.EVERYTHING
    return sql.in_list(column, check_names([values] if isinstance(values, str) else values, where))


def below(path: str | Sequence[str] | None) -> sql.Clause:
    """Matches documents whose name is one of these paths, or is below one of these folders."""
    if path is None:
        return sql.EVERYTHING
    paths = check_names([path] if isinstance(path, str) else path, "path")
    plain = [one.strip("/") for one in paths]
    return sql.any_of(
        sql.any_of([sql.equals("name", one), sql.starts_with("name", f"{one}/")]) for one in plain
    )


# A text of any length; a long one is in a file, and read in parts on demand.

_IN_MEMORY = 4 * 1024 * 1024
_CODEC, _WIDTH = "utf-32-le", 4
"""An encoding of fixed width, so that offsets can be computed."""


class SpooledText:
    """A text in an unnamed file, which is deleted with the last reference."""

    def __init__(self) -> None:
        """Starts empty."""
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - see above
        self._length = 0
        weakref.finalize(self, self._file.close)

    def put(self, start: int, text: str) -> None:
        """Writes a part of it, which starts at the character `start`."""
        self._file.seek(start * _WIDTH)
        self._file.write(text.encode(_CODEC))
        self._length = max(self._length, start + len(text))

    def __len__(self) -> int:
        """Returns the number of characters so far."""
        return self._length

    def __getitem__(self, part: slice) -> str:
        """Returns the characters of a slice, as of a `str`."""
        start, end, _ = part.indices(self._length)
        self._file.seek(start * _WIDTH)
        return self._file.read(max(end - start, 0) * _WIDTH).decode(_CODEC)


@frozen
class ScopedDocuments(Scoped):
    """The documents of one scope: reads and writes nothing outside."""

    @property
    def table(self) -> Table:
        """The table of documents and chunks."""
        return self.resources.database.table(DOCUMENTS_TABLE, DOCUMENTS)

    # Conditions

    def all_of(self, document_id: str) -> sql.Clause:
        """Matches all rows of a document: its own and those of its chunks."""
        return self.where(sql.equals("document_id", check_name(document_id, "document_id")))

    def one(self, document_id: str, kind: str = DOCUMENT) -> sql.Clause:
        """Matches the document's own row, or its rows of another `kind`."""
        return sql.all_of([sql.equals("kind", kind), self.all_of(document_id)])

    def parts(self, document_id: str) -> sql.Clause:
        """Matches the document's chunks and the pieces of its text."""
        return sql.all_of([sql.in_list("kind", [CHUNK, TEXT]), self.all_of(document_id)])

    def listed(
        self,
        scope: Scopes | None,
        type: str | Sequence[str] | None,
        path: str | Sequence[str] | None,
        filter: FilterLike | None,
    ) -> sql.Clause:
        """Matches documents' own rows that fit the arguments."""
        return self.where(
            sql.equals("kind", DOCUMENT),
            in_scopes(scope),
            among("file_type", type, "type"),
            below(path),
            sql.filtered(filter, columns=SOURCE_FIELDS),
        )

    # Reading

    async def find(self, document_id: str) -> SourceDocument | None:
        """Returns a document's description; None if the id does not exist."""
        rows = await self.table.select(self.one(document_id), columns=sources.COLUMNS)
        return next(iter(await steps.each_row(sources.from_row, rows)), None)

    async def known(
        self, place: DocumentScope, hash: str, uri: str | None
    ) -> SourceDocument | None:
        """Returns the document of a file: the one with that URI, else the one with that content.

        It is in exactly that scope, of the handle's own scope exactly.
        """
        ways = [sql.equals("hash", hash), *([] if uri is None else [sql.equals("uri", uri)])]
        found = await self._own(place, sql.any_of(ways))
        # A document of that URI with the same content needs no change.
        ranked = sorted(found, key=lambda one: (uri is None or one.uri != uri, one.hash != hash))
        return next(iter(ranked), None)

    async def located(self, place: DocumentScope) -> list[SourceDocument]:
        """Returns the documents of exactly that scope that have a URI, oldest first."""
        return await self._own(place, sql.is_present("uri"))

    async def free_id(
        self, place: DocumentScope, named_by: str, *, is_uri: bool
    ) -> tuple[str, SourceDocument | None]:
        """Returns a file's id, the same for all concurrent writers, and its existing document, if any.

        The file is `named_by` the hash of its bytes, or its URI. The first choice is used if a
        document started with that, and has another by now.
        """
        attempt = 0
        while True:
            id = sources.document_id(self.scope, place, named_by, attempt)
            if (found := await self.find(id)) is None:
                return id, None
            if named_by == (found.uri if is_uri else found.hash):
                return id, found
            attempt += 1

    async def values(self, document_id: str, *columns: str) -> dict[str, Any]:
        """Returns columns of a document's row, by name. Raises NotFoundError if it does not exist."""
        return await self._read(document_id, columns)

    async def text(self, document_id: str) -> str:
        """Returns the whole text of a document. Raises NotFoundError if it does not exist."""
        where = sql.all_of([sql.in_list("kind", [DOCUMENT, TEXT]), self.all_of(document_id)])
        found = await self.table.select(where, columns=["kind", "position", "text"])
        rows = found.to_pylist()
        if not any(row["kind"] == DOCUMENT for row in rows):
            raise _not_there(document_id)
        return "".join(
            row["text"] or "" for row in sorted(rows, key=lambda row: row["position"] or 0)
        )

    async def spooled_text(self, document_id: str) -> Text:
        """As `text`; a text in pieces is not joined in memory."""
        if (own := (await self.values(document_id, "text"))["text"]) is not None:
            return str(own)
        found = SpooledText()
        where, columns = self.one(document_id, TEXT), ["position", "text"]
        async for batch in self.table.batches(where, columns=columns, batch_rows=1):
            for row in batch.to_pylist():
                found.put(row["position"] * sources.PIECE, row["text"])
        return found

    def blobs(self, owner: Scope | None = None) -> ScopedBlobs:
        """The blobs of the documents: of this scope, or of another one."""
        return ScopedBlobs(self.resources, self.scope if owner is None else owner)

    async def row(self, document_id: str) -> dict[str, Any]:
        """Returns a document's row without its text, before a replace. Raises NotFoundError if absent."""
        columns = (KEY, "revision", "document_id", *sources.COLUMNS, "blob")
        where = self.one(document_id)
        rows = await self.table.select(where, columns=columns)
        if rows.num_rows > 1 and await self.table.take_back_later(where):
            rows = await self.table.select(where, columns=columns)
        return _first(rows, document_id)

    async def _read(self, document_id: str, columns: Sequence[str]) -> dict[str, Any]:
        return _first(await self.table.select(self.one(document_id), columns=columns), document_id)

    async def _own(self, place: DocumentScope, which: sql.Clause) -> list[SourceDocument]:
        """Returns the documents in exactly that scope, of the handle's own scope exactly."""
        wanted = {
            "kind": DOCUMENT,
            "conversation_id": place.conversation_id,
            "project_id": place.project_id,
        }
        where = self.where(sql.all_of([sql.all_equal(wanted), which]))
        rows = await self.table.select(where, columns=sources.COLUMNS)
        return [one for one in await steps.each_row(sources.from_row, rows) if self._is_own(one)]

    def _is_own(self, document: SourceDocument) -> bool:
        """Whether it was written in exactly this scope, not in a narrower one."""
        return all(getattr(document, part) == getattr(self.scope, part) for part in SCOPE_PARTS)


def _first(rows: pa.Table, document_id: str) -> dict[str, Any]:
    if not rows.num_rows:
        raise _not_there(document_id)
    return dict(rows.slice(0, 1).to_pylist()[0])


def _not_there(document_id: str) -> NotFoundError:
    return NotFoundError(f"document_id={shown(document_id)}: no such document")

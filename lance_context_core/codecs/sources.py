"""Files that were read, and their chunks, to rows and back."""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Protocol

from lance_context_core._util.checks import dumps, loads
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.codecs.records import key_of
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.names import new_revision, next_revision
from lance_context_core.types import (
    ContextRecord,
    DocumentChunk,
    DocumentScope,
    Passage,
    SourceDocument,
)

DOCUMENT, CHUNK, TEXT = "document", "chunk", "text"
"""The kinds of rows: a document, a passage of it, and a piece of the text of a long one."""

PIECE = 1024 * 1024
"""How many characters a piece holds. A text of no more is in the document's own row."""

_SHARED = ("name", "file_type", "title", "uri", "conversation_id", "project_id", "metadata")
"""What a chunk repeats of its document, since a search asks and reads the chunks alone."""

COLUMNS = (
    *("id", *SCOPE_PARTS, "created_at", "updated_at", *_SHARED),
    *("hash", "size", "n_pages", "n_chunks", "properties", "payload_uri"),
)
"""What a document is read from, without its text and its bytes."""

CHUNK_COLUMNS = (
    *("id", "document_id", "position", "start_offset", "end_offset", "page", "section", "text"),
    *_SHARED,
)
"""What a chunk is read from."""

REPLACED = (KEY, "revision", "created_at", "kind", *CHUNK_COLUMNS)
"""What is read of a chunk or piece that another one may replace."""

_LATER = (KEY, "revision", "created_at", "updated_at")
"""In what two rows may differ that say the same."""


class Text(Protocol):
    """A text, of which parts are asked for; not all of it need be in memory."""

    def __len__(self) -> int:
        """How many characters it has."""

    def __getitem__(self, part: slice, /) -> str:
        """The characters from one offset to another."""


@frozen_by_name
class Source:
    """All that is kept of a file."""

    name: str
    type: str
    hash: str
    size: int
    text: Text = field(repr=False)
    passages: tuple[Passage, ...]
    scope: DocumentScope
    title: str | None = None
    n_pages: int | None = None
    uri: str | None = None
    payload_uri: str | None = None
    """The blob that its bytes are, if they are kept."""
    blob: bytes | None = field(default=None, repr=False)
    """The bytes as an older release kept them."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)

    def shared(self) -> dict[str, Any]:
        """What its chunks repeat."""
        return {
            "name": self.name,
            "file_type": self.type,
            "title": self.title,
            "uri": self.uri,
            "conversation_id": self.scope.conversation_id,
            "project_id": self.scope.project_id,
            "metadata": dumps(self.metadata),
        }


def document_id(scope: Scope, place: DocumentScope, hash: str, attempt: int = 0) -> str:
    """The id of what has this content in these scopes; another one for each further attempt."""
    whose = (scope.tenant, scope.user_id, scope.agent_id)
    path = (*whose, place.conversation_id, place.project_id, hash, attempt)
    return sha256(repr(path).encode()).hexdigest()[:32]


def chunk_id(document_id: str, position: int) -> str:
    """The id of a document's chunk."""
    return f"{document_id}:{position}"


def is_chunk_id(id: str) -> bool:
    """Whether it is a chunk's, or a piece's; no document has a colon in its id."""
    return ":" in id


def to_row(
    source: Source, id: str, *, scope: Scope, now: datetime, old: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The row of a document, which replaces the row `old`, if there is one."""
    return {
        **_identity(scope, id, DOCUMENT, now, old),
        "document_id": id,
        **source.shared(),
        "hash": source.hash,
        "size": source.size,
        "n_pages": source.n_pages,
        "n_chunks": len(source.passages),
        "text": None if n_pieces(source) else source.text[:],
        "properties": dumps(source.properties),
        "blob": source.blob,
        "payload_uri": source.payload_uri,
    }


def n_pieces(source: Source) -> int:
    """In how many pieces its text is kept; none if that is in its own row."""
    return 0 if len(source.text) <= PIECE else -(-len(source.text) // PIECE)


def to_piece_row(
    source: Source, id: str, position: int, *, scope: Scope, now: datetime
) -> dict[str, Any]:
    """The row of a piece of its text."""
    start = position * PIECE
    return {
        **_identity(scope, f"{id}:{TEXT}:{position}", TEXT, now, None),
        "document_id": id,
        "position": position,
        "start_offset": start,
        "end_offset": min(start + PIECE, len(source.text)),
        "text": source.text[start : start + PIECE],
    }


def to_chunk_row(
    source: Source, id: str, position: int, *, scope: Scope, now: datetime
) -> dict[str, Any]:
    """The row of one of the document's passages, without what it is found by."""
    passage = source.passages[position]
    return {
        **_identity(scope, chunk_id(id, position), CHUNK, now, None),
        "document_id": id,
        "position": position,
        "start_offset": passage.start,
        "end_offset": passage.end,
        "page": passage.page,
        "section": passage.section,
        "text": _under(passage.header, source.text[passage.start : passage.end]),
        **source.shared(),
    }


def passage_of(row: Mapping[str, Any]) -> Passage:
    """Where the chunk of a row stands, and the header that its text begins with."""
    start, end, text = row["start_offset"], row["end_offset"], row["text"] or ""
    n_above = len(text) - (end - start)
    return Passage(
        start=start,
        end=end,
        page=row["page"],
        section=row["section"],
        header=text[: n_above - 1] if n_above > 1 else None,
    )


def _under(header: str | None, text: str) -> str:
    return text if header is None else f"{header}\n{text}"


def succeeding(row: dict[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """The row as one that replaces `old`."""
    revision = next_revision(old["revision"])
    return row | {"created_at": old["created_at"], "revision": revision}


def says_the_same(row: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether a document's row says what the `old` one does, as far as that was read."""
    names = old.keys() & row.keys() - {*_LATER, "metadata"}
    is_same = all(row[name] == old[name] for name in names)
    return is_same and loads(row["metadata"], "metadata") == loads(old["metadata"], "metadata")


def said(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the row of a chunk or piece says: written alike, of any two that say the same."""
    said = {name: row.get(name) for name in CHUNK_COLUMNS}
    metadata = loads(said.pop("metadata") or "null", "metadata")
    return (*said.values(), json.dumps(metadata, sort_keys=True))


def from_row(row: Mapping[str, Any]) -> SourceDocument:
    """The document of a row."""
    return SourceDocument(
        created_at=row["created_at"].replace(tzinfo=UTC),
        updated_at=row["updated_at"].replace(tzinfo=UTC),
        properties=loads(row["properties"], "properties") if row["properties"] else {},
        **{name: row[name] for name in ("id", "hash", "size", "n_pages", "n_chunks")},
        **{part: row[part] for part in SCOPE_PARTS},
        **_shared(row),
    )


def from_chunk_row(row: Mapping[str, Any]) -> DocumentChunk:
    """The chunk of a row."""
    return DocumentChunk(
        **{name: row[name] for name in ("id", "document_id", "text", "position")},
        **{name: row[name] for name in ("page", "section")},
        start=row["start_offset"],
        end=row["end_offset"],
        **_shared(row),
    )


def as_record(row: Mapping[str, Any]) -> ContextRecord:
    """A chunk as a `Composer` is shown it: the headings above it say what it is about."""
    text = _with_whole_words(row["text"])
    if (section := row["section"]) and not text.lstrip("# ").startswith(section):
        text = f"{section}\n{text}"
    return ContextRecord(
        id=row["id"],
        kind="document",
        content_type="text/plain",
        created_at=row["created_at"],
        updated_at=row["created_at"],
        text=text,
        metadata=loads(row["metadata"], "metadata") if row["metadata"] else {},
    )


_SOFT_HYPHEN = re.compile("\u00ad(?:\\r?\\n[ \\t]*)?")
_PARTED = re.compile(r"(?<![^\W\d_])([^\W\d_]{2,60})-\r?\n[ \t]*([^\W\d_]{2,60})")


def _with_whole_words(text: str) -> str:
    """The text with each word that a line's end parts in one, and as it stands, which may be meant."""

    def whole(found: re.Match[str]) -> str:
        before, behind = found.groups()
        return f"{before}{behind} {before}-{behind}" if behind[0].islower() else found[0]

    return _PARTED.sub(whole, _SOFT_HYPHEN.sub("", text))


def _identity(
    scope: Scope, id: str, kind: str, now: datetime, old: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        KEY: key_of(scope, "source", id),
        "id": id,
        "kind": kind,
        "created_at": old["created_at"] if old else now,
        "updated_at": now,
        "revision": next_revision(old["revision"]) if old else new_revision(),
        **scope.parts(),
    }


def _shared(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": row["name"],
        "type": row["file_type"],
        "title": row["title"],
        "uri": row["uri"],
        "scope": DocumentScope(
            conversation_id=row["conversation_id"], project_id=row["project_id"]
        ),
        "metadata": loads(row["metadata"], "metadata") if row["metadata"] else {},
    }

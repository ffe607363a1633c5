"""Converts chunks of agentscope 2.x to documents of the store, and back; and their filters."""

import hashlib
from collections.abc import Mapping
from typing import Any

from agentscope_lance_context.agentscope2._framework import Chunk, TextBlock, VectorRecord
from lance_context_core import Document, Field, Filter, InvalidRequestError
from lance_context_core.filters import And

_CHUNK = "agentscope_chunk"
"""The metadata key of fields that are not the chunk's own metadata."""


def to_document(record: VectorRecord) -> Document:
    """The document of a record, with an id that is unique among all chunks."""
    chunk = record.chunk
    if _CHUNK in chunk.metadata:
        raise InvalidRequestError(
            f"the metadata of a chunk of {record.document_id!r:.80} have the key {_CHUNK!r}, "
            "which has a meaning here: take another"
        )
    content = chunk.content.model_dump(mode="json")
    text = content.pop("text", None)
    return Document(
        id=_id_of(record.document_id, chunk.chunk_index),
        text=text,
        embedding=record.vector,
        metadata={
            **chunk.metadata,
            _CHUNK: {
                "document_id": record.document_id,
                "source": chunk.source,
                "index": chunk.chunk_index,
                "total": chunk.total_chunks,
                "content": content,
            },
        },
    )


def to_chunk(document: Document) -> Chunk:
    """The chunk of a document; a document of another framework has a single one."""
    metadata = dict(document.metadata)
    known = metadata.pop(_CHUNK, None)
    if known is None:
        return Chunk(
            content=TextBlock(text=document.text or ""),
            source=str(metadata.get("source", "")),
            chunk_index=0,
            total_chunks=1,
            metadata=metadata,
        )
    text = {} if document.text is None else {"text": document.text}
    return Chunk(
        content={**known["content"], **text},
        source=known["source"],
        chunk_index=known["index"],
        total_chunks=known["total"],
        metadata=metadata,
    )


def document_id_of(document: Document) -> str:
    """The id of a chunk's document."""
    known = document.metadata.get(_CHUNK)
    return known["document_id"] if known else document.id or ""


def of_document(document_id: str) -> Filter:
    """The filter for chunks of a document, also one of another framework."""
    place = Field("metadata", _CHUNK, "document_id")
    is_foreign = ~Field("metadata", _CHUNK).exists()
    return place.eq(document_id) | (is_foreign & Field("id").eq(document_id))


def from_index(first: int, end: int) -> Filter:
    """The filter for chunks with an index from `first` to before `end`."""
    index = Field("metadata", _CHUNK, "index")
    within = index.gte(first) & index.lt(end)
    return within | ~index.exists() if first == 0 else within


def matching(metadata_filter: Mapping[str, Any] | None) -> Filter:
    """The filter for chunks with these metadata; without any, for all chunks."""
    wanted = (metadata_filter or {}).items()
    return And(tuple(Field("metadata", key).eq(value) for key, value in wanted))


def _id_of(document_id: str, chunk_index: int) -> str:
    return hashlib.sha256(f"{document_id}\0{chunk_index}".encode()).hexdigest()

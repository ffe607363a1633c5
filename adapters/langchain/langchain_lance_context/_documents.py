"""Converts LangChain's documents to the store's, and back."""

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.documents import Document

from lance_context_core import ContextRecord, InvalidRequestError
from lance_context_core import Document as StoredDocument
from lance_context_core.adapting import content_of, facts_of, listed
from lance_context_core.results import SearchHit
from langchain_lance_context._values import decode_object, encode_object

FACTS = "lance_context"
"""The metadata key of a hit's score, channels and other facts."""


def from_texts(
    texts: Iterable[str],
    metadatas: Iterable[Mapping[str, Any] | None] | None,
    *,
    ids: Iterable[str | None] | None,
    batch_size: int | None = None,  # noqa: ARG001 - the indexing API says it; here one call is one commit
) -> list[StoredDocument]:
    """The documents to store; the store generates an id for None."""
    texts = listed(texts, "texts")
    metadatas = _as_many(metadatas, "metadatas", texts)
    return [
        StoredDocument(id=id, text=text, metadata=encode_object(metadata or {}, f"metadatas[{n}]"))
        for n, (text, metadata, id) in enumerate(
            zip(texts, metadatas, _as_many(ids, "ids", texts), strict=True)
        )
    ]


def from_documents(
    documents: Iterable[Document],
    *,
    ids: Iterable[str | None] | None = None,
    batch_size: int | None = None,
) -> list[StoredDocument]:
    """The documents to store; `ids` take precedence over the documents' own."""
    documents = listed(documents, "documents")
    for number, one in enumerate(documents):
        if not isinstance(one, Document):
            raise InvalidRequestError(
                f"documents[{number}] is a {type(one).__name__}: pass Document('…')"
            )
    return from_texts(
        [one.page_content for one in documents],
        [one.metadata for one in documents],
        ids=[one.id for one in documents] if ids is None else ids,
        batch_size=batch_size,
    )


def to_document(stored: StoredDocument) -> Document:
    """With its id and exactly its original metadata."""
    return Document(
        id=stored.id, page_content=stored.text or "", metadata=decode_object(stored.metadata)
    )


def to_scored(hits: Iterable[SearchHit[StoredDocument]]) -> list[tuple[Document, float]]:
    """The documents of hits, with scores in [0, 1], in order."""
    return [(to_document(hit.record), hit.score) for hit in hits]


def from_document_hit(hit: SearchHit[StoredDocument]) -> Document:
    """The documents of hits in a collection, with facts of the search under `FACTS`."""
    document = to_document(hit.record)
    document.metadata[FACTS] = _facts(hit)
    return document


def from_record_hit(hit: SearchHit[ContextRecord]) -> Document:
    """A record as a document; its content is the text, or the captions of its images.

    The store's facts are under `FACTS`, as JSON, without absent ones.
    """
    record = hit.record
    return Document(
        id=record.id,
        page_content=content_of(record),
        metadata={**decode_object(record.metadata), FACTS: _facts(hit) | facts_of(record)},
    )


def _facts(hit: SearchHit[Any]) -> dict[str, Any]:
    return {"score": hit.score, "channels": list(hit.matched_channels)}


def _as_many(values: Iterable[Any] | None, name: str, texts: list[str]) -> list[Any]:
    found = [None] * len(texts) if values is None else listed(values, name)
    if len(found) != len(texts):
        raise InvalidRequestError(
            f"{len(found)} {name} for {len(texts)} texts: give one for each, or None for an absent one"
        )
    return found

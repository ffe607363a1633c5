"""Memory records of CrewAI as documents and memories, and back.

A record is a document of the collection `crewai`: the vector, and all that CrewAI filters by. Its
text is a memory of the same id in `store.memory`, which other frameworks read, change and delete. A
private or blank text is in the document, and nowhere else. The id of a document begins with its
owner: a store without a scope would else replace the document of a user that has the same id.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import and_
from typing import Any

from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord

from crewai_lance_context import _paths as paths
from lance_context_core import Document, InvalidRequestError, Message
from lance_context_core.adapting import JsonCodec
from lance_context_core.filters import Field, Filter

_CODEC = JsonCodec()
_CONTENT = "content"

_PLAIN = (str, int, float, bool)
"""What the store compares as Python does; a filter for anything else is evaluated here."""


# Writing


def document(record: MemoryRecord, *, id: str, root: str, owner: str) -> Document:
    """The document of a record, under an id of its owner. Raises InvalidRequestError for no JSON."""
    path = paths.below(root, paths.normal(record.scope))
    metadata: dict[str, Any] = {
        "owner": owner,
        "scopes": paths.ancestors(path),
        "at": sortable(record.created_at),
        "created_at": record.created_at.isoformat(),
        "last_accessed": record.last_accessed.isoformat(),
        "scope": path if root != "/" else record.scope,
        "categories": list(record.categories),
        "metadata": _CODEC.encode_object(record.metadata, f"the metadata of record {record.id!r}"),
        "importance": record.importance,
        "source": record.source,
        "private": record.private,
    }
    if not is_shared(record):
        metadata[_CONTENT] = record.content
    embedding = record.embedding or None
    return Document(id=id, text="", embedding=embedding, metadata=metadata)


def memory(record: MemoryRecord, made: Document) -> Message | None:
    """The record as a memory for every framework; None if it is not to be seen by them."""
    if not is_shared(record):
        return None
    about = {name: made.metadata[name] for name in ("scope", "categories", "importance", "source")}
    metadata = {**made.metadata["metadata"], "crewai": about}
    created = as_utc(record.created_at)
    return Message.user(record.content, id=record.id, created_at=created, metadata=metadata)


def is_shared(record: MemoryRecord) -> bool:
    """Whether other frameworks may read it."""
    return not record.private and bool(record.content.strip())


def check_all(records: Sequence[Any]) -> None:
    """Refuses what is no record, and vectors of several lengths."""
    lengths = []
    for index, one in enumerate(records):
        if not isinstance(one, MemoryRecord):
            raise InvalidRequestError(f"records[{index}]={one!r:.80}: give a MemoryRecord")
        if one.embedding:
            lengths.append(len(one.embedding))
    for length in lengths:
        if length != lengths[0]:
            raise EmbeddingDimensionMismatchError(lengths[0], length)


# Reading


def is_in_memory(found: Document) -> bool:
    """Whether its text is a memory of the same id."""
    return _CONTENT not in found.metadata


def record(
    found: Document, content: str, *, id: str, root: str, touched: datetime | None = None
) -> MemoryRecord:
    """The record of a document and its text."""
    about = found.metadata
    accessed = datetime.fromisoformat(about["last_accessed"])
    if touched is not None and as_utc(touched) > as_utc(accessed):
        accessed = touched
    vector = found.embedding
    return MemoryRecord(
        id=id,
        content=content,
        scope=paths.without(root, about["scope"]),
        categories=about["categories"],
        metadata=_CODEC.decode_object(about["metadata"]),
        importance=about["importance"],
        created_at=datetime.fromisoformat(about["created_at"]),
        last_accessed=accessed,
        embedding=None if vector is None else [float(one) for one in vector],
        source=about["source"],
        private=about["private"],
    )


def content_of(found: Document) -> str:
    """The text of a document that is not a memory."""
    return str(found.metadata[_CONTENT])


def score_of(cosine: float) -> float:
    """The score by which CrewAI ranks: 1 / (1 + d²), of vectors whose length is 1."""
    return 1.0 / (1.0 + max(0.0, 2.0 - 2.0 * cosine))


# Conditions


def condition(
    *,
    owner: str,
    path: str = "/",
    categories: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    older_than: datetime | None = None,
) -> tuple[Filter, dict[str, Any]]:
    """What documents must meet, and the part of `metadata` that `matches` decides."""
    found: list[Filter] = [Field("metadata", "owner").eq(owner)]
    if path != "/":
        found.append(Field("metadata", "scopes").contains(path))
    if categories:
        found.append(Field("metadata", "categories").contains_any(categories))
    if older_than is not None:
        found.append(Field("metadata", "at").lt(sortable(older_than)))
    rest = {}
    for key, value in (metadata or {}).items():
        if isinstance(key, str) and key and type(value) in _PLAIN and value == value:  # noqa: PLR0124 - NaN
            found.append(Field("metadata", "metadata", key).eq(value))
        else:
            rest[key] = value
    return reduce(and_, found), rest


def matches(found: Document, rest: Mapping[str, Any]) -> bool:
    """Whether the metadata of a document is equal, by Python's comparison."""
    has = _CODEC.decode_object(found.metadata["metadata"])
    return all(has.get(key) == value for key, value in rest.items())


def as_utc(moment: datetime) -> datetime:
    """A time with its zone: a naive one is UTC, as CrewAI makes them."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def sortable(moment: Any) -> str:
    """A text that is ordered as times are."""
    if not isinstance(moment, datetime):
        raise InvalidRequestError(f"older_than={moment!r:.80}: give a datetime")
    return as_utc(moment).replace(tzinfo=None).isoformat(timespec="microseconds")

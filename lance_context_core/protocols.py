"""Protocols that the store implements, and protocols for objects of the caller.

The first (`HistoryProvider`, `SessionStore`, `VectorStore`, `MemoryService`, `KeyValueStore`, `BlobStore`,
`GraphStore`) are asynchronous; the blocking counterparts have the same names and parameters. `lance_context_testing`
has a class of conformance tests for each of them.
"""

import builtins
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any, Literal, Protocol, TypedDict, Unpack, runtime_checkable

import pyarrow as pa

from lance_context_core._util.calls import takes
from lance_context_core.filters import FilterLike
from lance_context_core.messages import Message
from lance_context_core.types import (
    Blob,
    ContextRecord,
    Document,
    Item,
    ItemsAppended,
    ItemsWritten,
    Page,
    SearchHit,
    Session,
)
from lance_context_core.types.graph import Entity, Relation, SubGraph

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Clock and reranker
    "Clock",
    "Reranker",
    # Stores
    "HistoryProvider",
    "MemoryService",
    "SessionStore",
    "VectorStore",
    "KeyValueStore",
    "BlobStore",
    "GraphStore",
    "CypherCapable",
    # Their terms
    "SearchMode",
    "ItemKey",
    "ItemConditions",
    "ItemListing",
    "ItemOrder",
]


# What is promised of bytes.


@runtime_checkable
class BlobStore(Protocol):
    """Bytes, each stored once under their SHA-256.

    A `ref` is the `Blob` that `put` returned, its `uri`, or its `hash`. For a missing blob
    `get`, `read`, `stream`, `url`, `pin` and `unpin` raise NotFoundError.
    """

    async def put(
        self,
        source: bytes | Path | IO[bytes],
        *,
        content_type: str = "application/octet-stream",
        ttl: timedelta | None = None,
        pinned: bool = False,
    ) -> Blob:
        """Store bytes; existing bytes are stored once, with the later expiry."""

    async def get(self, ref: Blob | str) -> bytes:
        """All of its bytes."""

    async def read(self, ref: Blob | str, *, start: int = 0, length: int | None = None) -> bytes:
        """`length` of its bytes from `start` on, or all from there; fewer at the end."""

    def stream(
        self, ref: Blob | str, *, start: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes]:
        """As `read`, part by part."""

    async def info(self, ref: Blob | str) -> Blob | None:
        """The metadata of a blob; None if it does not exist."""

    async def exists(self, ref: Blob | str) -> bool:
        """Whether the blob exists."""

    async def url(self, ref: Blob | str) -> str:
        """A URL that a browser or a model can open."""

    async def pin(self, ref: Blob | str) -> Blob:
        """Keep it though its time is over."""

    async def unpin(self, ref: Blob | str) -> Blob:
        """Let it go its way again."""

    async def delete(self, ref: Blob | str) -> bool:
        """Remove it; returns whether it was there. Raises InvalidRequestError while it is pinned."""

    async def sweep(self) -> int:
        """Remove expired blobs; returns their number."""


# What callers may bring: their own time, and their own order of what was found.


@runtime_checkable
class Clock(Protocol):
    """Where the store gets the time from; injected, so that tests own it."""

    def now(self) -> datetime:
        """The current moment, aware."""


@runtime_checkable
class Reranker(Protocol):
    """Reorders the candidates of a search; each of LanceDB's rerankers is one.

    A vector search calls `rerank_vector(query, vector_results)` instead, and a text search
    `rerank_fts(query, fts_results)`, so a reranker for these needs them. All are called in worker
    threads, possibly concurrently.
    """

    def rerank_hybrid(
        self, query: str, vector_results: pa.Table, fts_results: pa.Table
    ) -> pa.Table:
        """Rows with the `_rowid` and a finite `_relevance_score` of each row to keep, in any order.

        Both tables hold `_rowid` and `text` of their candidates, best first, and `_distance`
        (1 - cosine) or `_score` (BM25).
        """


# What is promised of conversations: their messages, and what is known about them.


@runtime_checkable
class HistoryProvider(Protocol):
    """Conversations, each known by an agent and a session.

    `agent_id` may be empty: the session then belongs to no agent in particular. Order is the order
    in which appends were acknowledged; the messages of one call stay together.
    """

    async def append(
        self, agent_id: str, message: Message, *, session_id: str, run_id: str = ""
    ) -> str:
        """Add one message at the end; returns its id."""

    async def append_many(
        self, agent_id: str, messages: Sequence[Message], *, session_id: str, run_id: str = ""
    ) -> list[str]:
        """Add messages at the end, all or none of them, in one commit; returns their ids.

        A message whose id the session already has is unchanged, so a retry is safe.
        Raises AlreadyExistsError, before anything is written, if its content differs.
        """

    async def get_messages(
        self,
        agent_id: str,
        *,
        session_id: str,
        limit: int | None = None,
        offset: int = 0,
        last: int | None = None,
    ) -> list[Message]:
        """Messages in order: the first `limit` after `offset`, or the `last` ones.

        With `last`, `offset` counts from the end. An unknown session has no messages.
        """

    async def clear(self, agent_id: str, *, session_id: str) -> int:
        """Forget a session's messages; returns how many there were."""

    async def clear_run(self, agent_id: str, *, session_id: str, run_id: str) -> int:
        """Forget the messages of one run in a session; returns how many there were."""

    async def count(self, agent_id: str, *, session_id: str) -> int:
        """How many messages a session has; 0 if it is unknown."""


@runtime_checkable
class SessionStore(Protocol):
    """Descriptions of conversations, without their messages."""

    async def create(
        self,
        session_id: str | None = None,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """Describe a session; an absent id is generated.

        A session that exists is returned as it is: creating never loses anything.
        """

    async def get(self, session_id: str) -> Session | None:
        """A session that was created or has messages; else None."""

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        ended_at: datetime | None = None,
    ) -> Session:
        """Change the given fields only. Raises NotFoundError for an unknown session."""

    async def list(self, *, limit: int | None = None, offset: int = 0) -> builtins.list[Session]:
        """Sessions, the most recently active first."""

    async def delete(self, session_id: str) -> bool:
        """Forget a session and its messages; returns whether there was anything to forget."""


# What is promised of entities and their relations.


@runtime_checkable
class GraphStore(Protocol):
    """Entities, and directed relations between them."""

    async def add_entities(self, entities: Sequence[Entity]) -> builtins.list[Entity]:
        """Add entities, or replace those with the same ids; returns them with their ids.

        Without an id, entities with one name and type are the same.
        """

    async def add_relations(self, relations: Sequence[Relation]) -> builtins.list[Relation]:
        """Add relations, or replace those of the same ids; returns them with their ids.

        Raises NotFoundError, before anything is written, for an end that is not there.
        """

    async def get(self, entity_id: str) -> Entity | None:
        """An entity; None if there is none."""

    async def get_relation(self, relation_id: str) -> Relation | None:
        """A relation; None if there is none."""

    async def neighbours(
        self,
        entity_id: str,
        *,
        depth: int = 1,
        types: str | Sequence[str] | None = None,
        direction: Literal["out", "in", "both"] = "both",
    ) -> SubGraph:
        """The entity, then its neighbours up to `depth` relations away, nearest first.

        With all traversed relations, limited to the given types. Raises NotFoundError if the entity
        does not exist.
        """

    async def delete_entity(self, entity_id: str) -> bool:
        """Remove an entity with its relations; returns whether it was there."""

    async def delete_relation(self, relation_id: str) -> bool:
        """Remove a relation; returns whether it was there. Its ends stay."""


@runtime_checkable
class CypherCapable(Protocol):
    """A graph that answers read-only Cypher queries."""

    async def cypher(
        self, query: str, *, parameters: Mapping[str, Any] | None = None
    ) -> builtins.list[dict[str, Any]]:
        """The rows of the query, by column name; a `$name` is a parameter.

        Raises InvalidRequestError for queries that write or are not supported.
        """


# What is promised of key-value items, and the words in which they are asked for.

ItemKey = tuple[tuple[str, ...], str]
"""The namespace and the key of a key-value item."""

ItemOrder = Literal["key", "created", "updated"]
"""By namespace and key, or by when an item was created or last written."""


class ItemConditions(TypedDict, total=False):
    """Which key-value items are meant: those that meet all conditions."""

    prefix: Sequence[str | None]
    """The first segments of the namespace; None is any one segment: `(None, "notes")`."""
    suffix: Sequence[str | None]
    """The last segments."""
    namespace: Sequence[str | None] | None
    """All of them."""
    filter: FilterLike | None
    """On the value, and on `key`, `data_type`, `created_at`, `updated_at` and `expires_at`."""


class ItemListing(ItemConditions, total=False):
    """A part of the key-value items that meet all conditions, in order."""

    key_prefix: str
    """How the key begins."""
    after: str | None
    """The exclusive lower bound of the key."""
    before: str | None
    """The exclusive upper bound of the key."""
    order: ItemOrder
    reverse: bool
    """Turns the whole order round."""
    limit: int | None
    """How many, after `offset`."""
    offset: int


CONDITIONS: Mapping[str, Any] = {"prefix": (), "suffix": (), "namespace": None, "filter": None}
"""The defaults of `ItemConditions`."""

LISTING: Mapping[str, Any] = {
    **CONDITIONS,
    "key_prefix": "",
    "after": None,
    "before": None,
    "order": "key",
    "reverse": False,
    "limit": None,
    "offset": 0,
}
"""The defaults of `ItemListing`."""


@runtime_checkable
class KeyValueStore(Protocol):
    """JSON objects and bytes by namespace and key; expired items do not exist.

    A namespace is a tuple of texts, and conditions compare whole segments: `("user", "1")` is
    not a prefix of `("user", "10")`.
    """

    async def get(
        self, keys: Sequence[ItemKey], *, include_data: bool = True
    ) -> builtins.list[Item | None]:
        """The items of these namespaces and keys, in their order; None for one that is not there."""

    @takes(ItemListing, LISTING)
    async def list(
        self, *, include_data: bool = True, **which: Unpack[ItemListing]
    ) -> builtins.list[Item]:
        """The items that meet all conditions, in order."""

    @takes(ItemListing, LISTING)
    async def keys(self, **which: Unpack[ItemListing]) -> builtins.list[ItemKey]:
        """The namespaces and keys of the items that `list` would return."""

    @takes(ItemConditions, CONDITIONS)
    async def count(self, **which: Unpack[ItemConditions]) -> int:
        """How many items meet the conditions."""

    async def namespaces(
        self,
        *,
        prefix: Sequence[str | None] = (),
        suffix: Sequence[str | None] = (),
        max_depth: int | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> builtins.list[tuple[str, ...]]:
        """The namespaces that have items, each once, in order; cut to `max_depth` segments."""

    @takes(ItemConditions, CONDITIONS)
    async def search(
        self,
        query: str | Sequence[float],
        *,
        limit: int = 10,
        offset: int = 0,
        **which: Unpack[ItemConditions],
    ) -> builtins.list[SearchHit[Item]]:
        """The items that have the nearest vectors, best first; as many as `limit` if there are."""

    async def put(self, items: Sequence[Item]) -> None:
        """Write items, replacing existing ones, in one commit; `created_at` is unchanged.

        If two have the same key, the last one is stored.
        """

    async def add(self, items: Sequence[Item]) -> builtins.list[bool]:
        """Write the items whose keys are free, in one commit; returns which were written.

        If two have the same key, the first one is stored.
        """

    async def append(self, items: Sequence[Item]) -> ItemsAppended:
        """Write items whose keys are known to be new, in one commit."""

    async def delete(self, keys: Sequence[ItemKey]) -> builtins.list[bool]:
        """Remove items in one commit; returns for each key whether it existed."""

    async def write(
        self,
        *,
        puts: Sequence[Item] = (),
        adds: Sequence[Item] = (),
        deletes: Sequence[ItemKey] = (),
        expected: Mapping[ItemKey, int | None] | None = None,
    ) -> ItemsWritten:
        """Delete, add and put, in this order and in one commit.

        Raises AlreadyExistsError, and writes nothing, if a key of `adds` is taken; ConflictError if
        an item has another `revision` than `expected`, or exists although None is expected.
        """

    async def delete_under(self, prefix: Sequence[str]) -> int:
        """Remove all items whose namespaces begin with these segments; returns how many."""

    async def touch(self, keys: Sequence[ItemKey], *, expires_at: datetime | None) -> int:
        """Let items expire at another moment, or never; returns how many of them there were."""

    async def sweep(self) -> int:
        """Remove expired items from storage; returns their number."""

    async def version(self) -> int:
        """The number of the items' version, which every change of them makes another one."""

    async def names(self) -> builtins.list[str]:
        """The names of all key-value stores, including this one, in order."""


# What is promised of what is found by its meaning: documents, and the memories of users.

SearchMode = Literal["hybrid", "vector", "text"]
"""By words and vectors at once, or by one of them."""


@runtime_checkable
class VectorStore(Protocol):
    """One collection of documents with vectors; every collection has a dimension of its own."""

    async def add(self, documents: Sequence[Document]) -> list[str]:
        """Add documents in one commit; returns their ids, in order.

        Raises AlreadyExistsError, before anything is written, if an id is taken by another text.
        """

    async def upsert(self, documents: Sequence[Document]) -> list[str]:
        """Add documents, replacing those whose ids exist, in one commit; returns their ids."""

    async def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        vector: Sequence[float] | None = None,
        mode: SearchMode | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
    ) -> list[SearchHit[Document]]:
        """The best matches, best first; as many as `limit` if as many match `filter`."""

    async def get(self, ids: Sequence[str]) -> list[Document]:
        """Documents in the order of `ids`; unknown ids are left out."""

    async def delete(
        self, ids: Sequence[str] | None = None, *, filter: Mapping[str, Any] | None = None
    ) -> int:
        """Delete by id, by filter, or by both at once; returns how many there were."""

    async def count(self, *, filter: Mapping[str, Any] | None = None) -> int:
        """How many documents match."""

    async def list_collections(self) -> list[str]:
        """The names of all collections, in alphabetical order."""

    async def delete_collection(self) -> int:
        """Remove this collection; returns how many documents it had."""


@runtime_checkable
class MemoryService(Protocol):
    """Long-term memories of users, stored by session, found across sessions."""

    async def add(
        self,
        memories: Sequence[str | Message],
        *,
        user_id: str = "",
        session_id: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> builtins.list[str]:
        """Remember texts or messages in one commit; returns their ids.

        A memory whose message id exists is unchanged, so a retry is safe.
        Raises AlreadyExistsError, before anything is written, if its content differs.
        """

    async def search(
        self,
        query: str,
        *,
        user_id: str = "",
        session_id: str | None = None,
        mode: SearchMode | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
    ) -> builtins.list[SearchHit[ContextRecord]]:
        """The user's memories about `query`, best first; in one session, or in all."""

    async def list(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        page: int = 1,
        page_size: int = 10,
    ) -> Page[ContextRecord]:
        """A user's memories by session, then in the order in which they were added."""

    async def delete(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Forget a user's memories: all, those of one session, or some; returns how many."""

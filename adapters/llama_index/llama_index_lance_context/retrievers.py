"""What the store remembers, as LlamaIndex's retriever."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilters

from lance_context_core import ContextRecord, Document, InvalidRequestError
from lance_context_core.adapting import (
    Handle,
    HandleOwner,
    StoreLike,
    content_of,
    facts_of,
    in_steps,
)
from lance_context_core.arguments import FilterLike, SearchMode
from lance_context_core.results import SearchHit
from lance_context_core.settings import SearchOptions
from llama_index_lance_context._filters import to_filter
from llama_index_lance_context._given import collection_given, store_given
from llama_index_lance_context._nodes import to_node
from llama_index_lance_context._values import decode_object
from llama_index_lance_context._words import check_count, in_words

FACTS = "lance_context"
"""The metadata key of a node with the fields of its record."""

_WORDS = (
    (
        r"(?<= needs a vector: ).*",
        "give a collection's or a URI's embed_model, open the store with an embedder, or use mode='text'",
    ),
    (r"^vector\b", "embedding"),
    (r"^query\b", "query_str"),
)
"""What the store calls otherwise than a retriever's users."""


class LanceContextRetriever(HandleOwner, BaseRetriever):
    """Retrieves nodes by words and by meaning at once.

    Without a `collection` it searches the store's records: the messages of all conversations, the
    memories and other records of every framework. A record's node has its
    own metadata, and under `lance_context`, which no prompt shows, what the store knows of it:
    `kind`, `role`, `session_id`, `user_id`, `created_at` and the like, without what is absent.

    With one it searches the nodes of a `LanceContextVectorStore`, all of them, of whatever class
    they are and whichever index added them. What finds them is the query's own embedding, else that
    of the `embed_model`, else that of the store's embedder; records are found by the query's text.

    Scores lie in [0, 1] and are those of the store's search. `aretrieve` blocks no event loop.
    """

    def __init__(
        self,
        store: StoreLike | None = None,
        *,
        uri: StoreLike | None = None,
        collection: str | None = None,
        table_name: str | None = None,
        embed_model: BaseEmbedding | None = None,
        similarity_top_k: int = 4,
        mode: SearchMode | None = None,
        filters: MetadataFilters | FilterLike | None = None,
        neighbours: float | None = None,
        options: SearchOptions | None = None,
        tenant: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `embed_model`: what the collection, or the store at the URI, is embedded with; an open
          store has its own.
        - `similarity_top_k`: how many nodes to return at most.
        - `mode`: `hybrid`, `vector` or `text`; absent means hybrid where a vector can be had, else
          text.
        - `filters`: which may be found, as LlamaIndex's or in the store's own filter language.
        - `neighbours`: in [0, 1], the share of their scores that the turns before and after lend to
          a record.
        - `options`: how hits are fused and ranked.
        - `tenant`, `user_id`, `agent_id`: the scope of what may be found.
        - `session_id`: the only session whose records may be found; absent means all.
        - `object_map`, `objects`: what index nodes stand for, as other retrievers take it.

        `uri` and `table_name` are what other classes call `store` and `collection`. What contradicts
        itself raises InvalidRequestError, a ValueError.
        """
        super().__init__(callback_manager, object_map, objects, verbose)
        store = store_given(store, uri)
        collection = collection_given(collection, table_name)
        if collection is None:
            if embed_model is not None and not isinstance(store, str | Path):
                raise InvalidRequestError(
                    "embed_model: the records of an open store are embedded by its own embedder; "
                    "open the store with it, or name a collection"
                )
        elif session_id is not None or neighbours is not None:
            raise InvalidRequestError(
                "session_id and neighbours are for records: the nodes of a collection belong to no "
                "session; filter by their metadata"
            )
        self._handle = Handle(store, embedder=embed_model)
        self._scope = {"tenant": tenant, "user_id": user_id, "agent_id": agent_id}
        self._collection = collection
        self._embed_model = None if mode == "text" else embed_model
        self._how: dict[str, Any] = {
            "filter": _joined(session_id, filters),
            "mode": mode,
            "limit": check_count(similarity_top_k, "similarity_top_k"),
            "options": options
            if neighbours is None
            else replace(options or SearchOptions(), neighbours=neighbours),
        }

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        room = self._handle.sync.scope(**self._scope)
        text = query_bundle.query_str
        if self._collection is None:
            with in_words(*_WORDS):
                return [_from_record(hit) for hit in room.search(text, **self._how)]
        vector = query_bundle.embedding
        if vector is None and self._embed_model is not None:
            texts = query_bundle.embedding_strs
            vector = self._embed_model.get_agg_embedding_from_queries(texts)
        vectors = room.vectors(self._collection)
        with in_words(*_WORDS):
            hits = vectors.search(text, vector=vector, **self._how)
        return [_from_document(hit) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        room = self._handle.aio.scope(**self._scope)
        text = query_bundle.query_str
        if self._collection is None:
            with in_words(*_WORDS):
                records = await room.search(text, **self._how)
            return await in_steps(_from_record, records)
        vector = query_bundle.embedding
        if vector is None and self._embed_model is not None:
            texts = query_bundle.embedding_strs
            vector = await self._embed_model.aget_agg_embedding_from_queries(texts)
        vectors = room.vectors(self._collection)
        with in_words(*_WORDS):
            hits = await vectors.search(text, vector=vector, **self._how)
        return await in_steps(_from_document, hits)


def _joined(
    session_id: str | None, filters: MetadataFilters | FilterLike | None
) -> FilterLike | None:
    """One filter in the store's language of what a session and filters say."""
    if isinstance(filters, MetadataFilters):
        filters = to_filter(filters)
    if session_id is None:
        return filters
    session = {"session_id": session_id}
    return session if filters is None else {"$and": [session, filters]}


def _from_document(hit: SearchHit[Document]) -> NodeWithScore:
    return NodeWithScore(node=to_node(hit.record), score=hit.score)


def _from_record(hit: SearchHit[ContextRecord]) -> NodeWithScore:
    record = hit.record
    node = TextNode(
        id_=record.id,
        text=content_of(record),
        metadata={**decode_object(record.metadata), FACTS: facts_of(record)},
        excluded_llm_metadata_keys=[FACTS],
        excluded_embed_metadata_keys=[FACTS],
    )
    return NodeWithScore(node=node, score=hit.score)

"""LlamaIndex's retriever over the store's records or a collection."""

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
"""Parameters with another name in the store."""


class LanceContextRetriever(HandleOwner, BaseRetriever):
    """Retrieves nodes by words and by meaning at once.

    Without a `collection` it searches the store's records: messages of all conversations, memories
    and other records of every framework. A record's node has its own metadata, and under
    `lance_context`, which no prompt shows, the store's facts: `kind`, `role`, `session_id`,
    `user_id`, `created_at` and others, without absent ones.

    With one it searches the nodes of a `LanceContextVectorStore`, of every class and index. It uses
    the query's own embedding, else that of the `embed_model`, else that of the store's embedder;
    records are found by the query's text.

    Scores are in [0, 1], from the store's search. `aretrieve` blocks no event loop.
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

        - `embed_model`: the embedder of the collection, or of a store at a URI; an open store has
          its own.
        - `similarity_top_k`: maximum number of nodes.
        - `mode`: `hybrid`, `vector` or `text`; absent means hybrid if a vector is available, else
          text.
        - `filters`: LlamaIndex's, or in the store's own filter language.
        - `neighbours`: in [0, 1], the share of their scores that neighbouring turns add to a
          record.
        - `options`: how hits are fused and ranked.
        - `tenant`, `user_id`, `agent_id`: the scope of the search.
        - `session_id`: the only session to search; absent means all.
        - `object_map`, `objects`: the objects of index nodes, as in other retrievers.

        `uri` and `table_name` are other names of `store` and `collection`, as in other classes.
        Contradictory arguments raise InvalidRequestError, a ValueError.
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
    """The store's filter for a session and filters."""
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

"""LangChain's retriever over the store's records or a collection."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, PrivateAttr

from lance_context_core import ContextStore, InvalidRequestError, Vectors
from lance_context_core.adapting import Handle, HandleOwner, StoreLike
from lance_context_core.arguments import FilterLike, SearchMode
from lance_context_core.results import SearchHit
from lance_context_core.settings import SearchOptions
from langchain_lance_context._documents import from_document_hit, from_record_hit
from langchain_lance_context._filters import metadata_first
from langchain_lance_context._keywords import check_keywords


class LanceContextRetriever(HandleOwner, BaseRetriever):
    """Retrieves nodes by words and by meaning at once.

    Without a `collection` it searches the store's records: messages of all conversations, memories
    and other records of every framework. `invoke` takes `k` and `mode` in place of the retriever's
    own, and a `filter` that narrows it further.

    A document's metadata is the record's own. `lance_context` in it has the store's facts: `score`
    in [0, 1] and `channels`, and for a record also its `kind`, `role`, `session_id`, `user_id`,
    `created_at` and others, without absent ones.

    Fields that contradict each other raise pydantic's ValidationError, a ValueError.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    store: StoreLike
    """An open store, which stays open, or a URI, which `close` closes again."""
    embedding: Embeddings | None = None
    """The embedder of the collection, or of a store at a URI; an open store has its own."""
    collection: str | None = None
    """The collection to search; absent means the records."""
    k: int = 4
    """Maximum number of documents."""
    filter: Any = None
    """Filters records or documents, in the store's filter language; in a collection as in
    `LanceContextVectorStore`."""
    mode: SearchMode | None = None
    """`hybrid`, `vector` or `text`; absent means hybrid where the store can embed, else text."""
    neighbours: float | None = None
    """In [0, 1]: the share of their scores that neighbouring turns add to a record."""
    options: Any = None
    """The store's `SearchOptions`: how hits are fused and ranked."""
    tenant: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    """With `tenant` and `user_id`, the scope of the search."""
    session_id: str | None = None
    """The only session to search; absent means all."""

    _handle: Handle = PrivateAttr()
    _search: Callable[..., list[SearchHit[Any]]] = PrivateAttr()
    _asearch: Callable[..., Awaitable[list[SearchHit[Any]]]] = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Opens the store."""
        super().model_post_init(context)
        self._refuse_contradictions()
        self._handle = Handle(self.store, embedder=self.embedding)
        scope = {"tenant": self.tenant, "user_id": self.user_id, "agent_id": self.agent_id}
        scoped = self._handle.aio.scope(**scope)
        if self.collection is None:
            self._search, self._asearch = ContextStore(scoped).search, scoped.search
        else:
            aio = scoped.vectors(self.collection, embedder=self.embedding)
            self._search, self._asearch = Vectors(aio).search, aio.search

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - the base class passes it
        **kwargs: Any,
    ) -> list[Document]:
        return self._documents(self._search(query, **self._how(**kwargs)))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - the base class passes it
        **kwargs: Any,
    ) -> list[Document]:
        return self._documents(await self._asearch(query, **self._how(**kwargs)))

    def _how(
        self,
        *,
        k: int | None = None,
        filter: FilterLike | None = None,
        mode: SearchMode | None = None,
        **others: Any,
    ) -> dict[str, Any]:
        """The search arguments: of `invoke`, else of the fields."""
        check_keywords(others, ("k", "filter", "mode"), "invoke")
        session = None if self.session_id is None else {"session_id": self.session_id}
        filters = [one for one in (session, self.filter, filter) if one is not None]
        if self.collection is not None:
            filters = [metadata_first(one) or {} for one in filters]
        options = self.options
        if self.neighbours is not None:
            options = replace(options or SearchOptions(), neighbours=self.neighbours)
        return {
            "filter": {"$and": filters} if len(filters) > 1 else next(iter(filters), None),
            "mode": mode or self.mode,
            "limit": self.k if k is None else k,
            "options": options,
        }

    def _documents(self, hits: list[SearchHit[Any]]) -> list[Document]:
        convert = from_record_hit if self.collection is None else from_document_hit
        return [convert(hit) for hit in hits]

    def _refuse_contradictions(self) -> None:
        if self.collection is not None and self.session_id is not None:
            raise InvalidRequestError(
                f"session_id={self.session_id!r}: the documents of a collection belong to no "
                "session; filter by their metadata"
            )
        is_open = not isinstance(self.store, str | Path)
        if self.collection is None and self.embedding is not None and is_open:
            raise InvalidRequestError(
                "embedding: the records of an open store are embedded by its own embedder; "
                "open the store with it, or name a collection"
            )

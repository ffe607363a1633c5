"""CrewAI's knowledge in the store: `Knowledge(storage=LanceKnowledgeStorage("memory"), …)`."""

import hashlib
from pathlib import Path
from typing import Any, Self

from crewai.knowledge.storage.base_knowledge_storage import BaseKnowledgeStorage
from crewai.rag.types import SearchResult
from pydantic import PrivateAttr

from crewai_lance_context._common import embedder_of, of_user
from lance_context_core import AsyncVectors, Document, InvalidRequestError
from lance_context_core.adapting import Handle, StoreLike, block_on, listed
from lance_context_core.filters import Field


class LanceKnowledgeStorage(BaseKnowledgeStorage):
    """The chunks of knowledge sources as documents of a collection of vectors.

    A chunk that is saved again is stored once, so that each process may load its sources. With an
    embedder they are found by meaning, and scores are CrewAI's, (1 + cosine) / 2; without one by
    words, and no threshold applies.
    """

    collection: str = "knowledge"
    """The collection: `store.vectors(collection)` has the same documents."""
    user_id: str | None = None
    """Whose knowledge; absent means all of the store's scope."""
    _handle: Handle = PrivateAttr()
    _vectors: AsyncVectors = PrivateAttr()

    def __init__(
        self,
        store: StoreLike,
        /,
        *,
        collection: str = "knowledge",
        user_id: str | None = None,
        embedder: Any = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        `embedder` is CrewAI's configuration of one, a function of texts, or one of the store's; by
        default that of the open store.
        """
        fields: dict[str, Any] = {"collection": collection, "user_id": user_id}
        super().__init__(**fields)
        made = embedder_of(embedder)
        is_opened = isinstance(store, str | Path)
        self._handle = Handle(store, embedder=made if is_opened else None)
        self._vectors = of_user(self._handle, user_id).vectors(collection, embedder=made)

    # Searching

    def search(
        self,
        query: list[str],
        limit: int = 5,
        metadata_filter: dict[str, Any] | None = None,
        score_threshold: float = 0.6,
    ) -> list[SearchResult]:
        """The chunks nearest to the queries together, best first: `limit`, if so many match.

        Documents have each value of `metadata_filter`, and at least the score of
        `score_threshold`. Raises InvalidRequestError for an empty query.
        """
        return block_on(self.asearch(query, limit, metadata_filter, score_threshold))

    async def asearch(
        self,
        query: list[str],
        limit: int = 5,
        metadata_filter: dict[str, Any] | None = None,
        score_threshold: float = 0.6,
    ) -> list[SearchResult]:
        """As `search`."""
        text = " ".join(listed(query, "query")).strip()
        if not text:
            raise InvalidRequestError(f"query={query!r:.80}: give words to search for")
        filter = (
            {"$and": [Field("metadata", key).eq(value) for key, value in metadata_filter.items()]}
            if metadata_filter
            else None
        )
        how: dict[str, Any] = {"limit": limit, "filter": filter}
        try:
            hits = await self._vectors.search(text, mode="vector", **how)
        except InvalidRequestError:
            # Without an embedder; anything else is wrong here, too.
            hits = await self._vectors.search(text, mode="text", **how)
        found = [(hit.record, _score(hit.channels), hit.score) for hit in hits]
        return [
            SearchResult(
                id=str(one.id),
                content=one.text or "",
                metadata=dict(one.metadata),
                score=score if by_meaning is None else by_meaning,
            )
            for one, by_meaning, score in found
            if by_meaning is None or by_meaning >= (score_threshold or 0)
        ]

    # Writing

    def save(self, documents: list[str]) -> None:
        """Store chunks, each once, all or none."""
        block_on(self.asave(documents))

    async def asave(self, documents: list[str]) -> None:
        """As `save`."""
        texts = listed(documents, "documents")
        for index, one in enumerate(texts):
            if not isinstance(one, str):
                raise InvalidRequestError(f"documents[{index}]={one!r:.80}: give a text")
        chunks = {_id(one): one for one in texts if one.strip()}
        if chunks:
            await self._vectors.add([Document(id=id, text=text) for id, text in chunks.items()])

    def reset(self) -> None:
        """Delete all chunks of the collection."""
        block_on(self.areset())

    async def areset(self) -> None:
        """As `reset`."""
        await self._vectors.delete_collection()

    # The store

    def close(self) -> None:
        """Close the store if it was given by its URI; a passed store stays open."""
        self._handle.close()

    def __enter__(self) -> Self:
        """Itself, closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """As `close`."""
        self.close()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """The same storage: copies of an agent share it."""
        return self


def _id(text: str) -> str:
    try:
        return hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            f"a document has half a surrogate pair: {text!r:.80}; replace it"
        ) from error


def _score(channels: Any) -> float | None:
    """CrewAI's score of a hit; None if it was found by words."""
    raw = channels["vector"].raw if "vector" in channels else None
    return None if raw is None else (1 + float(raw)) / 2

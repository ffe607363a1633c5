"""A collection of the store as LangChain's `VectorStore`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from lance_context_core import Document as StoredDocument
from lance_context_core import Field, InvalidRequestError, Vectors
from lance_context_core.adapting import Handle, HandleOwner, StoreLike
from lance_context_core.arguments import FilterLike, SearchMode
from lance_context_core.settings import SearchOptions
from langchain_lance_context._documents import (
    from_documents,
    from_texts,
    to_document,
    to_scored,
)
from langchain_lance_context._filters import metadata_first
from langchain_lance_context._keywords import check_keywords

_MADE_WITH = ("collection", "mode", "fields")
_ADDED_WITH = ("ids", "batch_size")
_SEARCHED_WITH = ("filter", "mode", "options")
"""The keywords that LangChain's base class passes to any call."""


class LanceContextVectorStore(HandleOwner, VectorStore):
    """A collection of documents in a store, found by meaning, by words, or by both.

    Every search takes, by keyword:

    - `filter`: of documents, as a dict or an SQL condition of the store's filter language. It is
      applied before the best `k` are taken, so that `k` are returned if as many match. A name is a
      key of the metadata. `id`, `text` and `written_by` are the document's own if its metadata has
      no such key; `Field("id")` is always the document's own, and `metadata.id` is always the key.
    - `mode`: `vector`, `text` or `hybrid`; default: the constructor's.
    - `options`: the store's `SearchOptions`, which say how hits are fused and ranked.

    Any other keyword raises a TypeError, which names these. Scores lie in [0, 1], and higher is better: by vector
    (1 + cosine) / 2. They are the relevance scores too.

    The asynchronous methods await the store, and block no event loop.
    """

    def __init__(
        self,
        store: StoreLike,
        embedding: Embeddings | None = None,
        *,
        collection: str = "default",
        mode: SearchMode = "vector",
        fields: Mapping[str, type] | None = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `embedding`: makes the collection's vectors; without it the store's embedder does.
        - `collection`: its name in the store. It need not exist yet.
        - `mode`: the default mode of a search.
        - `fields`: keys of the metadata with their types, `str`, `int`, `float`, `bool` or
          `datetime`, which get a column with an index each: filters on them are faster.
        """
        self._handle = Handle(store)
        self._embedding = embedding
        self._mode = mode
        self._aio = self._handle.aio.vectors(collection, embedder=embedding, fields=fields)
        self._vectors = Vectors(self._aio)

    @property
    def embeddings(self) -> Embeddings | None:
        """The given embedder; None if the store's embedder is used."""
        return self._embedding

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        store: StoreLike = "memory://",
        **kwargs: Any,
    ) -> Self:
        """Creates the object, then adds the texts.

        Without a `store` it lives as long as the process.
        """
        check_keywords(kwargs, _MADE_WITH, "the constructor")
        made = cls(store, embedding, **kwargs)
        try:
            made.add_texts(texts, metadatas, ids=ids)
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        store: StoreLike = "memory://",
        **kwargs: Any,
    ) -> Self:
        """As `from_texts`."""
        check_keywords(kwargs, _MADE_WITH, "the constructor")
        made = cls(store, embedding, **kwargs)
        try:
            await made.aadd_texts(texts, metadatas, ids=ids)
        except BaseException:
            await made.aclose()
            raise
        return made

    # Writing

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[dict[str, Any] | None] | None = None,
        *,
        ids: Iterable[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Adds texts, or replaces those with existing ids, in one commit.

        Returns all ids, in order.

        An id that is absent or None is generated. Metadata may hold JSON, times, decimals, UUIDs,
        bytes, paths, tuples and sets, and reads back equal with the same types; other values,
        duplicate ids and lists of different lengths raise InvalidRequestError, a ValueError, before
        anything is written.
        """
        return self._vectors.upsert(_given(texts, metadatas, ids, kwargs))

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[dict[str, Any] | None] | None = None,
        *,
        ids: Iterable[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """As `add_texts`."""
        return await self._aio.upsert(_given(texts, metadatas, ids, kwargs))

    def add_documents(self, documents: Iterable[Document], **kwargs: Any) -> list[str]:
        """As `add_texts`; the keyword `ids` takes precedence over the ids of the documents."""
        check_keywords(kwargs, _ADDED_WITH, "adding")
        return self._vectors.upsert(from_documents(documents, **kwargs))

    async def aadd_documents(self, documents: Iterable[Document], **kwargs: Any) -> list[str]:
        """As `add_documents`."""
        check_keywords(kwargs, _ADDED_WITH, "adding")
        return await self._aio.upsert(from_documents(documents, **kwargs))

    def delete(
        self, ids: Iterable[str] | None = None, *, filter: FilterLike | None = None, **kwargs: Any
    ) -> bool:
        """Deletes by id, by filter, or by both at once; without either, every document.

        Unknown ids are ignored. Always returns True.
        """
        check_keywords(kwargs, (), "deleting")
        self._vectors.delete(**_what_to_delete(ids, filter))
        return True

    async def adelete(
        self, ids: Iterable[str] | None = None, *, filter: FilterLike | None = None, **kwargs: Any
    ) -> bool:
        """As `delete`."""
        check_keywords(kwargs, (), "deleting")
        await self._aio.delete(**_what_to_delete(ids, filter))
        return True

    def delete_collection(self) -> int:
        """Deletes the collection with all its versions; returns its number of documents.

        In a scope only the scope's documents are deleted. The next write creates it again.
        """
        return self._vectors.delete_collection()

    async def adelete_collection(self) -> int:
        """As `delete_collection`."""
        return await self._aio.delete_collection()

    # Reading

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents in the order of `ids`; unknown ids are left out."""
        return [to_document(one) for one in self._vectors.get(ids)]

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """As `get_by_ids`."""
        return [to_document(one) for one in await self._aio.get(ids)]

    def count(self, *, filter: FilterLike | None = None) -> int:
        """Number of documents that match `filter`, or of all. 0 before the first write."""
        return self._vectors.count(filter=metadata_first(filter))

    async def acount(self, *, filter: FilterLike | None = None) -> int:
        """As `count`."""
        return await self._aio.count(filter=metadata_first(filter))

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """The `k` documents that answer `query` best, best first."""
        return _without_scores(self.similarity_search_with_score(query, k, **kwargs))

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """As `similarity_search`."""
        return _without_scores(await self.asimilarity_search_with_score(query, k, **kwargs))

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """As `similarity_search`, with scores in [0, 1], higher is better."""
        return to_scored(self._vectors.search(**self._question(query, k, kwargs)))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """As `similarity_search_with_score`."""
        return to_scored(await self._aio.search(**self._question(query, k, kwargs)))

    def similarity_search_by_vector(
        self, embedding: Sequence[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """The `k` documents nearest to `embedding`, nearest first."""
        return _without_scores(self.similarity_search_by_vector_with_score(embedding, k, **kwargs))

    async def asimilarity_search_by_vector(
        self, embedding: Sequence[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """As `similarity_search_by_vector`."""
        return _without_scores(
            await self.asimilarity_search_by_vector_with_score(embedding, k, **kwargs)
        )

    def similarity_search_by_vector_with_score(
        self, embedding: Sequence[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """As `similarity_search_by_vector`, with scores in [0, 1], higher is better."""
        return to_scored(self._vectors.search(**_near(embedding, k, kwargs)))

    async def asimilarity_search_by_vector_with_score(
        self, embedding: Sequence[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """As `similarity_search_by_vector_with_score`."""
        return to_scored(await self._aio.search(**_near(embedding, k, kwargs)))

    similarity_search_with_score_by_vector = similarity_search_by_vector_with_score
    asimilarity_search_with_score_by_vector = asimilarity_search_by_vector_with_score
    """An alias with the name in LangChain's in-memory store."""

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """`k` of the best `fetch_k` documents, picked for similarity to `query` and diversity.

        With `lambda_mult` 1 nearness alone counts, with 0 diversity alone.
        """
        kwargs = _diverse(fetch_k, lambda_mult, kwargs)
        return self.similarity_search(query, k, **kwargs)

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """As `max_marginal_relevance_search`."""
        kwargs = _diverse(fetch_k, lambda_mult, kwargs)
        return await self.asimilarity_search(query, k, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """As `max_marginal_relevance_search`, for a vector."""
        kwargs = _diverse(fetch_k, lambda_mult, kwargs)
        return self.similarity_search_by_vector(embedding, k, **kwargs)

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: Sequence[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,
    ) -> list[Document]:
        """As `max_marginal_relevance_search_by_vector`."""
        kwargs = _diverse(fetch_k, lambda_mult, kwargs)
        return await self.asimilarity_search_by_vector(embedding, k, **kwargs)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return _itself

    def _question(self, query: str, k: int, how: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the store's search for a text."""
        if not isinstance(query, str):
            raise InvalidRequestError(
                f"query is a {type(query).__name__}: pass a text, or call the method …_by_vector"
            )
        check_keywords(how, _SEARCHED_WITH, "a search")
        return {"query": query, "limit": k, **_read(how), "mode": how.get("mode") or self._mode}


def _near(embedding: Sequence[float], k: int, how: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the store's search for a vector."""
    check_keywords(how, ("filter", "options"), "a search by vector")
    return {"vector": embedding, "limit": k, **_read(how), "mode": "vector"}


def _read(how: dict[str, Any]) -> dict[str, Any]:
    return {"filter": metadata_first(how.get("filter")), "options": how.get("options")}


def _diverse(fetch_k: int, lambda_mult: float, how: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a search by maximal marginal relevance."""
    options = how.get("options") or SearchOptions()
    return {**how, "options": replace(options, n_candidates=fetch_k, mmr_lambda=lambda_mult)}


def _given(
    texts: Iterable[str],
    metadatas: Iterable[dict[str, Any] | None] | None,
    ids: Iterable[str | None] | None,
    how: dict[str, Any],
) -> list[StoredDocument]:
    """The documents of texts."""
    check_keywords(how, _ADDED_WITH, "adding")
    return from_texts(texts, metadatas, ids=ids, **how)


def _what_to_delete(ids: Iterable[str] | None, filter: FilterLike | None) -> dict[str, Any]:
    everything = ids is None and filter is None
    return {"ids": ids, "filter": Field("id").exists() if everything else _deleted(filter)}


def _deleted(filter: FilterLike | None) -> FilterLike | None:
    """Unchanged if it is not a text, so that the store refuses it."""
    found = metadata_first(filter)
    return filter if found is None else found


def _without_scores(found: Iterable[tuple[Document, float]]) -> list[Document]:
    return [document for document, _ in found]


def _itself(score: float) -> float:
    return score

"""Converts LlamaIndex's queries to searches of the store, and hits to LlamaIndex's results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from lance_context_core import AsyncVectors, Document, Field, Filter, InvalidRequestError
from lance_context_core.adapting import check_names, listed
from lance_context_core.arguments import FilterLike
from lance_context_core.filters import DOCUMENT_FIELDS, And, parse
from lance_context_core.protocols import Reranker
from lance_context_core.results import ChannelScore, SearchHit
from lance_context_core.settings import Convex, SearchOptions
from llama_index_lance_context._filters import of_sources, to_filter
from llama_index_lance_context._words import check_count, check_share, in_words

DEFAULT_ALPHA = 0.5
DEFAULT_THRESHOLD = 0.5

DEFAULT_PREFETCH_FACTOR = 4
"""Number of candidates for each node of a diverse answer."""

_MODES = (
    VectorStoreQueryMode.DEFAULT,
    VectorStoreQueryMode.TEXT_SEARCH,
    VectorStoreQueryMode.SPARSE,
    VectorStoreQueryMode.HYBRID,
    VectorStoreQueryMode.SEMANTIC_HYBRID,
    VectorStoreQueryMode.MMR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """The selection of a diverse answer from its candidates."""

    query_embedding: Sequence[float]
    limit: int
    threshold: float
    """1 is similarity to the query alone, 0 distance from the previous picks alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A search of the store for a query, and the conversion of its result."""

    arguments: Mapping[str, Any]
    """Arguments of `Vectors.search`, or of `Vectors.list`."""
    similarity: Callable[[SearchHit[Document]], float]
    diversity: Diversity | None = None
    is_listing: bool = False
    """Whether nothing is compared: a query of only filters and ids."""
    mode: str = ""
    """LlamaIndex's name of the mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighted:
    """Fuses both channels by LlamaIndex's `alpha`; a channel of weight 0 adds no hits."""

    alpha: float
    """In [0, 1]: 0 is words alone, 1 vectors alone."""
    n_texts: int | None = None
    """Number of the words' best candidates; absent means all."""

    def __call__(
        self, vector: Mapping[str, ChannelScore], text: Mapping[str, ChannelScore], /
    ) -> dict[str, float]:
        """The sum alpha * vector + (1 - alpha) * text, by key."""
        if self.n_texts is not None:
            text = {key: said for key, said in text.items() if said.rank <= self.n_texts}
        return Convex(vector_weight=self.alpha)(
            vector if self.alpha > 0 else {}, text if self.alpha < 1 else {}
        )


def ask(
    query: VectorStoreQuery,
    *,
    restriction: Filter | None,
    reranker: Reranker | None = None,
    mmr_threshold: float | None = None,
    mmr_prefetch_factor: float | None = None,
    mmr_prefetch_k: int | None = None,
    **unknown: Any,
) -> Ask:
    """The search arguments of a query within `restriction`.

    Raises InvalidRequestError for an unsupported query.
    """
    if unknown:
        raise InvalidRequestError(
            f"{', '.join(sorted(unknown))}: in addition to its VectorStoreQuery, a query accepts where, "
            "mmr_threshold, mmr_prefetch_factor and mmr_prefetch_k"
        )
    mode = _mode(query, can_rerank=reranker is not None)
    arguments: dict[str, Any] = {"filter": restriction, "limit": _count(query, "similarity_top_k")}
    if query.query_embedding is None and query.query_str is None:
        return _listing(arguments, mode)
    arguments |= {"query": query.query_str, "vector": query.query_embedding}
    diversity = None
    similarity = _score
    match mode:
        case VectorStoreQueryMode.DEFAULT:
            similarity = _cosine
            arguments |= {"mode": "vector"}
        case VectorStoreQueryMode.TEXT_SEARCH | VectorStoreQueryMode.SPARSE:
            similarity = _bm25
            limit = _count(query, "sparse_top_k", "similarity_top_k")
            arguments |= {"query": _text(query), "vector": None, "limit": limit, "mode": "text"}
        case VectorStoreQueryMode.HYBRID:
            arguments |= _fused(query, reranker=None)
        case VectorStoreQueryMode.SEMANTIC_HYBRID:
            arguments |= _fused(query, reranker=reranker)
        case VectorStoreQueryMode.MMR:
            similarity = _cosine
            limit = _prefetch(query.similarity_top_k, factor=mmr_prefetch_factor, k=mmr_prefetch_k)
            arguments |= {"limit": limit, "mode": "vector", "include_embedding": True}
            diversity = Diversity(
                query_embedding=_embedding(query),
                limit=query.similarity_top_k,
                threshold=check_share(
                    _first(query.mmr_threshold, mmr_threshold, DEFAULT_THRESHOLD),
                    "mmr_threshold",
                    zero="unlike what is picked",
                    one="near to the query",
                ),
            )
    return Ask(arguments=arguments, similarity=similarity, diversity=diversity, mode=mode.value)


def restriction(query: VectorStoreQuery, where: FilterLike | None) -> Filter | None:
    """The filter of nodes that a query may find; None if it has none."""
    parts = [
        None if query.filters is None else to_filter(query.filters),
        None if query.doc_ids is None else of_sources(listed(query.doc_ids, "doc_ids")),
        # Indexes pass an empty list if they have no ids.
        Field("id").is_in(check_names(query.node_ids, "node_ids")) if query.node_ids else None,
        parse(where, columns=DOCUMENT_FIELDS),
    ]
    said = tuple(one for one in parts if one is not None)
    return And(said) if said else None


async def find(vectors: AsyncVectors, asked: Ask) -> list[SearchHit[Document]]:
    """The hits of the store, for an asynchronous collection."""
    if asked.is_listing:
        documents = await vectors.list(**asked.arguments)
        return [SearchHit(record=one, score=1.0, channels={}) for one in documents]
    needed = (
        f"mode {asked.mode!r} needs a query_embedding: give one, open the store with an embedder, "
        "or ask in mode 'text_search'"
    )
    with in_words(
        (r"^mode='\w+' needs a vector: .*", needed),
        (r"^vector\b", "query_embedding"),
        (r"^embedding\b", "query_embedding"),
        (r"^query\b", "query_str"),
    ):
        hits: list[SearchHit[Document]] = await vectors.search(**asked.arguments)
    return hits


def ranked(asked: Ask, hits: Sequence[SearchHit[Document]]) -> list[tuple[Document, float]]:
    """The hits, best first, with similarities; without embeddings."""
    if asked.diversity is None:
        return [(hit.record, asked.similarity(hit)) for hit in hits]
    return [
        (replace(hits[place].record, embedding=None), relevance)
        for place, relevance in _diverse(
            asked.diversity, [hit.record.embedding or () for hit in hits]
        )
    ]


def answer(
    found: Sequence[tuple[Document, float]], nodes: Sequence[BaseNode]
) -> VectorStoreQueryResult:
    """The hits as LlamaIndex's result, with `nodes` of the documents."""
    return VectorStoreQueryResult(
        nodes=list(nodes),
        similarities=[similarity for _, similarity in found],
        ids=[document.id or "" for document, _ in found],
    )


def _diverse(
    asked: Diversity, embeddings: Sequence[Sequence[float]]
) -> Iterator[tuple[int, float]]:
    """Equals LlamaIndex's `get_top_k_mmr_embeddings`, with the relevance of each pick.

    LlamaIndex's function compares two lists of numbers at a time, thousands of times in one answer.
    """
    if not embeddings:
        return
    query, *rows = (_unit(one) for one in (asked.query_embedding, *embeddings))
    candidates = np.array(rows)
    nearness = asked.threshold * (candidates @ query)
    relevance = nearness.copy()
    is_left = np.ones(len(rows), dtype=bool)
    for _ in range(min(asked.limit, len(rows))):
        picked = int(np.argmax(np.where(is_left, relevance, -np.inf)))
        yield picked, float(relevance[picked])
        is_left[picked] = False
        relevance = nearness - (1 - asked.threshold) * (candidates @ candidates[picked])


def _unit(vector: Sequence[float]) -> np.ndarray:
    given = np.asarray(vector, dtype=np.float64)
    return given / (np.linalg.norm(given) or 1.0)


def _mode(query: VectorStoreQuery, *, can_rerank: bool) -> VectorStoreQueryMode:
    """The query's mode, if the store supports it."""
    try:
        mode = VectorStoreQueryMode(query.mode)
    except ValueError:
        mode = None
    if mode is VectorStoreQueryMode.SEMANTIC_HYBRID and not can_rerank:
        raise InvalidRequestError(
            f"Invalid query mode: {mode.value!r} needs a reranker. Pass one to the vector store as "
            "reranker="
        )
    if mode not in _MODES:
        raise InvalidRequestError(
            f"Invalid query mode: {query.mode!r:.80}. Use default, text_search, sparse, hybrid, mmr or, "
            "with a reranker, semantic_hybrid"
        )
    return mode


def _listing(arguments: Mapping[str, Any], mode: VectorStoreQueryMode) -> Ask:
    if arguments["filter"] is None:
        raise InvalidRequestError(
            "nothing to ask for: give the VectorStoreQuery a query_embedding, a query_str, filters, "
            "doc_ids or node_ids"
        )
    return Ask(arguments=arguments, similarity=_score, is_listing=True, mode=mode.value)


def _fused(query: VectorStoreQuery, *, reranker: Reranker | None) -> dict[str, Any]:
    alpha = check_share(_first(query.alpha, DEFAULT_ALPHA), "alpha", zero="words", one="vectors")
    n_texts = None if query.sparse_top_k is None else _count(query, "sparse_top_k")
    options = SearchOptions(
        fusion=Weighted(alpha=alpha, n_texts=n_texts),
        n_candidates=max(SearchOptions().n_candidates, query.similarity_top_k, n_texts or 0),
        reranker=reranker,
    )
    limit = _count(query, "hybrid_top_k", "similarity_top_k")
    return {"query": _text(query), "mode": "hybrid", "limit": limit, "options": options}


def _count(query: VectorStoreQuery, *names: str) -> int:
    """The first given limit of the query."""
    name = next(name for name in names if getattr(query, name) is not None)
    return check_count(getattr(query, name), name)


def _prefetch(limit: int, *, factor: float | None, k: int | None) -> int:
    if factor is not None and k is not None:
        raise InvalidRequestError(
            "mmr_prefetch_factor and mmr_prefetch_k say the same thing: give one of them"
        )
    if k is not None:
        return max(limit, check_count(k, "mmr_prefetch_k"))
    factor = _first(factor, DEFAULT_PREFETCH_FACTOR)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 <= factor < inf:
        raise InvalidRequestError(f"mmr_prefetch_factor={factor!r:.80}: give a number, 1 or more")
    return max(limit, int(limit * factor))


def _embedding(query: VectorStoreQuery) -> Sequence[float]:
    if query.query_embedding is None:
        raise InvalidRequestError("mode 'mmr' needs a query_embedding")
    return query.query_embedding


def _text(query: VectorStoreQuery) -> str:
    if query.query_str is None:
        raise InvalidRequestError(
            f"mode {VectorStoreQueryMode(query.mode).value!r} needs a query_str: give one, or ask in "
            "mode 'default'"
        )
    return query.query_str


def _first(*values: Any) -> Any:
    """The first value that is not None."""
    return next(value for value in values if value is not None)


def _cosine(hit: SearchHit[Document]) -> float:
    return hit.channels["vector"].raw


def _bm25(hit: SearchHit[Document]) -> float:
    return hit.channels["text"].raw


def _score(hit: SearchHit[Document]) -> float:
    return hit.score

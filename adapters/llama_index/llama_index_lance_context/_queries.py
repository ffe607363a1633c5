"""LlamaIndex's queries as searches of the store, and what these find as LlamaIndex's results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from lance_context_core import Document, InvalidRequestError, SearchHit, SearchOptions
from lance_context_core.filters import DOCUMENT_FIELDS, And, Field, Filter, FilterLike, parse
from lance_context_core.fusion import ChannelScore, Convex
from lance_context_core.protocols import Reranker
from llama_index_lance_context._filters import of_sources, to_filter

DEFAULT_ALPHA = 0.5
DEFAULT_THRESHOLD = 0.5

DEFAULT_PREFETCH_FACTOR = 4
"""How many candidates there are for each node of a diverse answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """How a diverse answer is picked from its candidates."""

    query_embedding: Sequence[float]
    limit: int
    threshold: float
    """1 is nearness to the query alone, 0 distance from what was picked before alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What the store is asked for a query, and what is made of its answer."""

    arguments: Mapping[str, Any]
    """Those of `Vectors.search`."""
    similarity: Callable[[SearchHit[Document]], float]
    diversity: Diversity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighted:
    """The fusion of both channels by LlamaIndex's `alpha`: a channel of weight 0 brings no hits."""

    alpha: float
    """In [0, 1]: 0 is words alone, 1 vectors alone."""
    n_texts: int | None = None
    """How many of the words' best candidates count; absent means all."""

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
    restriction: Filter,
    reranker: Reranker | None = None,
    mmr_threshold: float | None = None,
    mmr_prefetch_factor: float | None = None,
    mmr_prefetch_k: int | None = None,
    **unknown: Any,
) -> Ask:
    """What to ask the store, of what satisfies `restriction`.

    Raises InvalidRequestError for what cannot be asked.
    """
    if unknown:
        raise InvalidRequestError(
            f"{', '.join(sorted(unknown))}: beside its VectorStoreQuery, a query takes where, "
            "mmr_threshold, mmr_prefetch_factor and mmr_prefetch_k"
        )
    arguments = {
        "query": query.query_str,
        "vector": query.query_embedding,
        "filter": restriction,
        "limit": query.similarity_top_k,
    }
    match query.mode:
        case VectorStoreQueryMode.DEFAULT:
            return Ask(arguments={**arguments, "mode": "vector"}, similarity=_cosine)
        case VectorStoreQueryMode.TEXT_SEARCH | VectorStoreQueryMode.SPARSE:
            limit = _first(query.sparse_top_k, query.similarity_top_k)
            said = {"vector": None, "limit": limit, "mode": "text"}
            return Ask(arguments={**arguments, **said}, similarity=_bm25)
        case VectorStoreQueryMode.HYBRID:
            said = {"mode": "hybrid", **_fused(query, reranker=None)}
            return Ask(arguments={**arguments, **said}, similarity=_score)
        case VectorStoreQueryMode.SEMANTIC_HYBRID if reranker is not None:
            said = {"mode": "hybrid", **_fused(query, reranker=reranker)}
            return Ask(arguments={**arguments, **said}, similarity=_score)
        case VectorStoreQueryMode.SEMANTIC_HYBRID:
            raise InvalidRequestError(
                f"Invalid query mode: {query.mode!r:.80} orders what it finds by a reranker, which "
                "the vector store was not given"
            )
        case VectorStoreQueryMode.MMR:
            diversity = Diversity(
                query_embedding=_embedding(query),
                limit=query.similarity_top_k,
                threshold=_first(query.mmr_threshold, mmr_threshold, DEFAULT_THRESHOLD),
            )
            limit = _prefetch(query.similarity_top_k, factor=mmr_prefetch_factor, k=mmr_prefetch_k)
            said = {"limit": limit, "mode": "vector", "include_embedding": True}
            return Ask(arguments={**arguments, **said}, similarity=_cosine, diversity=diversity)
    raise InvalidRequestError(
        f"Invalid query mode: {query.mode!r:.80}; there are default, text_search, sparse, hybrid, "
        "mmr and, with a reranker, semantic_hybrid"
    )


def restriction(query: VectorStoreQuery, where: FilterLike | None) -> Filter:
    """Which nodes of a collection a query may find."""
    parts = [
        None if query.filters is None else to_filter(query.filters),
        None if query.doc_ids is None else of_sources(query.doc_ids),
        # Indexes pass an empty list where they know of no ids.
        Field("id").is_in(query.node_ids) if query.node_ids else None,
        parse(where, columns=DOCUMENT_FIELDS),
    ]
    return And(tuple(one for one in parts if one is not None))


def ranked(asked: Ask, hits: Sequence[SearchHit[Document]]) -> list[tuple[Document, float]]:
    """What was found, best first, with its similarities; without embeddings."""
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
    """What was found as LlamaIndex has it, `nodes` being those of the documents."""
    return VectorStoreQueryResult(
        nodes=list(nodes),
        similarities=[similarity for _, similarity in found],
        ids=[document.id or "" for document, _ in found],
    )


def _diverse(
    asked: Diversity, embeddings: Sequence[Sequence[float]]
) -> Iterator[tuple[int, float]]:
    """What LlamaIndex's `get_top_k_mmr_embeddings` picks, and how relevant each was at its turn.

    That compares two lists of numbers at a time, thousands of times in one answer.
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


def _fused(query: VectorStoreQuery, *, reranker: Reranker | None) -> dict[str, Any]:
    alpha = _first(query.alpha, DEFAULT_ALPHA)
    if not 0 <= alpha <= 1:
        raise InvalidRequestError(f"alpha={alpha!r}: give a number from 0 (words) to 1 (vectors)")
    deepest = max(
        SearchOptions().n_candidates, query.similarity_top_k, _first(query.sparse_top_k, 0)
    )
    options = SearchOptions(
        fusion=Weighted(alpha=alpha, n_texts=query.sparse_top_k),
        n_candidates=deepest,
        reranker=reranker,
    )
    return {"limit": _first(query.hybrid_top_k, query.similarity_top_k), "options": options}


def _prefetch(limit: int, *, factor: float | None, k: int | None) -> int:
    if factor is not None and k is not None:
        raise InvalidRequestError(
            "mmr_prefetch_factor and mmr_prefetch_k say the same thing: give one of them"
        )
    return max(limit, int(limit * _first(factor, DEFAULT_PREFETCH_FACTOR)) if k is None else k)


def _embedding(query: VectorStoreQuery) -> Sequence[float]:
    if query.query_embedding is None:
        raise InvalidRequestError("mode 'mmr' needs a query_embedding")
    return query.query_embedding


def _first(*values: Any) -> Any:
    """The first of some values that is not absent."""
    return next(value for value in values if value is not None)


def _cosine(hit: SearchHit[Document]) -> float:
    return hit.channels["vector"].raw


def _bm25(hit: SearchHit[Document]) -> float:
    return hit.channels["text"].raw


def _score(hit: SearchHit[Document]) -> float:
    return hit.score

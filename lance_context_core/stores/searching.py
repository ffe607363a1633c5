"""Search over one table: the channels, their fusion, and what may follow it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lance_context_core.embedders import EmbeddingService
from lance_context_core.engine.schema import KEY, VECTOR
from lance_context_core.engine.table import Table
from lance_context_core.errors import InvalidRequestError
from lance_context_core.fusion import (
    DEFAULT_FUSION,
    DEFAULT_NEIGHBOURS,
    ChannelScore,
    FusedHit,
    Fusion,
    channel_scores,
    fuse,
    mmr,
    text_score,
    vector_score,
)
from lance_context_core.protocols import SearchMode
from lance_context_core.stores.embedding import as_vector
from lance_context_core.stores.resources import Resources


class Reranker(Protocol):
    """Any reranker of LanceDB: it is given both channels' results and orders them anew."""

    def rerank_hybrid(
        self, query: str, vector_results: pa.Table, fts_results: pa.Table
    ) -> pa.Table:
        """The rows of both, with their `_rowid` and a `_relevance_score`, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How a search ranks; the defaults suit conversations."""

    fusion: Fusion = DEFAULT_FUSION
    """How hybrid search makes one score of two channels."""
    neighbours: float = DEFAULT_NEIGHBOURS
    """In [0, 1]: the share of their scores that the turns before and after lend to a hit."""
    n_candidates: int = 50
    """How many candidates each channel contributes at least."""
    reranker: Reranker | None = None
    """Orders the candidates instead of the fusion; scores outside [0, 1] are min-max normalised."""
    mmr_lambda: float | None = None
    """In [0, 1]: rank by maximal marginal relevance; 1 is relevance alone, 0 diversity alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is looked for."""

    text: str | None
    """As it was asked; what a reranker reads."""
    words: str | None
    """What of the text is looked up in the words."""
    vector: np.ndarray | None
    mode: SearchMode

    @property
    def uses_vector(self) -> bool:
        """Whether the vector channel is asked."""
        return self.mode != "text"

    @property
    def uses_text(self) -> bool:
        """Whether the text channel is asked."""
        return self.mode != "vector"


@dataclass(frozen=True, slots=True)
class Found:
    """A row that was found, and why."""

    row: Mapping[str, Any]
    score: float
    channels: Mapping[str, ChannelScore] = field(default_factory=dict)
    neighbour_bonus: float = 0.0


async def ask(
    query: str | Sequence[float] | None,
    *,
    vector: Sequence[float] | None,
    mode: SearchMode | None,
    table: Table,
    resources: Resources,
    needs_vector: bool = False,
) -> Question:
    """The question that the arguments of a search put; embeds the text where that is needed.

    Without a `mode` both channels are asked, or the only one that can be.
    """
    if query is not None and not isinstance(query, str):
        if vector is not None:
            raise InvalidRequestError(
                "query is a vector, and vector is given too: pass one of them"
            )
        query, vector = None, query
    if query is None and vector is None:
        raise InvalidRequestError("nothing to search for: pass a text, a vector, or both")
    embeddings = resources.embeddings
    can_embed = vector is not None or (query is not None and embeddings is not None)
    if mode is None:
        mode = "text" if not can_embed else "vector" if query is None else "hybrid"
    if mode not in {"hybrid", "vector", "text"}:
        raise InvalidRequestError(f"mode={mode!r}: there are 'hybrid', 'vector' and 'text'")
    if mode != "vector" and query is None:
        raise InvalidRequestError(f"mode={mode!r} needs a text: pass one, or use mode='vector'")
    if (mode != "text" or needs_vector) and not can_embed:
        raise InvalidRequestError(
            f"mode={mode!r} needs a vector: open the store with an embedder, or pass vector="
        )
    wanted = mode != "text" or needs_vector
    return Question(
        text=query,
        words=None if query is None else resources.composer.query_text(query),
        vector=await _vector(query, vector, table, embeddings) if wanted else None,
        mode=mode,
    )


async def search(
    table: Table,
    question: Question,
    *,
    where: str | None,
    columns: Sequence[str],
    limit: int,
    options: SearchOptions,
) -> list[Found]:
    """The best `limit` rows, best first."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidRequestError(f"limit={limit!r}: give a number of hits, 0 or more")
    if limit == 0:
        return []
    is_plain = options.reranker is None and options.mmr_lambda is None
    if question.mode == "hybrid" or not is_plain:
        return await _fused(table, question, where, columns, limit, options)
    vector, text = await _channels(table, question, where, limit, columns)
    if question.uses_vector:
        return _single(vector, "vector", _cosines(vector), vector_score)
    return _single(text, "text", _column(text, "_score"), text_score)


async def _fused(
    table: Table,
    question: Question,
    where: str | None,
    columns: Sequence[str],
    limit: int,
    options: SearchOptions,
) -> list[Found]:
    """Candidates first, by key alone; then the rows of the best of them."""
    read = [KEY, "previous_key"]
    read += [VECTOR] if options.mmr_lambda is not None else []
    read += ["text"] if options.reranker is not None else []
    vector, text = await _channels(table, question, where, max(limit, options.n_candidates), read)
    by_key = _by_key(vector) | _by_key(text)
    hits = fuse(
        dict(zip(_column(vector, KEY), _cosines(vector), strict=True)),
        dict(zip(_column(text, KEY), _column(text, "_score"), strict=True)),
        previous={k: row["previous_key"] for k, row in by_key.items() if row.get("previous_key")},
        fusion=options.fusion,
        neighbours=options.neighbours if question.mode == "hybrid" else 0.0,
    )
    scores = {hit.key: _score(hit, question.mode) for hit in hits}
    if options.reranker is not None:
        scores = await _reranked(options.reranker, question, vector, text, by_key)
        hits = sorted((h for h in hits if h.key in scores), key=lambda h: -scores[h.key])
    if options.mmr_lambda is not None:
        hits = _diverse(hits, question, by_key, limit, options.mmr_lambda)
    best = hits[:limit]
    rows = await table.take([by_key[hit.key]["_rowid"] for hit in best], columns=[KEY, *columns])
    complete = {row[KEY]: row for row in rows.to_pylist()}
    return [
        Found(complete[hit.key], scores[hit.key], _explained(hit), hit.neighbour_bonus)
        for hit in best
        if hit.key in complete
    ]


async def _channels(
    table: Table, question: Question, where: str | None, limit: int, columns: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """What each channel finds; nothing for one that is not asked."""
    nobody = table.nothing(columns)

    async def by_vector() -> pa.Table:
        if not question.uses_vector or question.vector is None:
            return nobody
        return await table.nearest(question.vector, where=where, limit=limit, columns=columns)

    async def by_text() -> pa.Table:
        if not question.uses_text or question.words is None:
            return nobody
        return await table.match(question.words, where=where, limit=limit, columns=columns)

    return tuple(await asyncio.gather(by_vector(), by_text()))


async def _vector(
    text: str | None,
    vector: Sequence[float] | None,
    table: Table,
    embeddings: EmbeddingService | None,
) -> np.ndarray | None:
    """The query's vector, of the length and the model that the table was built with."""
    if vector is not None:
        given = as_vector(vector, "vector")
        table.check_vectors(await table.schema(), len(given), None)
        return given
    assert text is not None
    assert embeddings is not None
    if text.isspace() or not text:
        return None
    made = await embeddings.embed_query(text)
    table.check_vectors(await table.schema(), len(made), embeddings.model)
    # Zeros say that the model found no direction in the text: there is nothing to be near to.
    return made if made.any() else None


def _single(rows: pa.Table, channel: str, raw: list[float], scale: Any) -> list[Found]:
    scores = channel_scores({str(index): value for index, value in enumerate(raw)})
    return [
        Found(row, scale(value), {channel: scores[str(index)]})
        for index, (row, value) in enumerate(zip(rows.to_pylist(), raw, strict=True))
    ]


def _diverse(
    hits: list[FusedHit],
    question: Question,
    by_key: Mapping[str, Mapping[str, Any]],
    limit: int,
    mmr_lambda: float,
) -> list[FusedHit]:
    if question.vector is None:
        return hits[:limit]
    # What only words found may have no vector: it then resembles nothing.
    nothing = np.zeros(len(question.vector), dtype=np.float32)
    vectors = [by_key[hit.key].get(VECTOR) for hit in hits]
    rows = np.array([nothing if v is None else v for v in vectors]).reshape(len(hits), -1)
    return [hits[i] for i in mmr(question.vector, rows, k=limit, lambda_mult=mmr_lambda)]


async def _reranked(
    reranker: Any,
    question: Question,
    vector: pa.Table,
    text: pa.Table,
    by_key: Mapping[str, Mapping[str, Any]],
) -> dict[str, float]:
    """The reranker's scores by key. It may be a model: it runs off the event loop."""
    query = question.text or ""
    if question.mode == "hybrid":
        ranked = await asyncio.to_thread(reranker.rerank_hybrid, query, vector, text)
    elif question.mode == "vector":
        ranked = await asyncio.to_thread(reranker.rerank_vector, query, vector)
    else:
        ranked = await asyncio.to_thread(reranker.rerank_fts, query, text)
    keys = {row["_rowid"]: key for key, row in by_key.items()}
    found = zip(_column(ranked, "_rowid"), _column(ranked, "_relevance_score"), strict=True)
    scores = {keys[row_id]: float(score) for row_id, score in found}
    if all(0 <= score <= 1 for score in scores.values()):
        return scores
    return {key: score.normalised for key, score in channel_scores(scores).items()}


def _score(hit: FusedHit, mode: SearchMode) -> float:
    """The hit's score on the scale of the mode."""
    if mode == "vector" and hit.vector is not None:
        return vector_score(hit.vector.raw)
    if mode == "text" and hit.text is not None:
        return text_score(hit.text.raw)
    return hit.score


def _explained(hit: FusedHit) -> dict[str, ChannelScore]:
    found = {"vector": hit.vector, "text": hit.text}
    return {name: score for name, score in found.items() if score is not None}


def _by_key(rows: pa.Table) -> dict[str, Mapping[str, Any]]:
    return {row[KEY]: row for row in rows.to_pylist()}


def _cosines(rows: pa.Table) -> list[float]:
    return [1.0 - distance for distance in _column(rows, "_distance")]


def _column(rows: pa.Table, name: str) -> list[Any]:
    values: list[Any] = rows[name].to_pylist() if name in rows.column_names else []
    return values

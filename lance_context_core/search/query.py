"""Search over one table: the channels, their fusion, and what may follow it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core import _steps as steps
from lance_context_core._checks import check_text
from lance_context_core._embedding import as_vector
from lance_context_core._resources import Resources
from lance_context_core.embedders._service import EmbeddingService
from lance_context_core.engine.schema import KEY, VECTOR
from lance_context_core.engine.table.table import Table
from lance_context_core.errors import InvalidRequestError
from lance_context_core.protocols import Reranker, SearchMode
from lance_context_core.records import ChannelScore
from lance_context_core.search import reranking
from lance_context_core.search.fusion import (
    DEFAULT_NEIGHBOURS,
    FusedHit,
    by_text,
    by_vector,
    fuse,
)
from lance_context_core.search.options import SearchOptions
from lance_context_core.search.variety import mmr

_MOST = 2**31 - 1
"""How many rows the engine can be asked for; no table of ours has more."""


def settled(
    options: SearchOptions | None, *, neighbours: float = DEFAULT_NEIGHBOURS
) -> SearchOptions:
    """The options of a search in a room where turns lend that much, unless the options say."""
    if options is None:
        return SearchOptions(neighbours=neighbours)
    if not isinstance(options, SearchOptions):
        raise InvalidRequestError(f"options={options!r:.80}: give SearchOptions(...), or nothing")
    return replace(options, neighbours=neighbours) if options.neighbours is None else options


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is looked for."""

    text: str | None
    """As it was asked; what a reranker reads."""
    words: str | None
    """What of the text is looked up in the words."""
    vector: np.ndarray | None
    model: str | None
    """What made the vector; None for the caller's own."""
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
    if query is not None:
        query = check_text(query, "query")
    if query is None and vector is None:
        raise InvalidRequestError("nothing to search for: pass a text, a vector, or both")
    embeddings = resources.embeddings
    can_embed = vector is not None or (query is not None and embeddings is not None)
    if mode is None:
        mode = "text" if not can_embed else "vector" if query is None else "hybrid"
    if mode not in ("hybrid", "vector", "text"):
        raise InvalidRequestError(f"mode={mode!r}: there are 'hybrid', 'vector' and 'text'")
    if mode != "vector" and query is None:
        raise InvalidRequestError(f"mode={mode!r} needs a text: pass one, or use mode='vector'")
    if (mode != "text" or needs_vector) and not can_embed:
        raise InvalidRequestError(
            f"mode={mode!r} needs a vector: open the store with an embedder, pass a vector, or "
            "search with mode='text'"
        )
    made, model = None, None
    if mode != "text" or needs_vector:
        made, model = await _vector(query, vector, embeddings)
    if mode == "text" and made is not None:
        # The vector channel would see to it.
        table.check_vectors(await table.schema(), len(made), model)
    return Question(
        text=query,
        words=None if query is None else resources.composer.query_text(query),
        vector=made,
        model=model,
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
    """The best `limit` rows, best first, equals in the order of writing; `options` as `settled`."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidRequestError(f"limit={limit!r}: give a number of hits, 0 or more")
    if options.reranker is not None:
        reranking.require_method(options.reranker, question.mode)
    if limit == 0:
        return []
    is_reordered = (
        options.neighbours or options.reranker is not None or options.mmr_lambda is not None
    )
    if question.mode == "hybrid" or is_reordered:
        return await _of_candidates(table, question, where, columns, limit, options)
    found = await _channels(table, question, where, limit, columns)
    vector, text = [await _by_place(one) for one in found]
    rows = vector | text
    return [_found(rows[hit.key], hit) for hit in _ranked(question, vector, text, options)]


async def _of_candidates(
    table: Table,
    question: Question,
    where: str | None,
    columns: Sequence[str],
    limit: int,
    options: SearchOptions,
) -> list[Found]:
    """Candidates first, with what ranks them; then the rows of the best of them."""
    read = [KEY, "previous_key"]
    read += [VECTOR] if options.mmr_lambda is not None else []
    read += reranking.COLUMNS if options.reranker is not None else []
    found = await _channels(table, question, where, max(limit, options.n_candidates), read)
    vector, text = [await _by_place(one) for one in found]
    hits = _ranked(question, vector, text, options)
    if options.reranker is not None:
        hits = await _reranked(options.reranker, question, *found, hits)
    if options.mmr_lambda is not None:
        hits = _diverse(hits, question, vector | text, limit, options.mmr_lambda)
    best = hits[:limit]
    rows = await _by_place(await table.take([int(hit.key) for hit in best], columns=columns))
    # What was deleted meanwhile is gone.
    return [_found(rows[hit.key], hit) for hit in best if hit.key in rows]


async def _channels(
    table: Table, question: Question, where: str | None, limit: int, columns: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """What each channel finds; nothing for one that is not asked."""
    limit = min(limit, _MOST)

    async def nearest() -> pa.Table:
        if not question.uses_vector or question.vector is None:
            return table.nothing(columns, "_distance")
        return await table.nearest(
            question.vector, model=question.model, where=where, limit=limit, columns=columns
        )

    async def matching() -> pa.Table:
        if not question.uses_text or question.words is None:
            return table.nothing(columns, "_score")
        return await table.match(question.words, where=where, limit=limit, columns=columns)

    if question.mode != "hybrid":
        return await nearest(), await matching()
    # At the same time, which has its price.
    return tuple(await asyncio.gather(nearest(), matching()))


async def _vector(
    text: str | None,
    vector: Sequence[float] | None,
    embeddings: EmbeddingService | None,
) -> tuple[np.ndarray | None, str | None]:
    """The query's vector, and the model that made it; None for the caller's own."""
    if vector is not None:
        given = as_vector(vector, "vector")
        return given, None
    assert text is not None
    assert embeddings is not None
    if text.isspace() or not text:
        return None, None
    made = await embeddings.embed_query(text)
    # Zeros say that the model found no direction in the text: there is nothing to be near to.
    return (made if made.any() else None), embeddings.model


def _ranked(
    question: Question,
    vector: Mapping[str, Mapping[str, Any]],
    text: Mapping[str, Mapping[str, Any]],
    options: SearchOptions,
) -> list[FusedHit]:
    """What the channels found, by place: the candidates on the scale of the mode, best first."""
    cosines = {place: 1.0 - row["_distance"] for place, row in vector.items()}
    bm25 = {place: row["_score"] for place, row in text.items()}
    rows = {**vector, **text}
    places = {row[KEY]: place for place, row in rows.items() if KEY in row}
    links = {place: places.get(row.get("previous_key")) for place, row in rows.items()}
    previous = {place: earlier for place, earlier in links.items() if earlier is not None}
    neighbours = options.neighbours or 0.0
    if question.mode == "vector":
        return by_vector(cosines, previous=previous, neighbours=neighbours)
    if question.mode == "text":
        return by_text(bm25, previous=previous, neighbours=neighbours)
    return fuse(cosines, bm25, previous=previous, fusion=options.fusion, neighbours=neighbours)


async def _reranked(
    reranker: Reranker,
    question: Question,
    vector: pa.Table,
    text: pa.Table,
    hits: Sequence[FusedHit],
) -> list[FusedHit]:
    """The hits that the reranker kept, with its scores, by which nobody lends to anybody."""
    scores = await reranking.rerank(
        reranker, question.text or "", mode=question.mode, vector=vector, text=text
    )
    kept = [
        replace(hit, score=scores[int(hit.key)], neighbour_bonus=0.0)
        for hit in hits
        if int(hit.key) in scores
    ]
    return sorted(kept, key=lambda hit: -hit.score)


def _diverse(
    hits: list[FusedHit],
    question: Question,
    candidates: Mapping[str, Mapping[str, Any]],
    limit: int,
    mmr_lambda: float,
) -> list[FusedHit]:
    if question.vector is None or not hits:
        return hits[:limit]
    # What only words found may have no vector: it then resembles nothing.
    nothing = np.zeros(len(question.vector), dtype=np.float32)
    vectors = [candidates[hit.key].get(VECTOR) for hit in hits]
    rows = np.array([nothing if v is None else v for v in vectors]).reshape(len(hits), -1)
    return [hits[i] for i in mmr(question.vector, rows, k=limit, lambda_mult=mmr_lambda)]


def _found(row: Mapping[str, Any], hit: FusedHit) -> Found:
    said = {"vector": hit.vector, "text": hit.text}
    channels = {name: score for name, score in said.items() if score is not None}
    return Found(row, hit.score, channels, hit.neighbour_bonus)


async def _by_place(rows: pa.Table) -> dict[str, Mapping[str, Any]]:
    """The rows by their ids as texts of one length: these sort in the order of writing."""
    return dict(await steps.each_row(lambda row: (f"{row['_rowid']:020}", row), rows))

"""One search of one table: the channels that are asked, what ranks their candidates, and the best."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from lance_context_core import _steps as steps
from lance_context_core._checks import check_text
from lance_context_core._embedding import as_vector
from lance_context_core._options import defaults_of
from lance_context_core._resources import Resources
from lance_context_core.engine import sql
from lance_context_core.engine.schema import KEY, VECTOR
from lance_context_core.engine.table.table import Table
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import Columns, FilterLike
from lance_context_core.protocols import SearchMode
from lance_context_core.records import SearchHit
from lance_context_core.search import reranking
from lance_context_core.search.fusion import FusedHit, by_text, by_vector, fuse
from lance_context_core.search.options import SearchOptions
from lance_context_core.search.variety import mmr

R = TypeVar("R")

_AS_USUAL = SearchOptions()

_MOST = 2**31 - 1
"""How many rows the engine can be asked for; no table of ours has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched(Generic[R]):
    """What is searched, and what is made of it."""

    table: Table
    resources: Resources
    where: sql.Clause
    """What a row is searched for at all; empty if each one is."""
    filterable: Columns
    """What a filter may name."""
    columns: Sequence[str]
    """What is read of a hit."""
    read: Callable[[Mapping[str, Any]], R]
    """What a row is to the caller."""
    neighbours: float = 0.0
    """What turns lend to those beside them, unless the options say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is looked for."""

    text: str | None
    """As it was asked; what a reranker reads."""
    words: str | None
    """What of the text is looked up in the words; None if they are not asked."""
    vector: np.ndarray | None
    model: str | None
    """What made the vector; None for the caller's own."""
    mode: SearchMode


async def search(
    searched: Searched[R],
    query: str | Sequence[float] | None,
    *,
    vector: Sequence[float] | None = None,
    mode: SearchMode | None = None,
    filter: FilterLike | None = None,
    limit: int = 10,
    options: SearchOptions | None = None,
) -> list[SearchHit[R]]:
    """The best `limit` hits, best first, equals in the order of writing.

    `AsyncContextStore.search` says what the arguments mean, whose defaults stand here.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidRequestError(f"limit={limit!r}: give a number of hits, 0 or more")
    options = _AS_USUAL if options is None else options
    if not isinstance(options, SearchOptions):
        raise InvalidRequestError(f"options={options!r:.80}: give SearchOptions(...), or nothing")
    neighbours = searched.neighbours if options.neighbours is None else options.neighbours
    where = sql.all_of([searched.where, sql.filtered(filter, columns=searched.filterable)])
    question = await _asked(searched, query, vector, mode, options)
    if limit == 0:
        return []

    # Candidates first, with what ranks them, and then the rows of the best; or all at once.
    in_two_steps = (
        question.mode == "hybrid"
        or neighbours > 0
        or options.reranker is not None
        or options.mmr_lambda is not None
    )
    columns = _ranked_by(options) if in_two_steps else searched.columns
    n_candidates = max(limit, options.n_candidates) if in_two_steps else limit
    found = await _candidates(searched.table, question, where or None, n_candidates, columns)
    hits = _ranked(question, *found, options, neighbours)
    if options.reranker is not None:
        hits = await _reranked(question, *found, options, hits)
    if options.mmr_lambda is not None and question.vector is not None:
        hits = _varied(question.vector, *found, hits, limit, options.mmr_lambda)
    best = hits[:limit]
    if in_two_steps:
        rows = await searched.table.take([int(hit.key) for hit in best], columns=searched.columns)
    else:
        rows = found[0] if question.mode == "vector" else found[1]
    records = dict(zip(_places(rows), await steps.each_row(searched.read, rows), strict=True))
    return [
        SearchHit(
            record=records[hit.key],
            score=hit.score,
            channels=hit.channels,
            neighbour_bonus=hit.neighbour_bonus,
        )
        for hit in best
        if hit.key in records  # What was deleted meanwhile is gone.
    ]


DEFAULTS = defaults_of(search)


async def _asked(
    searched: Searched[Any],
    query: str | Sequence[float] | None,
    vector: Sequence[float] | None,
    mode: SearchMode | None,
    options: SearchOptions,
) -> _Question:
    """The question that the arguments put, with a vector where that is needed.

    Without a `mode` both channels are asked, or the only one that can be.
    """
    if query is not None and not isinstance(query, str):
        if vector is not None:
            raise InvalidRequestError(
                "query is a vector, and vector is given too: pass one of them"
            )
        query, vector = None, query
    text = None if query is None else check_text(query, "query")
    if text is None and vector is None:
        raise InvalidRequestError("nothing to search for: pass a text, a vector, or both")
    embeddings = searched.resources.embeddings
    can_embed = vector is not None or (text is not None and embeddings is not None)
    if mode is None:
        mode = "text" if not can_embed else "vector" if text is None else "hybrid"
    if mode not in ("hybrid", "vector", "text"):
        raise InvalidRequestError(f"mode={mode!r}: there are 'hybrid', 'vector' and 'text'")
    if mode != "vector" and text is None:
        raise InvalidRequestError(f"mode={mode!r} needs a text: pass one, or use mode='vector'")
    needs_vector = mode != "text" or options.mmr_lambda is not None
    if needs_vector and not can_embed:
        raise InvalidRequestError(
            f"mode={mode!r} needs a vector: open the store with an embedder, pass a vector, or "
            "search with mode='text'"
        )
    if options.reranker is not None:
        reranking.require_method(options.reranker, mode)
    made, model = None, None
    if needs_vector and vector is not None:
        made = as_vector(vector, "vector")
    elif needs_vector and embeddings is not None and text and not text.isspace():
        made, model = await embeddings.embed_query(text), embeddings.model
        # Zeros say that the model found no direction in the text: there is nothing to be near to.
        made = made if made.any() else None
    if mode == "text" and made is not None:
        # The vector channel would see to it.
        searched.table.vectors.check(await searched.table.schema(), len(made), model)
    words = None
    if mode != "vector" and text is not None:
        words = searched.resources.composer.query_text(text)
    return _Question(
        text=text,
        words=words,
        vector=made,
        model=model,
        mode=mode,
    )


def _ranked_by(options: SearchOptions) -> list[str]:
    """What is read of candidates, beside what each channel says of them."""
    vectors = [VECTOR] if options.mmr_lambda is not None else []
    texts = reranking.COLUMNS if options.reranker is not None else []
    return [KEY, "previous_key", *vectors, *texts]


async def _candidates(
    table: Table, question: _Question, where: sql.Clause | None, limit: int, columns: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """What the vector channel and the text channel find; nothing for one that is not asked."""
    limit = min(limit, _MOST)

    async def nearest() -> pa.Table:
        if question.mode == "text" or question.vector is None:
            return table.nothing(columns, "_distance")
        return await table.nearest(
            question.vector, model=question.model, where=where, limit=limit, columns=columns
        )

    async def matching() -> pa.Table:
        if question.words is None:
            return table.nothing(columns, "_score")
        return await table.match(question.words, where=where, limit=limit, columns=columns)

    if question.mode != "hybrid":
        return await nearest(), await matching()
    # At the same time, which has its price.
    return tuple(await asyncio.gather(nearest(), matching()))


def _ranked(
    question: _Question,
    vector: pa.Table,
    text: pa.Table,
    options: SearchOptions,
    neighbours: float,
) -> list[FusedHit]:
    """The candidates, by their places, on the scale of the mode, best first."""
    near = dict(zip(_places(vector), vector["_distance"].to_pylist(), strict=True))
    cosines = {place: 1.0 - distance for place, distance in near.items()}
    bm25 = dict(zip(_places(text), text["_score"].to_pylist(), strict=True))
    previous = _previous(vector, text) if neighbours else {}
    if question.mode == "vector":
        return by_vector(cosines, previous=previous, neighbours=neighbours)
    if question.mode == "text":
        return by_text(bm25, previous=previous, neighbours=neighbours)
    return fuse(cosines, bm25, previous=previous, fusion=options.fusion, neighbours=neighbours)


def _previous(*found: pa.Table) -> dict[str, str]:
    """The place of the turn before it, for each candidate where that is a candidate, too."""
    places: dict[str, str] = {}
    links: dict[str, str | None] = {}
    for rows in found:
        here = _places(rows)
        places.update(zip(rows[KEY].to_pylist(), here, strict=True))
        if "previous_key" in rows.column_names:  # documents have no turns before them
            links.update(zip(here, rows["previous_key"].to_pylist(), strict=True))
    return {place: places[key] for place, key in links.items() if key in places}


async def _reranked(
    question: _Question,
    vector: pa.Table,
    text: pa.Table,
    options: SearchOptions,
    hits: Sequence[FusedHit],
) -> list[FusedHit]:
    """The hits that the reranker kept, with its scores, by which nobody lends to anybody."""
    assert options.reranker is not None
    scores = await reranking.rerank(
        options.reranker, question.text or "", mode=question.mode, vector=vector, text=text
    )
    kept = [
        replace(hit, score=scores[int(hit.key)], neighbour_bonus=0.0)
        for hit in hits
        if int(hit.key) in scores
    ]
    return sorted(kept, key=lambda hit: -hit.score)


def _varied(
    vector: np.ndarray,
    near: pa.Table,
    matching: pa.Table,
    hits: list[FusedHit],
    limit: int,
    mmr_lambda: float,
) -> list[FusedHit]:
    """The hits that are picked for variety, in the order of picking."""
    if not hits:
        return []
    vectors: dict[str, Any] = {}
    for rows in (near, matching):
        if VECTOR in rows.column_names:
            vectors.update(zip(_places(rows), rows[VECTOR].to_pylist(), strict=True))
    # What only words found may have no vector: it then resembles nothing.
    nothing = np.zeros(len(vector), dtype=np.float32)
    given = [vectors.get(hit.key) for hit in hits]
    rows = np.array([nothing if one is None else one for one in given]).reshape(len(hits), -1)
    return [hits[pick] for pick in mmr(vector, rows, k=limit, lambda_mult=mmr_lambda)]


def _places(rows: pa.Table) -> list[str]:
    """The ids of the rows as texts of one length: these sort in the order of writing."""
    return [f"{row_id:020}" for row_id in rows["_rowid"].to_pylist()]

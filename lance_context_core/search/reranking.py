"""The part of a search that a reranker does: what it is given, and what is taken from it."""

import asyncio
import math
import warnings
from collections.abc import Hashable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core.errors import InvalidRequestError, NotRerankedWarning
from lance_context_core.protocols import Reranker, SearchMode
from lance_context_core.search.fusion import min_max
from lance_context_core.storage.lance.schema import SEARCH_TEXT

COLUMNS = ("text", SEARCH_TEXT)
"""What is read of the candidates, beside what each channel says of them."""

_METHODS = {"hybrid": "rerank_hybrid", "vector": "rerank_vector", "text": "rerank_fts"}


def require_method(reranker: Reranker, mode: SearchMode) -> None:
    """Raise InvalidRequestError unless the reranker has the method that a search of `mode` calls."""
    if not callable(getattr(reranker, _METHODS[mode], None)):
        raise _lacking(reranker, mode)


async def rerank(
    reranker: Reranker,
    query: str,
    *,
    mode: SearchMode,
    vector: pa.Table,
    text: pa.Table,
    warned: set[Hashable] | None = None,
) -> dict[int, float] | None:
    """The score in [0, 1] of each row that the reranker kept, by row id.

    Scores outside [0, 1] are min-max normalised. A reranker may be a model: it runs in a worker
    thread. What it raises is raised, or told once for each kind of failure if there is a set `warned`
    of what was: then the answer is None. InvalidRequestError if it does not return what it shall.
    """
    try:
        return await _reranked(reranker, query, mode=mode, vector=vector, text=text)
    except InvalidRequestError:
        raise  # it is no reranker, which will not pass
    except Exception as error:
        if warned is None:
            raise
        about = ("not reranked", type(reranker), type(error))
        if about not in warned:
            warned.add(about)
            warnings.warn(
                f"{reranker!r:.200} failed, so hits are ranked as they would be without it: "
                f"{type(error).__name__}: {error}",
                NotRerankedWarning,
                stacklevel=2,
            )
        return None


async def _reranked(
    reranker: Reranker, query: str, *, mode: SearchMode, vector: pa.Table, text: pa.Table
) -> dict[int, float]:
    method = getattr(reranker, _METHODS[mode])
    given = {"hybrid": (vector, text), "vector": (vector,), "text": (text,)}[mode]
    try:
        ranked = await asyncio.to_thread(method, query, *map(_presentable, given))
    except NotImplementedError as error:  # what LanceDB's base class says for an absent method
        raise _lacking(reranker, mode) from error
    known = {row_id for rows in given for row_id in rows["_rowid"].to_pylist()}
    scores = _scores(ranked, known, f"reranker.{_METHODS[mode]} of {type(reranker).__name__}")
    if all(0 <= score <= 1 for score in scores.values()):
        return scores
    normalised = min_max({str(row_id): score for row_id, score in scores.items()})
    return {row_id: normalised[str(row_id)] for row_id in scores}


def _lacking(reranker: Reranker, mode: SearchMode) -> InvalidRequestError:
    return InvalidRequestError(
        f"mode={mode!r} calls reranker.{_METHODS[mode]}, which {type(reranker).__name__} does not "
        "have: search in another mode, or give a reranker that has it"
    )


def _presentable(rows: pa.Table) -> pa.Table:
    """`rows` as rerankers expect them: every one has a text, be it the caption of an image."""
    text = rows["text"]
    if SEARCH_TEXT in rows.column_names:
        text = pc.coalesce(text, rows[SEARCH_TEXT])
    said = [name for name in ("_rowid", "_distance", "_score") if name in rows.column_names]
    return rows.select(said).add_column(0, "text", pc.fill_null(text, ""))


def _scores(ranked: Any, known: set[int], what: str) -> dict[int, float]:
    names = ranked.column_names if isinstance(ranked, pa.Table) else []
    if not {"_rowid", "_relevance_score"} <= set(names):
        found = f"a table of {names}" if names else f"a {type(ranked).__name__}"
        raise InvalidRequestError(
            f"{what} returned {found}: return a pyarrow.Table with _rowid and _relevance_score"
        )
    scores: dict[int, float] = dict(
        zip(ranked["_rowid"].to_pylist(), ranked["_relevance_score"].to_pylist(), strict=True)
    )
    for row_id, score in scores.items():
        if row_id not in known:
            raise InvalidRequestError(
                f"{what} returned _rowid={row_id!r}, which it was not given: keep those it was given"
            )
        if score is None or not math.isfinite(score):
            raise InvalidRequestError(
                f"{what} returned _relevance_score={score!r}: return finite numbers"
            )
    return scores

"""Maximal marginal relevance: picks hits near to the query and unlike earlier picks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_context_core.errors import InvalidRequestError
from lance_context_core.search.ranking import FusedHit
from lance_context_core.storage.lance.reads import Found
from lance_context_core.storage.lance.schema import VECTOR


def mmr(
    query_vector: npt.ArrayLike,
    vectors: npt.ArrayLike,
    *,
    k: int,
    lambda_mult: float = 0.5,
) -> list[int]:
    """Return indices of up to `k` rows of `vectors`, in the order of their picks.

    Each pick maximises lambda_mult * cos(row, query) - (1 - lambda_mult) * max cos(row, picked),
    the second term being 0 for the first pick; ties are broken by similarity to the query, then by
    index. So 1 ranks by similarity and 0 by diversity alone. A zero vector has cosine 0 with all.
    Carbonell and Goldstein, "The Use of MMR", SIGIR 1998.
    """
    if not 0 <= lambda_mult <= 1:
        raise InvalidRequestError(
            f"lambda_mult={lambda_mult!r}: give a number from 0 (diversity) to 1 (similarity)"
        )
    if k < 0:
        raise InvalidRequestError(f"k={k!r}: give a number of rows, 0 or more")
    rows = np.asarray(vectors, dtype=np.float64)
    query = np.asarray(query_vector, dtype=np.float64)
    if len(rows) == 0:
        return []
    if query.ndim != 1 or rows.ndim != 2 or rows.shape[1] != len(query):
        raise InvalidRequestError(
            f"vectors of shape {rows.shape}, query_vector of shape {query.shape}: "
            "give one row a vector, each as long as the query's"
        )
    if not (np.isfinite(rows).all() and np.isfinite(query).all()):
        raise InvalidRequestError("vectors and query_vector must be finite: leave out NaN and inf")
    rows = _unit(rows)
    relevance = _dots(rows, _unit(query))
    redundancy = np.zeros(len(rows))
    left = np.lexsort((np.arange(len(rows)), -relevance)).tolist()
    picked: list[int] = []
    while left and len(picked) < k:
        marginal = lambda_mult * relevance[left] - (1 - lambda_mult) * redundancy[left]
        best = left.pop(int(np.argmax(marginal)))
        similarity = _dots(rows, rows[best])
        redundancy = np.maximum(redundancy, similarity) if picked else similarity
        picked.append(best)
    return picked


def _unit(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: npt.NDArray[np.float64] = np.divide(
        vectors, norms, out=np.zeros_like(vectors), where=norms > 0
    )
    return unit


def _dots(
    rows: npt.NDArray[np.float64], vector: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    # `rows @ vector` gives equal rows different last bits, depending on their position.
    dots: npt.NDArray[np.float64] = np.einsum("ij,j->i", rows, vector)
    return dots


def varied(
    hits: Sequence[FusedHit],
    found: Sequence[Found],
    vector: np.ndarray,
    *,
    k: int,
    mmr_lambda: float,
) -> list[FusedHit]:
    """Return the hits picked for diversity, in the order of the picks."""
    if not hits:
        return []
    vectors: dict[int, Any] = {}
    for channel in found:
        vectors.update(zip(channel.ids, channel.column(VECTOR), strict=True))
    # Hits by words alone may have no vector: they are similar to none.
    nothing = np.zeros(len(vector), dtype=np.float32)
    given = [vectors.get(hit.id) for hit in hits]
    rows = np.array([nothing if one is None else one for one in given]).reshape(len(hits), -1)
    return [hits[pick] for pick in mmr(vector, rows, k=k, lambda_mult=mmr_lambda)]

"""What callers may bring: their own time, and their own order of what was found."""

from datetime import datetime
from typing import Protocol, runtime_checkable

import pyarrow as pa


@runtime_checkable
class Clock(Protocol):
    """Where the store gets the time from; injected, so that tests own it."""

    def now(self) -> datetime:
        """The current moment, aware."""


@runtime_checkable
class Reranker(Protocol):
    """Orders the candidates of a search anew; each of LanceDB's rerankers is one.

    A search by vector alone calls `rerank_vector(query, vector_results)` instead, and one by words
    alone `rerank_fts(query, fts_results)`: whoever asks so has to bring them, too. All are called in
    worker threads, from several at once.
    """

    def rerank_hybrid(
        self, query: str, vector_results: pa.Table, fts_results: pa.Table
    ) -> pa.Table:
        """Rows with the `_rowid` and a finite `_relevance_score` of each that shall stay, in any order.

        Both tables hold `_rowid` and `text` of their candidates, best first, and `_distance`
        (1 - cosine) or `_score` (BM25).
        """

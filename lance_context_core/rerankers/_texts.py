"""From the tables that a search hands to a reranker to texts, and back to scores."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_context_core.embedders._batches import well_formed
from lance_context_core.errors import RerankingError


class TextReranker(ABC):
    """A reranker that scores texts, whatever channel found them: `scores` is all that is to be written.

    It is a `Reranker` in every mode of a search. A text that several records have is scored once.
    """

    @abstractmethod
    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float | None]:
        """How well each text fits, in [0, 1], in the order of `texts`; None drops one.

        Called in worker threads, from several at once; there is at least one text, and none twice.
        """

    def rerank_hybrid(
        self, query: str, vector_results: pa.Table, fts_results: pa.Table
    ) -> pa.Table:
        """See `Reranker.rerank_hybrid`."""
        return self._ranked(query, vector_results, fts_results)

    def rerank_vector(self, query: str, vector_results: pa.Table) -> pa.Table:
        """See `Reranker`: for a search by vector alone."""
        return self._ranked(query, vector_results)

    def rerank_fts(self, query: str, fts_results: pa.Table) -> pa.Table:
        """See `Reranker`: for a search by words alone."""
        return self._ranked(query, fts_results)

    def _ranked(self, query: str, *found: pa.Table) -> pa.Table:
        """What is kept of the rows. Raises RerankingError for what are no scores."""
        texts: dict[int, str] = {}
        for rows in found:
            given = (well_formed(text) for text in rows["text"].to_pylist())
            texts.update(zip(rows["_rowid"].to_pylist(), given, strict=True))
        distinct = list(dict.fromkeys(texts.values()))
        scores = list(self.scores(well_formed(query), distinct)) if distinct else []
        if len(scores) != len(distinct):
            raise RerankingError(f"{self!r} gave {len(scores)} scores for {len(distinct)} texts")
        by_text = {
            text: _number(score, self)
            for text, score in zip(distinct, scores, strict=True)
            if score is not None
        }
        kept = [row_id for row_id, text in texts.items() if text in by_text]
        return pa.table(
            {
                "_rowid": pa.array(kept, pa.uint64()),
                "_relevance_score": pa.array([by_text[texts[one]] for one in kept], pa.float64()),
            }
        )


def sigmoid(logits: Sequence[float]) -> list[float]:
    """1 / (1 + e^-x) of each, without overflow."""
    given = np.asarray(logits, dtype=np.float64)
    return [float(one) for one in 0.5 * (1.0 + np.tanh(0.5 * given))]


def _number(score: float, of: TextReranker) -> float:
    try:
        number = float(score)
    except (TypeError, ValueError) as error:
        raise RerankingError(f"{of!r} gave the score {score!r:.60}: no number") from error
    if not math.isfinite(number):
        raise RerankingError(f"{of!r} gave the score {number}: it must be finite")
    return number

"""The records and queries that every side is given: made up, the same for a seed."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import feather

Vectors = npt.NDArray[np.float32]

DIMENSION = 384
SESSIONS = 1_000
CLUSTERS = 1_000
QUERIES = 200
_WORDS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Records, and queries drawn as they were."""

    path: Path
    """A feather file with external_id (`x0`, `x1`, …), session_id, text and vector."""
    vectors: Vectors
    """Of the records, normalised."""
    queries: Vectors
    query_texts: list[str]

    def nearest(self, k: int, *, rows: int | None = None) -> list[set[str]]:
        """The external ids of each query's true `k` nearest, by cosine, of the first `rows`."""
        scores = self.queries @ self.vectors[:rows].T
        best = np.argpartition(-scores, k, axis=1)[:, :k]
        return [{f"x{number}" for number in row} for row in best]


def make_corpus(rows: int, folder: Path, *, seed: int = 0) -> Corpus:
    """`rows` short texts of `SESSIONS` interleaved sessions, with vectors that form clusters."""
    random = np.random.default_rng(seed)
    centres = _normal(random.standard_normal((CLUSTERS, DIMENSION), dtype=np.float32))
    share = np.arange(1, CLUSTERS + 1) ** -0.5
    share /= share.sum()

    def draw(count: int) -> Vectors:
        noise = random.standard_normal((count, DIMENSION), dtype=np.float32)
        spread = np.float32(0.8 / np.sqrt(DIMENSION))
        return _normal(centres[random.choice(CLUSTERS, count, p=share)] + spread * noise)

    vectors, queries = draw(rows), draw(QUERIES)
    path = folder / f"corpus-{rows}.feather"
    numbers = range(rows)
    table = pa.table(
        {
            "external_id": [f"x{number}" for number in numbers],
            "session_id": [f"s{number % SESSIONS}" for number in numbers],
            "text": _texts(random, rows, words=12),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
        }
    )
    feather.write_feather(table, path, compression="uncompressed")
    texts = _texts(random, QUERIES, words=6)
    return Corpus(path=path, vectors=vectors, queries=queries, query_texts=texts)


def _normal(vectors: Vectors) -> Vectors:
    normal: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return normal


def _texts(random: np.random.Generator, count: int, *, words: int) -> list[str]:
    """Texts of made-up words that are as unevenly frequent as those of a language."""
    syllables = ["ka", "lo", "mi", "ne", "tu", "ra", "so", "be", "di", "vu"]
    vocabulary = [
        "".join(syllables[int(digit)] for digit in f"{number:04d}") for number in range(_WORDS)
    ]
    share = 1 / np.arange(1, _WORDS + 1)
    chosen = random.choice(_WORDS, (count, words), p=share / share.sum())
    return [" ".join(vocabulary[word] for word in row) for row in chosen]

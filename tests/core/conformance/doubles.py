"""Stand-ins that tests can predict: a clock and an embedder."""

import hashlib
from datetime import UTC, datetime, timedelta

import numpy as np

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class ManualClock:
    """A clock that stands still until it is advanced."""

    def __init__(self, now: datetime = START) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def advance(self, **duration: float) -> datetime:
        """Go on by a `timedelta` of these parts, such as `seconds=1`; returns the new moment."""
        self._now += timedelta(**duration)
        return self._now


class WordVectors:
    """An embedder: a text is the sum of its words' vectors, a word's is made of its hash.

    Vectors of different words are nearly at right angles. A text without words has no direction.
    """

    def __init__(self, model: str = "words", dimension: int = 64) -> None:
        self.model = model
        self.dimension = dimension

    def embed_documents(self, texts):
        return np.array([self.embed_query(text) for text in texts], dtype=np.float32)

    def embed_query(self, text):
        words = [self._word(word) for word in text.lower().split()]
        return sum(words, np.zeros(self.dimension, dtype=np.float32))

    def _word(self, word: str):
        digest = hashlib.blake2b(word.encode(), digest_size=self.dimension).digest()
        return np.array([1.0 if byte % 2 else -1.0 for byte in digest], dtype=np.float32)

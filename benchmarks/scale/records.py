"""The records and the questions: made up batch by batch, the same for a seed at every size."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

BATCH = 10_000
"""How many records are made, and added, at a time."""
DIMENSION = 384
AGENT = "bench"
MESSAGES_A_SESSION = 100
QUERIES = 200
SHARES = {"1 %": 100, "50 %": 2}
"""Of how many values of a field each record has one, by the share of the records with one value."""

_CLUSTERS = 1_000
_SPREAD = 0.8
"""How far from its centre a vector lies: a neighbour in its cluster has a cosine of 0.61."""
_WORDS = 20_000
_ASKED_WORDS = 5
_TYPICAL_WORDS = {"user": 15, "assistant": 60}
"""Half of the messages are longer. Lengths are spread log-normally, as those of chats are."""
_LONGEST_WORDS = 1_000
_SYLLABLES = ("ka", "lo", "mi", "ne", "tu", "ra", "so", "be", "di", "vu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What a store is asked."""

    vectors: Vectors
    texts: list[str]
    values: dict[str, list[int]]
    """A value of the field for each share, by question."""


class Made:
    """A world of records, as large as it is asked for."""

    def __init__(self, seed: int = 0) -> None:
        """Draw what all batches have in common."""
        random = np.random.default_rng(seed)
        self._seed = seed
        centres = random.standard_normal((_CLUSTERS, DIMENSION), dtype=np.float32)
        self._centres = _directions(centres)
        self._sizes = _shares(_CLUSTERS, 0.5)
        self._words = np.array([_word(number) for number in range(_WORDS)], dtype=object)
        self._frequencies = np.cumsum(_shares(_WORDS, 1.0))

    def batches(self, rows: int) -> Iterator[list[dict[str, Any]]]:
        """The first `rows` records, as `Context.add_many` takes them; whole batches only."""
        for number in range(rows // BATCH):
            yield self.batch(number)

    def batch(self, number: int) -> list[dict[str, Any]]:
        """The records of one batch: whole sessions, whose turns alternate with each other's."""
        random = self._random(number)
        vectors = self._vectors(random, BATCH)
        n_sessions = BATCH // MESSAGES_A_SESSION
        sessions = random.permutation(np.repeat(np.arange(n_sessions), MESSAGES_A_SESSION))
        said = [0] * n_sessions
        roles = []
        for session in sessions:
            roles.append("assistant" if said[session] % 2 else "user")
            said[session] += 1
        texts = self._texts(random, [_TYPICAL_WORDS[role] for role in roles], spread=0.8)
        topics = random.integers(SHARES["1 %"], size=BATCH).tolist()
        return [
            {
                "role": role,
                "content": text,
                "embedding": vector,
                "external_id": f"x{number * BATCH + place}",
                "agent_id": AGENT,
                "session_id": session_id(number * n_sessions + session),
                "user_id": f"u{(number * n_sessions + session) % SHARES['1 %']}",
                "metadata": {"topic": topic, "channel": topic % SHARES["50 %"]},
            }
            for place, (role, text, vector, session, topic) in enumerate(
                zip(roles, texts, vectors, sessions.tolist(), topics, strict=True)
            )
        ]

    def questions(self) -> Questions:
        """Drawn as the records are, but none of them."""
        random = self._random(2**32)
        return Questions(
            vectors=self._vectors(random, QUERIES),
            texts=self._texts(random, [_ASKED_WORDS] * QUERIES, spread=0.0),
            values={
                share: random.integers(n_values, size=QUERIES).tolist()
                for share, n_values in SHARES.items()
            },
        )

    # Helpers

    def _random(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, number])

    def _vectors(self, random: np.random.Generator, count: int) -> Vectors:
        noise = random.standard_normal((count, DIMENSION), dtype=np.float32)
        centres = self._centres[random.choice(_CLUSTERS, count, p=self._sizes)]
        return _directions(centres + np.float32(_SPREAD / np.sqrt(DIMENSION)) * noise)

    def _texts(
        self, random: np.random.Generator, typical: list[int], *, spread: float
    ) -> list[str]:
        drawn = np.array(typical) * random.lognormal(0.0, spread, len(typical))
        lengths = np.clip(drawn.round().astype(int), 1, _LONGEST_WORDS)
        places = np.searchsorted(self._frequencies, random.random(int(lengths.sum())))
        words = self._words[np.minimum(places, _WORDS - 1)].tolist()
        ends = np.cumsum(lengths).tolist()
        return [
            " ".join(words[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)
        ]


def session_id(number: int) -> str:
    """What the session of that number is called."""
    return f"s{number}"


def _directions(vectors: Vectors) -> Vectors:
    directions: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return directions


def _shares(count: int, exponent: float) -> npt.NDArray[np.float64]:
    """Zipf's law: the share of the n-th is that of the first by n to the `exponent`."""
    shares = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    whole: npt.NDArray[np.float64] = shares / shares.sum()
    return whole


def _word(number: int) -> str:
    """The commonest words are the shortest, as in a language."""
    return "".join(_SYLLABLES[int(digit)] for digit in str(number))

"""The conversations that every peer is given, and the right answers to what is asked of them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import feather

from benchmarks.corpus import Vectors, make_corpus

TURN = 4
"""How many messages a turn has."""
K = 10
"""How many hits a search asks for."""
_LAST = 50
_BOTH, _ALONE = K, 20
"""In how many messages a pair of words stands, and each of the two without the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything there is in a run."""

    rows: int
    """Messages that a peer holds before anything is measured."""
    session_rows: int
    """How many of them a session has."""
    appends: int
    turns: int
    rounds: int
    """In how many parts the appends and turns are done; the peers take turns between them."""
    queries: int
    kills: int
    """How often the process of a peer is killed."""

    @property
    def total(self) -> int:
        """How many messages there are in all."""
        return self.rows + self.appends + self.turns * TURN


WHOLE = Sizes(rows=10_000, session_rows=200, appends=200, turns=80, rounds=4, queries=31, kills=3)
QUICK = Sizes(rows=400, session_rows=100, appends=8, turns=4, rounds=2, queries=4, kills=1)


@dataclass(frozen=True, kw_only=True)
class Data:
    """Messages by number, and questions by number.

    Message `n` is the same for every peer. Its text is its own, so that a text tells the message.
    """

    path: Path
    """A feather file with session, role, topic, text and vector of each message."""
    sizes: Sizes
    texts: Sequence[str]
    sessions: Sequence[str]
    topics: Sequence[str]
    vectors: Vectors
    """Of the messages, normalised."""
    queries: Vectors
    pairs: Sequence[str]
    """Two words that stand together in `K` messages, and apart in others."""
    words: Sequence[str]
    """One word that stands in one message only, which is not near the query of that number."""

    @property
    def last(self) -> int:
        """How many messages of a session's end are read."""
        return min(_LAST, self.sizes.session_rows // 2)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """What message a text is."""
        return {text: number for number, text in enumerate(self.texts)}

    def session(self, name: str, held: Sequence[int]) -> list[int]:
        """The messages of a session, of those `held`, in order."""
        return [number for number in held if self.sessions[number] == name]

    def nearest(self, query: int, held: Collection[int], *, k: int = K) -> list[int]:
        """The `k` of `held` that are nearest to a query, by cosine, nearest first."""
        among = np.fromiter(held, dtype=np.int64, count=len(held))
        scores = self.vectors[among] @ self.queries[query]
        return [int(number) for number in among[np.argsort(-scores)][:k]]

    def containing(self, words: str, held: Collection[int]) -> set[int]:
        """Those of `held` in which all the words stand."""
        wanted = set(words.split())
        return {number for number in held if wanted <= set(self.texts[number].split())}

    def of_topic(self, topic: str, held: Collection[int]) -> list[int]:
        """Those of `held` that are about a topic."""
        return [number for number in held if self.topics[number] == topic]


def make_data(sizes: Sizes, folder: Path, *, seed: int = 7) -> Data:
    """Conversations of `sizes`, the same for a seed."""
    corpus = make_corpus(sizes.total, folder, seed=seed)
    random = np.random.default_rng(seed)
    texts: list[str] = feather.read_table(corpus.path, columns=["text"])["text"].to_pylist()
    names = _names(3 * sizes.queries)
    pairs = [f"{names[3 * one]} {names[3 * one + 1]}" for one in range(sizes.queries)]
    words = names[2::3]
    free = iter(random.permutation(sizes.total).tolist())
    for pair, word in zip(pairs, words, strict=True):
        first, second = pair.split()
        for added, count in ((pair, _BOTH), (first, _ALONE), (second, _ALONE), (word, 1)):
            for _ in range(count):
                number = next(free)
                texts[number] = f"{texts[number]} {added}"
    if len(set(texts)) != len(texts):
        raise ValueError(f"two messages have the same text: choose another seed than {seed}")
    sessions = _sessions(sizes)
    n_topics = max(1, sizes.rows // 100)
    topics = [f"t{number}" for number in random.integers(n_topics, size=sizes.total).tolist()]
    table = pa.table(
        {
            "session": sessions,
            "role": ["assistant" if number % 2 else "user" for number in range(sizes.total)],
            "topic": topics,
            "text": texts,
            "vector": feather.read_table(corpus.path, columns=["vector"])["vector"],
        }
    )
    path = folder / "messages.feather"
    feather.write_feather(table, path, compression="uncompressed")
    return Data(
        path=path,
        sizes=sizes,
        texts=texts,
        sessions=sessions,
        topics=topics,
        vectors=corpus.vectors,
        queries=corpus.queries[: sizes.queries],
        pairs=pairs,
        words=words,
    )


def _sessions(sizes: Sizes) -> list[str]:
    """One session after the other; what comes later goes on with them, a turn in one session."""
    n_sessions = sizes.rows // sizes.session_rows
    held = [f"s{number // sizes.session_rows}" for number in range(sizes.rows)]
    appended = [f"s{number % n_sessions}" for number in range(sizes.appends)]
    said = [f"s{number % n_sessions}" for number in range(sizes.turns) for _ in range(TURN)]
    return held + appended + said


def _names(count: int) -> list[str]:
    """Words that are nowhere else, all as long, which no stemmer shortens."""
    letters = "bdfgklmnprtvz"
    base = len(letters)
    return [
        "".join(f"{letters[(one // base**place) % base]}a" for place in range(4)) + "x"
        for one in range(count)
    ]

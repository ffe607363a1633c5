"""A conversation of made-up words, and the scores that a search of it owes, worked out in numpy."""

import math
import random
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from core.conformance.doubles import WordVectors

from lance_context_core import ContextStore, Message

WORDS = ("zorp", "kvik", "blax", "drum", "plok", "snar", "wump", "frob")
"""No two of them have a stem in common, and none is one that only asks."""


@dataclass(frozen=True)
class Turn:
    id: str
    session: str
    text: str


class Conversation:
    """Turns of several sessions in one store, all said on the same day."""

    def __init__(self, *, n_turns: int = 90, n_sessions: int = 4, **options) -> None:
        rng = random.Random(7)
        self.turns = [
            Turn(f"m{n}", f"s{rng.randrange(n_sessions)}", " ".join(self._said(rng)))
            for n in range(n_turns)
        ]
        self.store = ContextStore.open("memory://", embedder=WordVectors(), **options)
        for session in sorted({turn.session for turn in self.turns}):
            messages = [Message.user(t.text, id=t.id) for t in self.turns if t.session == session]
            self.store.history.append_many("", messages[:3], session_id=session)
            self.store.history.append_many("", messages[3:], session_id=session)

    @staticmethod
    def _said(rng):
        return rng.choices(WORDS, k=rng.randint(1, 9))

    def cosines(self, query):
        """Of every turn, by id."""
        model = WordVectors()
        asked = model.embed_query(query).astype(float)
        rows = model.embed_documents([turn.text for turn in self.turns]).astype(float)
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(asked)
        return dict(zip((t.id for t in self.turns), rows @ asked / lengths, strict=True))

    def bm25(self, query):
        """Of every turn that holds a word of the query, by id: k1 = 1.2, b = 0.75.

        Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, with 1 added in the
        logarithm, as Lucene does. A turn is indexed with its day, which is three words.
        """
        texts = {turn.id: turn.text.split() for turn in self.turns}
        lengths = {one: len(words) + 3 for one, words in texts.items()}
        mean = sum(lengths.values()) / len(lengths)
        scores = dict.fromkeys(texts, 0.0)
        for word in query.split():
            holding = [one for one, words in texts.items() if word in words]
            rarity = math.log(1 + (len(texts) - len(holding) + 0.5) / (len(holding) + 0.5))
            for one in holding:
                count = texts[one].count(word)
                damped = count + 1.2 * (0.25 + 0.75 * lengths[one] / mean)
                scores[one] += rarity * count * 2.2 / damped
        return {one: score for one, score in scores.items() if score > 0}

    @cached_property
    def beside(self):
        """The ids of the turn before and of the turn after each, in its session."""
        beside = {}
        for session in {turn.session for turn in self.turns}:
            ids = [turn.id for turn in self.turns if turn.session == session]
            for place, one in enumerate(ids):
                beside[one] = [*ids[max(place - 1, 0) : place], *ids[place + 1 : place + 2]]
        return beside

    def lent(self, scores):
        """What the neighbours of each have, as far as they have a score."""
        return {one: sum(scores.get(other, 0.0) for other in self.beside[one]) for one in scores}


def best(scores, n):
    """The `n` best; with all that equal the last of them."""
    last = sorted(scores.values(), reverse=True)[:n][-1:]
    return {one: score for one, score in scores.items() if score >= (last or [0])[0] - 1e-9}


def stretched(scores):
    low, high = min(scores.values(), default=0), max(scores.values(), default=0)
    return {one: (s - low) / (high - low) if high > low else 1.0 for one, s in scores.items()}

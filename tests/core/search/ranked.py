"""The rankings of candidates that are told by mappings: of texts as keys, to scores and to turns."""

import numpy as np

from lance_context_core.search import ranking
from lance_context_core.search.boosts import Neighbours, Turn
from lance_context_core.search.candidates import Candidates

LENDING = (Neighbours((0.3,)),)


class Hit:
    """One of the ranking, with its key."""

    def __init__(self, hit, keys):
        self.key, self._hit = keys[hit.id], hit

    def __getattr__(self, name):
        return getattr(self._hit, name)

    def __eq__(self, other):
        return (self.key, self._hit) == (other.key, other._hit)

    __hash__ = None


def fuse(vector, text, **given):
    return _ranked(ranking.fuse, [vector, text], **given)


def by_vector(vector, **given):
    return _ranked(ranking.by_vector, [vector], **given)


def by_text(text, **given):
    return _ranked(ranking.by_text, [text], **given)


def _ranked(rank, channels, *, previous=None, turns=None, question=None, boosts=LENDING, **options):
    previous, turns = previous or {}, turns or {}
    keys = sorted({key for some in (*channels, turns) for key in some})
    numbers = {key: number for number, key in enumerate(keys)}
    before = np.array([numbers.get(previous.get(key), -1) for key in keys], np.int64)
    candidates = Candidates(
        range(len(keys)),
        before,
        lambda name: [getattr(turns.get(key, Turn()), name) for key in keys],
        key=keys.__getitem__,
    )
    found = [
        (np.array([numbers[key] for key in some], np.int64), np.array([*some.values()], float))
        for some in channels
    ]
    hits = rank(candidates, *found, question=question, boosts=boosts, **options)
    return [Hit(hit, keys) for hit in hits]

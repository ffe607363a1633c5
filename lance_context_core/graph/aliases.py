"""Entities that may be one, by their names and by the meaning of these: proposed, never merged."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import combinations
from typing import Any

import numpy as np

from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_count, shown
from lance_context_core.codecs.graph import COLUMNS, ENTITY, MENTION, name_key, scope_of
from lance_context_core.errors import InvalidRequestError
from lance_context_core.graph.scoped import ScopedGraph, entity_of, of_types
from lance_context_core.storage import sql
from lance_context_core.types.graph import AliasProposal, Entity

_WORD = re.compile(r"\w+")
_MOST_IN_BLOCK = 50
"""Entities that share a word are compared if they are at most so many: a common word tells nothing."""

_MOST_BY_MEANING = 20_000
"""Vectors of up to so many names are compared, each with each."""

_AT_ONCE = 1_000

_SAME_WORDS, _SAME_MENTION, _INITIALS, _CONTAINED = 1.0, 0.95, 0.9, 0.85
_LEAST_SPELLING = 0.75
"""From which share of equal letters on two names are nearly the same."""

Pair = tuple[int, int]


async def proposed(
    graph: ScopedGraph, types: object, *, min_score: float, limit: int
) -> list[AliasProposal]:
    """As `AsyncGraph.propose_aliases`."""
    check_count(limit, "limit")
    if isinstance(min_score, bool) or not isinstance(min_score, int | float):
        raise InvalidRequestError(f"min_score={shown(min_score)}: give a number in [0, 1]")
    if not 0 <= min_score <= 1:
        raise InvalidRequestError(f"min_score={min_score}: give a number in [0, 1]")
    where = [sql.equals("kind", ENTITY), *of_types(types)]
    found = await graph.read(*where, columns=[*COLUMNS, "node"])
    entities = await steps.each(entity_of, found)
    places = {row["node"]: place for place, row in enumerate(found)}
    scored: dict[Pair, tuple[float, str]] = {}
    for pair in await _of_mentions(graph, places):
        scored[pair] = (_SAME_MENTION, "mentioned by the same words")
    words = [tuple(_WORD.findall(name_key(one.name))) for one in entities]
    pairs = {pair for block in _blocks(words) for pair in combinations(block, 2)}

    def score(pair: Pair) -> None:
        told = _of_names(words[pair[0]], words[pair[1]])
        if told is not None and told > scored.get(pair, (0.0, "")):
            scored[pair] = told

    await steps.each(score, sorted(pairs), n_as_one=5)
    for pair, cosine in await _of_meaning(graph, entities, min_score):
        told = (cosine, "names of similar meaning")
        scored[pair] = max(scored.get(pair, told), told)
    kept = [
        (pair, told)
        for pair, told in scored.items()
        if told[0] >= min_score and scope_of(entities[pair[0]]) == scope_of(entities[pair[1]])
    ]
    kept.sort(key=lambda one: (-one[1][0], one[0]))
    return [
        AliasProposal(entity=entities[a], other=entities[b], score=score, reason=reason)
        for (a, b), (score, reason) in kept[:limit]
    ]


async def _of_mentions(graph: ScopedGraph, places: Mapping[int, int]) -> set[Pair]:
    """Returns the entities that sources call by the same words."""
    named: dict[str, set[int]] = defaultdict(set)
    columns = ["name_key", "about_node"]
    for row in await graph.read(sql.equals("kind", MENTION), columns=columns):
        if (place := places.get(row["about_node"])) is not None:
            named[row["name_key"]].add(place)
    return {
        pair
        for some in named.values()
        if len(some) <= _MOST_IN_BLOCK
        for pair in combinations(sorted(some), 2)
    }


def _blocks(words: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """Yields entities, by place, that share a word, the beginning of one, or initials."""
    blocks: dict[str, list[int]] = defaultdict(list)
    for place, some in enumerate(words):
        for key in {*some, *(f"{word[:3]}…" for word in some), _initials(some)}:
            blocks[key].append(place)
    return (block for block in blocks.values() if 2 <= len(block) <= _MOST_IN_BLOCK)


def _initials(words: Sequence[str]) -> str:
    return "".join(word[0] for word in words) if len(words) > 1 else "".join(words)


def _of_names(one: Sequence[str], other: Sequence[str]) -> tuple[float, str] | None:
    """Returns how likely two names are one, and why; None if nothing tells so."""
    if not one or not other:
        return None
    if sorted(one) == sorted(other):
        return _SAME_WORDS, "the same words"
    short, long = sorted((one, other), key=len)
    if len(short) == 1 and len(long) > 1 and len(long) == len(short[0]):
        return (_INITIALS, "initials") if short[0] == _initials(long) else None
    if len(one) == len(other) and all(map(_abbreviates, one, other)):
        return _INITIALS, "initials"
    if set(short) < set(long):
        return _CONTAINED, "one name is part of the other"
    if _digits(one) != _digits(other):
        return None
    alike = SequenceMatcher(None, " ".join(one), " ".join(other), autojunk=False).ratio()
    return (round(alike, 3), "similar spelling") if alike >= _LEAST_SPELLING else None


def _digits(words: Sequence[str]) -> list[str]:
    return [letter for word in words for letter in word if letter.isdigit()]


def _abbreviates(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return short == long or (len(short) == 1 and long.startswith(short))


async def _of_meaning(
    graph: ScopedGraph, entities: Sequence[Entity], least: float
) -> list[tuple[Pair, float]]:
    """Returns the pairs with similar vectors of their names; none without an embedder."""
    service = graph.resources.embeddings
    if service is None or not 2 <= len(entities) <= _MOST_BY_MEANING:
        return []
    vectors: Any = await service.embed_documents([one.name for one in entities])
    vectors = np.asarray(vectors, np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(lengths == 0, 1, lengths)
    found: list[tuple[Pair, float]] = []
    for start in range(0, len(vectors), _AT_ONCE):
        await steps.take_all(steps.STEP)
        near = vectors[start : start + _AT_ONCE] @ vectors.T
        for a, b in zip(*np.nonzero(near >= max(least, 1e-6)), strict=True):
            if start + a < b:
                cosine = min(float(near[a, b]), 1.0)
                found.append(((start + int(a), int(b)), round(cosine, 3)))
    return found

"""One order of what was said and of what is known of it: a turn, its chunk and its facts are one place."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from lance_context_core.knowledge import kept
from lance_context_core.knowledge.quoting import Place, place_of
from lance_context_core.types import ContextRecord, SearchHit

Layer = Literal["L0", "L1", "L2"]
Layered = tuple[Layer, SearchHit[ContextRecord]]
Found = Sequence[SearchHit[ContextRecord]]

STATED = 0.1
"""So much of its score a turn has more of which a fact answers, too.

Chosen on one of three conversations, of 0.02 to 0.3: `python -m benchmarks.recall_knowledge`."""


def fused(known: Found, heard: Found) -> list[Layered]:
    """The facts and chunks `known` and the turns `heard`, each best first, in one order.

    A turn is shown as what is known of it, where that is found, and has the turn's own score: so that
    facts add to what the turns find, and take the place of none. What more is known of a turn that is
    shown comes by its own score, and not before it; so does that of which the turn is not found.
    """
    scores = {place_of(hit.record): hit.score for hit in heard}
    for place in {
        one for hit in known if hit.record.kind == kept.FACT for one in places_of(hit.record)
    }:
        if place in scores:
            scores[place] = _raised(scores[place])
    shown: set[Place] = set()
    found: list[Layered] = []
    for hit in without_echoes(known):
        places = places_of(hit.record)
        score = max((scores[one] for one in places if one in scores), default=None)
        if score is None:
            score = hit.score
        elif places <= shown:
            score = min(score, _raised(hit.score))
        shown |= places
        found.append(("L1", replace(hit, score=score)))
    found += [("L2", hit) for hit in heard if place_of(hit.record) not in shown]
    return sorted(found, key=lambda one: -one[1].score)


def facts_first(hits: Found) -> Found:
    """The hits, best first, with a fact in the place of each chunk that says no more than it.

    What several turns say in the same words is one fact, and is shown once, with all that proves it.
    """
    facts = {
        (place, kept.about(hit.record)["words"]): hit
        for hit in hits
        if hit.record.kind == kept.FACT
        for place in places_of(hit.record)
    }
    best = {id(hit): hit.score for hit in hits}
    others = []
    for hit in hits:
        fact = None
        if hit.record.kind == kept.CHUNK:
            words = kept.normalised(hit.record.text or "")
            fact = next((facts.get((one, words)) for one in places_of(hit.record)), None)
        if fact is None:
            others.append(hit)
        else:
            best[id(fact)] = max(best[id(fact)], hit.score)
    found = [replace(hit, score=best[id(hit)]) for hit in others]
    return sorted(found, key=lambda hit: (-hit.score, hit.record.kind == kept.CHUNK))


def without_echoes(hits: Iterable[SearchHit[ContextRecord]]) -> list[SearchHit[ContextRecord]]:
    """The hits without those that say no more than a better one has shown already.

    A chunk of a turn of which a fact or chunk is shown; a fact of which a chunk is shown; and what was
    found twice. Of two facts neither says what the other one does.
    """
    known: set[Place] = set()
    shown: set[Place] = set()
    whole: set[Place] = set()
    kept_ones = []
    for hit in hits:
        if (own := place_of(hit.record)) in known:
            continue
        known.add(own)
        places = places_of(hit.record)
        is_chunk = hit.record.kind == kept.CHUNK
        if places and places <= (shown if is_chunk else whole):
            continue
        shown |= places
        whole |= places if is_chunk else set()
        kept_ones.append(hit)
    return kept_ones


def places_of(made: ContextRecord) -> set[Place]:
    """The turns that a fact or chunk is from."""
    *whose, _, _ = place_of(made)
    return {(*whose, one.session_id, one.source_id) for one in kept.evidence(made)}


def _raised(score: float) -> float:
    return score + STATED * abs(score)

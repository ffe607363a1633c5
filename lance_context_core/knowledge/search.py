"""The chain: facts and chunks answer, in the order of the turns that prove them; summaries point to more."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, get_args

from lance_context_core._util.checks import check_name, check_time, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.records import COLUMNS
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.chunks import chunks
from lance_context_core.knowledge.evidence_text import Place, place_of, quotes, said
from lance_context_core.knowledge.types import KnowledgeHit, SearchType
from lance_context_core.search.options import ALONE, CONVERSATION
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord, SearchHit

# One order of what was said and of what is known of it: a turn, its chunk and its facts are one place.

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
        one for hit in known if hit.record.kind == params.FACT for one in places_of(hit.record)
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
        (place, params.about(hit.record)["words"]): hit
        for hit in hits
        if hit.record.kind == params.FACT
        for place in places_of(hit.record)
    }
    best = {id(hit): hit.score for hit in hits}
    others = []
    for hit in hits:
        fact = None
        if hit.record.kind == params.CHUNK:
            words = params.normalised(hit.record.text or "")
            fact = next((facts.get((one, words)) for one in places_of(hit.record)), None)
        if fact is None:
            others.append(hit)
        else:
            best[id(fact)] = max(best[id(fact)], hit.score)
    found = [replace(hit, score=best[id(hit)]) for hit in others]
    return sorted(found, key=lambda hit: (-hit.score, hit.record.kind == params.CHUNK))


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
        is_chunk = hit.record.kind == params.CHUNK
        if places and places <= (shown if is_chunk else whole):
            continue
        shown |= places
        whole |= places if is_chunk else set()
        kept_ones.append(hit)
    return kept_ones


def places_of(made: ContextRecord) -> set[Place]:
    """The turns that a fact or chunk is from."""
    *whose, _, _ = place_of(made)
    return {(*whose, one.session_id, one.source_id) for one in params.evidence(made)}


def _raised(score: float) -> float:
    return score + STATED * abs(score)


N_SUMMARIES = 3
"""So many sessions are looked into closer."""

_AS_MANY, _AT_LEAST = 3, 30
"""For each hit so many are looked up, since facts and chunks of one turn say the same; and of few more."""

_L1 = sql.in_list("kind", [params.FACT, params.CHUNK])
_FACTS = sql.equals("kind", params.FACT)
_CHUNKS = sql.equals("kind", params.CHUNK)
_L0 = sql.equals("kind", params.SUMMARY)


@frozen
class Question:
    """What is asked, and where."""

    query: str
    top_k: int
    conditions: tuple[sql.Clause, ...]
    filter: FilterLike | None
    valid_at: datetime | None

    @classmethod
    def of(
        cls,
        query: str,
        *,
        top_k: int,
        session_id: str | None,
        filter: FilterLike | None,
        valid_at: datetime | None,
    ) -> "Question":
        """A question, checked."""
        if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 0:
            raise InvalidRequestError(f"top_k={shown(top_k)}: give a whole number, 0 or more")
        here = []
        if session_id is not None:
            here.append(sql.equals("session_id", check_name(session_id, "session_id")))
        moment = None if valid_at is None else check_time(valid_at, "valid_at")
        return cls(query, top_k, tuple(here), filter, moment)


async def search(
    spoken: Records, made: Records, question: Question, *, search_type: SearchType, evidence: bool
) -> list[KnowledgeHit]:
    """What answers the question, best first."""
    if search_type not in get_args(SearchType):
        raise InvalidRequestError(
            f"search_type={shown(search_type)}: there are {', '.join(get_args(SearchType))}"
        )
    if question.valid_at is not None and search_type not in ("chain", "facts"):
        raise InvalidRequestError(
            f"valid_at says what was true then, which only facts know: leave it out, or search "
            f"the facts instead of the {search_type}"
        )
    found: list[Layered]
    if search_type == "summaries":
        found = [("L0", hit) for hit in await _made(made, question, _L0)]
    elif question.valid_at is not None:
        found = [("L1", hit) for hit in await _then(made, question, question.valid_at)]
    elif search_type == "turns":
        found = [("L2", hit) for hit in await _turns(spoken, question, question.top_k)]
    else:
        found = await _chain(spoken, made, question, is_all=search_type == "chain")
    best = found[: question.top_k]
    there = await said(spoken, [hit.record for _, hit in best]) if evidence else {}
    return [
        KnowledgeHit(
            record=hit.record,
            score=hit.score,
            layer=layer,
            evidence=quotes(hit.record, there) if evidence else (),
        )
        for layer, hit in best
    ]


async def _chain(
    spoken: Records, made: Records, question: Question, *, is_all: bool
) -> list[Layered]:
    """What is known, in the order of the turns that it is from; if `is_all`, the other turns too."""
    known, heard = await asyncio.gather(
        _made(made, question, _L1), _turns(spoken, question, _depth(question))
    )
    found = await _as_chunks(made, question, fused(known, heard))
    if is_all and len(found) < question.top_k:
        # Behind the others: what is looked for closer takes the place of nothing that was found.
        ids = {place_of(hit.record) for _, hit in found}
        closer = fused(await _closer(made, question), [])
        found += [one for one in closer if place_of(one[1].record) not in ids]
    wanted = [one for one in found if is_all or one[0] == "L1"]
    return await _current_first(made, wanted[: question.top_k])


async def _as_chunks(made: Records, question: Question, found: list[Layered]) -> list[Layered]:
    """The hits, with a chunk of it in place of each turn of which there is one.

    So a turn that a job has read is found among the facts and chunks alone as well, at its place.
    """
    heard = {place_of(hit.record) for layer, hit in found if layer == "L2"}
    ids = [
        params.chunk_id(hit.record.session_id or "", hit.record.id, *span)
        for layer, hit in found
        if layer == "L2"
        for span in chunks(hit.record.text or "")
    ]
    if not ids:
        return found
    where = made.where(_CHUNKS, sql.in_list("id", ids), filter=question.filter)
    pieces: dict[Place, list[ContextRecord]] = {}
    for one in await made.read(where, columns=COLUMNS):
        for place in places_of(one) & heard:
            pieces.setdefault(place, []).append(one)
    words = {*params.normalised(question.query).split()}

    def shown(layer: Layer, hit: SearchHit[ContextRecord]) -> Layered:
        said_now = hit.record.text or ""
        of_turn = [
            one for one in pieces.get(place_of(hit.record), ()) if (one.text or "") in said_now
        ]
        if layer != "L2" or not of_turn:
            return layer, hit
        in_common = [len(words & {*params.normalised(one.text or "").split()}) for one in of_turn]
        return "L1", replace(hit, record=of_turn[in_common.index(max(in_common))])

    return [shown(*one) for one in found]


def _depth(question: Question) -> int:
    return question.top_k and max(_AS_MANY * question.top_k, _AT_LEAST)


async def _then(made: Records, question: Question, valid_at: datetime) -> Found:
    """The facts that were true at that moment."""
    moment = valid_at.isoformat()
    then: dict[str, Any] = {
        "$and": [
            {"fact.valid_from": {"$lte": moment}},
            {"$or": [{"fact.valid_to": None}, {"fact.valid_to": {"$gt": moment}}]},
            {"retired_at": None},
            *([] if question.filter is None else [question.filter]),
        ]
    }
    return without_echoes(
        await made.search(
            question.query,
            _FACTS,
            *question.conditions,
            include_retired=True,
            room=ALONE,
            filter=then,
            limit=question.top_k,
        )
    )


async def _closer(made: Records, question: Question) -> Found:
    """What the sessions have that summaries point to."""
    pointing = await made.search(
        question.query, _L0, *question.conditions, room=ALONE, limit=N_SUMMARIES
    )
    sessions = [one.record.session_id for one in pointing if one.record.session_id]
    return await _made(made, question, _L1, sql.in_list("session_id", sessions))


async def _made(made: Records, question: Question, *conditions: sql.Clause) -> Found:
    hits = await made.search(
        question.query,
        *conditions,
        *question.conditions,
        room=CONVERSATION,
        filter=question.filter,
        limit=_depth(question),
    )
    return facts_first(hits)


async def _turns(spoken: Records, question: Question, limit: int) -> Found:
    return await spoken.search(
        question.query,
        turns.MESSAGES,
        *question.conditions,
        filter=question.filter,
        limit=limit,
    )


async def _current_first(made: Records, found: list[Layered]) -> list[Layered]:
    """The hits, with what is true now before each chunk or turn in which it is said otherwise."""
    said_in = [_said_in(hit.record) for _, hit in found]
    ids = sorted({place[1] for place in said_in if place is not None})
    if not ids:
        return found
    former = sql.all_of(
        [
            _FACTS,
            sql.is_present("superseded_by_id"),
            sql.any_of([sql.has_element("source_ids", id) for id in ids]),
        ]
    )
    by: dict[tuple[str | None, str], list[str]] = {}
    for one in await made.read(made.own(former), columns=COLUMNS):
        for proof in params.evidence(one):
            turn = (proof.session_id, proof.source_id)
            by.setdefault(turn, []).append(one.superseded_by_id or "")
    if not by:
        return found
    wanted = sql.in_list("id", sorted({id for ids in by.values() for id in ids}))
    now = {one.id: one for one in await made.read(made.where(_FACTS, wanted), columns=COLUMNS)}
    shown_ones: set[str] = set()
    ordered: list[Layered] = []
    for (layer, hit), place in zip(found, said_in, strict=True):
        newer = [] if place is None else by.get(place, [])
        ordered += [
            ("L1", replace(hit, record=now[id]))
            for id in dict.fromkeys(newer)
            if id in now and id not in shown_ones
        ]
        shown_ones |= set(newer)
        if layer == "L2" or hit.record.id not in shown_ones:
            ordered.append((layer, hit))
            shown_ones.add(hit.record.id)
    return ordered


def _said_in(record: ContextRecord) -> tuple[str | None, str] | None:
    """The session and the turn of which a hit shows the words; None for a fact, which is true now."""
    if record.kind == params.FACT:
        return None
    is_chunk = record.kind == params.CHUNK
    return record.session_id, record.source_ids[0] if is_chunk else record.id

"""The chain: summaries say in which sessions to look closer, facts and chunks answer, turns prove it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args

from lance_context_core._checks import check_name, check_span, check_time, shown
from lance_context_core.engine import sql
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.knowledge import kept, turns
from lance_context_core.knowledge.quoting import quotes, said
from lance_context_core.knowledge.values import KnowledgeHit, SearchType
from lance_context_core.records import ContextRecord, SearchHit
from lance_context_core.rows.records import COLUMNS
from lance_context_core.search.options import ALONE, CONVERSATION
from lance_context_core.stores.records.scoped import Records

N_SUMMARIES = 3
"""So many sessions are looked into closer."""

_AS_MANY = 3
"""For each hit so many are looked up, since facts and chunks of one turn say the same."""

_L1 = sql.in_list("kind", [kept.FACT, kept.CHUNK])
_FACTS = sql.equals("kind", kept.FACT)
_L0 = sql.equals("kind", kept.SUMMARY)

Found = Sequence[SearchHit[ContextRecord]]


@dataclass(frozen=True, slots=True)
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
        check_span(offset=0, limit=top_k, last=None)
        if top_k is None:
            raise InvalidRequestError("top_k=None: say how many are wanted, such as 10")
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
    found: list[tuple[Literal["L0", "L1", "L2"], SearchHit[ContextRecord]]] = []
    if search_type == "summaries":
        found = [("L0", hit) for hit in await _made(made, question, _L0)]
    elif search_type == "facts" or question.valid_at is not None:
        found = [("L1", hit) for hit in await _level_1(made, question)]
    elif search_type == "turns":
        found = [("L2", hit) for hit in await _turns(spoken, question)]
    else:
        level_1 = await _level_1(made, question)
        if len(level_1) < question.top_k:
            level_1 = _without_echoes([*level_1, *await _closer(made, question)], question.top_k)
        found = [("L1", hit) for hit in level_1]
        if len(found) < question.top_k:
            proven = {id for _, hit in found for id in hit.record.source_ids}
            deeper = [one for one in await _turns(spoken, question) if one.record.id not in proven]
            found += [("L2", hit) for hit in deeper]
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


async def _level_1(made: Records, question: Question) -> Found:
    if question.valid_at is None:
        found = _without_echoes(await _made(made, question, _L1), question.top_k)
        return (await _current_first(made, found))[: question.top_k]
    moment = question.valid_at.isoformat()
    then: dict[str, Any] = {
        "$and": [
            {"fact.valid_from": {"$lte": moment}},
            {"$or": [{"fact.valid_to": None}, {"fact.valid_to": {"$gt": moment}}]},
            {"retired_at": None},
            *([] if question.filter is None else [question.filter]),
        ]
    }
    hits = await made.search(
        question.query,
        _FACTS,
        *question.conditions,
        include_retired=True,
        room=ALONE,
        filter=then,
        limit=question.top_k,
    )
    return _without_echoes(hits, question.top_k)


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
        limit=_AS_MANY * question.top_k,
    )
    # A fact before the chunk that says no more than it.
    return sorted(hits, key=lambda hit: (-hit.score, hit.record.kind == kept.CHUNK))


async def _turns(spoken: Records, question: Question) -> Found:
    return await spoken.search(
        question.query,
        turns.MESSAGES,
        *question.conditions,
        filter=question.filter,
        limit=question.top_k,
    )


async def _current_first(made: Records, hits: Found) -> Found:
    """The hits, with what is true now before each chunk in which it is said otherwise."""
    chunks = [hit.record for hit in hits if hit.record.kind == kept.CHUNK]
    ids = {id for one in chunks for id in one.source_ids}
    if not ids:
        return hits
    former = sql.all_of(
        [
            _FACTS,
            sql.is_present("superseded_by_id"),
            sql.any_of([sql.has_element("source_ids", id) for id in sorted(ids)]),
        ]
    )
    by: dict[tuple[str | None, str], list[str]] = {}
    for one in await made.read(made.own(former), columns=COLUMNS):
        for proof in kept.evidence(one):
            place = (proof.session_id, proof.source_id)
            by.setdefault(place, []).append(one.superseded_by_id or "")
    if not by:
        return hits
    wanted = sql.in_list("id", sorted({id for ids in by.values() for id in ids}))
    now = {one.id: one for one in await made.read(made.where(_FACTS, wanted), columns=COLUMNS)}
    shown_ones: set[str] = set()
    ordered: list[SearchHit[ContextRecord]] = []
    for hit in hits:
        if hit.record.kind == kept.CHUNK:
            newer = by.get((hit.record.session_id, hit.record.source_ids[0]), [])
            ordered += [
                replace(hit, record=now[id])
                for id in dict.fromkeys(newer)
                if id in now and id not in shown_ones
            ]
            shown_ones |= set(newer)
        if hit.record.id not in shown_ones:
            ordered.append(hit)
        shown_ones.add(hit.record.id)
    return ordered


def _without_echoes(hits: Found, most: int) -> Found:
    """The hits without those that say no more than a better one has shown already, at most so many.

    A chunk of a turn of which a fact or chunk is shown; a fact of which a chunk is shown; and what was
    found twice. Of two facts neither says what the other one does.
    """
    known: set[tuple[str | None, ...]] = set()
    shown_ones: set[tuple[str | None, str]] = set()
    whole_ones: set[tuple[str | None, str]] = set()
    kept_ones = []
    for hit in hits:
        one = hit.record
        if (own := (one.tenant, one.user_id, one.agent_id, one.session_id, one.id)) in known:
            continue
        known.add(own)
        sources = {(one.session_id, one.source_id) for one in kept.evidence(hit.record)}
        is_chunk = hit.record.kind == kept.CHUNK
        if sources and sources <= (shown_ones if is_chunk else whole_ones):
            continue
        shown_ones |= sources
        whole_ones |= sources if is_chunk else set()
        kept_ones.append(hit)
    return kept_ones[:most]

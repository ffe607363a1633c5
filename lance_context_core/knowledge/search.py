"""Knowledge search: facts first, or the chain of facts, chunks and turns; summaries find more."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, Literal, get_args

from lance_context_core._util.checks import check_name, check_time, shown
from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.records import COLUMNS, apart, is_visible, key_of
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.chunks import MAX_CHARACTERS, Span, chunks
from lance_context_core.knowledge.evidence_text import Place, place_of, quotes, said
from lance_context_core.knowledge.types import Evidence, KnowledgeHit, SearchType
from lance_context_core.knowledge.undo_log import ARCHIVE, PRUNE, UNDO
from lance_context_core.search.options import ALONE, CONVERSATION
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord, SearchHit

# One order of turns and knowledge: a turn, its chunk and its facts are one place.

Layer = Literal["L0", "L1", "L2"]
Layered = tuple[Layer, SearchHit[ContextRecord]]
Found = Sequence[SearchHit[ContextRecord]]

STATED = 0.1
"""Share of its score that a turn gains if one of its facts answers too.

Chosen on one of three conversations, of 0.02 to 0.3: `python -m benchmarks.recall_knowledge`.
"""


def fused(known: Found, heard: Found) -> list[Layered]:
    """Merge the facts and chunks `known` and the turns `heard`, each best first.

    A turn is replaced by the knowledge of it, if found, with the turn's own score: so facts add to
    the found turns and displace none. Further knowledge of a shown turn ranks by its own score, and
    not before it; so does knowledge of a turn that was not found.
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
        found.append(("L1", hit if score == hit.score else replace(hit, score=score)))
    found += [("L2", hit) for hit in heard if place_of(hit.record) not in shown]
    return sorted(found, key=lambda one: -one[1].score)


def facts_first(hits: Found) -> Found:
    """Return the hits, best first, with each redundant chunk replaced by its fact.

    A statement of several turns in the same words is one fact, and is shown once, with all its
    evidence.
    """
    facts = {
        (place, params.about(hit.record)["words"]): hit
        for hit in hits
        if hit.record.kind == params.FACT
        for place in places_of(hit.record)
    }
    stating = {place for place, _ in facts}
    best: dict[int, float] = {}
    others = []
    for hit in hits:
        fact = None
        if hit.record.kind == params.CHUNK and (places := places_of(hit.record)) & stating:
            words = params.normalised(hit.record.text or "")
            fact = next((facts.get((one, words)) for one in places), None)
        if fact is None:
            others.append(hit)
        else:
            best[id(fact)] = max(best.get(id(fact), fact.score), hit.score)
    found = [replace(hit, score=best[id(hit)]) if id(hit) in best else hit for hit in others]
    return sorted(found, key=lambda hit: (-hit.score, hit.record.kind == params.CHUNK))


def without_echoes(hits: Iterable[SearchHit[ContextRecord]]) -> list[SearchHit[ContextRecord]]:
    """Return the hits without those that repeat a better one.

    Drops a chunk of a turn of which a fact or chunk is shown, a fact whose words are in a shown
    chunk, and duplicates. Two facts never repeat each other.
    """
    known: set[Place] = set()
    shown: set[Place] = set()
    whole: dict[Place, list[ContextRecord]] = {}
    kept_ones = []
    for hit in hits:
        if (own := place_of(hit.record)) in known:
            continue
        known.add(own)
        places = places_of(hit.record)
        if hit.record.kind == params.CHUNK:
            if places and places <= shown:
                continue
            for place in places:
                whole.setdefault(place, []).append(hit.record)
        elif places and places <= whole.keys() and _is_said(hit.record, places, whole):
            continue
        shown |= places
        kept_ones.append(hit)
    return kept_ones


def _is_said(
    fact: ContextRecord, places: set[Place], whole: Mapping[Place, Sequence[ContextRecord]]
) -> bool:
    """Whether a chunk of each turn of a fact contains the words of the fact."""
    words = f" {params.normalised(fact.text or '')} "
    return all(
        any(words in f" {params.normalised(one.text or '')} " for one in whole[place])
        for place in places
    )


def places_of(made: ContextRecord) -> set[Place]:
    """Return the turns of a fact or chunk."""
    *whose, _, _ = place_of(made)
    found = made.metadata.get("evidence", ())
    return {(*whose, one["session_id"], one["source_id"]) for one in found}


def _raised(score: float) -> float:
    return score + STATED * abs(score)


N_SUMMARIES = 3
"""Number of sessions to search further."""

_MORE = 4
"""Candidates beside the hits, since facts and chunks of one turn repeat each other."""

_AS_MANY, _AT_LEAST = 2, 20
"""Candidates per hit where these are too few; minimum."""

_L1 = sql.in_list("kind", [params.FACT, params.CHUNK])
_FACTS = sql.equals("kind", params.FACT)
_CHUNKS = sql.equals("kind", params.CHUNK)
_FORMER = sql.all_of(
    [
        _FACTS,
        sql.any_of(
            [
                sql.is_present("superseded_by_id"),
                sql.all_of(
                    [
                        sql.is_present("retired_at"),
                        sql.not_in_list("retired_reason", [UNDO, PRUNE, ARCHIVE, params.MERGED]),
                    ]
                ),
            ]
        ),
    ]
)
"""Outdated facts: replaced by others, or ended by a person."""

_L0 = sql.equals("kind", params.SUMMARY)


@frozen
class Question:
    """A query with its filters."""

    query: str
    top_k: int
    conditions: tuple[sql.Clause, ...]
    filter: FilterLike | None
    valid_at: datetime | None
    filter_of_made: FilterLike | None = None
    """The filter of facts, chunks and summaries: see `facts.by_turns`."""
    is_wide: bool = False
    """Whether to look at more candidates, because those of the first look repeat each other."""

    @property
    def depth(self) -> int:
        """The number of candidates of each search."""
        widest = max(_AS_MANY * self.top_k, _AT_LEAST)
        return self.top_k and (widest if self.is_wide else min(self.top_k + _MORE, widest))

    def wide(self) -> "Question":
        """Return the same question for a look at more candidates."""
        return replace(self, is_wide=True)

    @classmethod
    def of(
        cls,
        query: str,
        *,
        top_k: int,
        session_id: str | None,
        filter: FilterLike | None,
        valid_at: datetime | None,
        named: str = "top_k",
    ) -> "Question":
        """Create a checked question; `named` is the caller's name of `top_k`."""
        if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 0:
            raise InvalidRequestError(f"{named}={shown(top_k)}: give a whole number, 0 or more")
        here = []
        if session_id is not None:
            here.append(sql.equals("session_id", check_name(session_id, "session_id")))
        moment = None if valid_at is None else check_time(valid_at, "valid_at")
        return cls(query, top_k, tuple(here), filter, moment)


async def search(
    spoken: Records,
    made: Records,
    question: Question,
    *,
    search_type: SearchType,
    evidence: bool,
    outdated: bool = False,
) -> list[KnowledgeHit]:
    """Return the hits, best first, with outdated ones if `outdated`."""
    if search_type not in get_args(SearchType):
        raise InvalidRequestError(
            f"search_type={shown(search_type)}: use one of {', '.join(get_args(SearchType))}"
        )
    if question.valid_at is not None and search_type not in ("chain", "facts"):
        raise InvalidRequestError(
            f"valid_at applies to facts only: leave it out, or search "
            f"the facts instead of the {search_type}"
        )
    found: list[Layered]
    marks: Marks = {}
    if search_type == "summaries":
        found = _best([("L0", hit) for hit in await _made(made, question.wide(), _L0)], question)
    elif question.valid_at is not None:
        then = await _then(made, question, question.valid_at)
        found = _best([("L1", hit) for hit in then], question)
    elif search_type == "turns":
        found = _best([("L2", hit) for hit in await _turns(spoken, question)], question)
    else:
        answer = _facts if search_type == "facts" else _chain
        found, is_all = await answer(spoken, made, question)
        found, marks = await _marked(made, found, outdated=outdated)
        found = _best(found, question)
        if not is_all and len(found) < question.top_k:
            # Those of the first look say the same, or are outdated.
            found, _ = await answer(spoken, made, question.wide())
            found, marks = await _marked(made, found, outdated=outdated)
            found = _best(found, question)
    there = await said(spoken, [hit.record for _, hit in found]) if evidence else {}
    return [
        KnowledgeHit(
            record=apart(hit.record),
            score=hit.score,
            layer=layer,
            evidence=quotes(hit.record, there) if evidence else (),
            outdated=marks.get(place_of(hit.record), ()),
        )
        for layer, hit in found
    ]


def _best(found: Iterable[Layered], question: Question) -> list[Layered]:
    return list(islice(_each_text_once(found), question.top_k))


def _each_text_once(found: Iterable[Layered]) -> Iterator[Layered]:
    """Yield the hits without those whose words a better one of the same speaker has."""
    said_before: set[tuple[str | None, ...]] = set()
    for one in found:
        record = one[1].record
        text = record.text or ""
        *whose, _, _ = place_of(record)
        words = (*whose, record.name, params.normalised(text) or text)
        if not text or words not in said_before:
            said_before.add(words)
            yield one


async def _facts(_spoken: Records, made: Records, question: Question) -> tuple[list[Layered], bool]:
    """Return the matching facts, followed by chunks with more; and whether these are all."""
    known = list(await _made(made, question, _FACTS))
    is_all = len(known) < question.depth
    if len(known) < question.top_k:
        known += (more := await _made(made, question, _CHUNKS))
        is_all = len(more) < question.depth
    return [("L1", hit) for hit in without_echoes(known)], is_all


async def _chain(spoken: Records, made: Records, question: Question) -> tuple[list[Layered], bool]:
    """Return knowledge and turns, in the order of the turns; and whether these are all."""
    if made.looked is None:
        known, heard = await asyncio.gather(_made(made, question, _L1), _heard(spoken, question))
    else:  # In memory two tasks would cost more than they save.
        known, heard = await _made(made, question, _L1), await _heard(spoken, question)
    is_all = question.is_wide or max(len(known), len(heard)) < question.depth
    heard = [hit for hit in heard if not turns.is_echo(hit.record.metadata)]
    found = await _as_chunks(made, question, fused(facts_first(known), heard))
    if len(found) < question.top_k and is_all:
        # Behind the others: hits of the further search displace none.
        ids = {place_of(hit.record) for _, hit in found}
        closer = fused(await _closer(made, question), [])
        found += [one for one in closer if place_of(one[1].record) not in ids]
    return found, is_all


async def _as_chunks(made: Records, question: Question, found: list[Layered]) -> list[Layered]:
    """Replace each turn that was split by its matching chunk."""
    spans = {
        place_of(hit.record): cut
        for layer, hit in found
        if layer == "L2" and len(hit.record.text or "") > MAX_CHARACTERS
        if len(cut := chunks(hit.record.text or "")) > 1
    }
    ids = [
        params.chunk_id(place[-2] or "", place[-1] or "", *span)
        for place in spans
        for span in spans[place]
    ]
    if not ids:
        return found
    where = made.where(_CHUNKS, sql.in_list("id", ids), filter=question.filter_of_made)
    pieces: dict[Place, list[ContextRecord]] = {}
    for one in await made.read(where, columns=COLUMNS):
        for place in places_of(one) & spans.keys():
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


async def _then(made: Records, question: Question, valid_at: datetime) -> Found:
    """Return the matching facts that were true at that moment."""
    moment = valid_at.isoformat()
    then: dict[str, Any] = {
        "$and": [
            {"fact.valid_from": {"$lte": moment}},
            {"$or": [{"fact.valid_to": None}, {"fact.valid_to": {"$gt": moment}}]},
            {"retired_at": None},
            *([] if question.filter_of_made is None else [question.filter_of_made]),
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
    """Search the sessions that summaries point to."""
    pointing = await made.search(
        question.query, _L0, *question.conditions, room=ALONE, limit=N_SUMMARIES
    )
    sessions = [one.record.session_id for one in pointing if one.record.session_id]
    return facts_first(await _made(made, question, _L1, sql.in_list("session_id", sessions)))


async def _made(made: Records, question: Question, *conditions: sql.Clause) -> Found:
    return await made.search(
        question.query,
        *conditions,
        *question.conditions,
        are_seen=True,
        room=CONVERSATION,
        filter=question.filter_of_made,
        limit=question.depth,
    )


async def _turns(spoken: Records, question: Question) -> Found:
    """Return the matching turns, without those that repeat recalled text."""
    hits = await _heard(spoken, question.wide())
    return [hit for hit in hits if not turns.is_echo(hit.record.metadata)]


async def _heard(spoken: Records, question: Question) -> Found:
    return await spoken.search(
        question.query,
        turns.MESSAGES,
        *question.conditions,
        are_seen=True,
        filter=question.filter,
        limit=question.depth,
    )


# Outdated facts.

Marks = dict[Place, tuple[str, ...]]
"""Outdated facts stated by a hit, by the hit's place."""


async def _marked(
    made: Records, found: list[Layered], *, outdated: bool
) -> tuple[list[Layered], Marks]:
    """Insert the current facts before each hit that states outdated ones.

    A hit that mostly states outdated facts is included only if `outdated`.
    """
    former = await _former(made, found)
    marks: Marks = {}
    ordered: list[Layered] = []
    shown_ones: set[Place] = set()
    stated: dict[Place, list[ContextRecord]] = {}
    mostly: set[Place] = set()
    for _, hit in found:
        of_it = [] if hit.record.kind == params.FACT else _stated(hit.record, former)
        if of_it:
            place = place_of(hit.record)
            marks[place] = tuple(one.id for one, _ in of_it)
            stated[place] = [one for one, _ in of_it]
            if _is_most(hit.record, [span for _, span in of_it]):
                mostly.add(place)
    holding = await _holding(made, stated)
    for layer, hit in found:
        is_fact, place = hit.record.kind == params.FACT, place_of(hit.record)
        for one in [hit.record] if is_fact else holding.get(place, ()):
            if (own := place_of(one)) not in shown_ones:
                shown_ones.add(own)
                ordered.append(("L1", replace(hit, record=one)))
        if not is_fact and (outdated or place not in mostly):
            ordered.append((layer, hit))
    return ordered, marks


Former = dict[Place, list[tuple[ContextRecord, Evidence]]]
"""Outdated facts, by the turns that state them."""


async def _former(made: Records, found: Sequence[Layered]) -> Former:
    """Return the outdated facts that turns of the hits state."""
    asked = {
        id
        for _, hit in found
        if hit.record.kind != params.FACT
        for id in (hit.record.source_ids or (hit.record.id,))
    }

    def is_stated(row: Mapping[str, Any]) -> bool:
        return not asked.isdisjoint(row.get("source_ids") or ())

    rows = await made.remembered(_FORMER, columns=(KEY, "source_ids"), such=is_stated)
    former: Former = {}
    for one in (await made.seen([row[KEY] for row in rows])).values():
        *whose, _, _ = place_of(one)
        for proof in params.evidence(one):
            place = (*whose, proof.session_id, proof.source_id)
            former.setdefault(place, []).append((one, proof))
    return former


def _stated(record: ContextRecord, former: Former) -> list[tuple[ContextRecord, Span]]:
    """Return the outdated facts that a chunk or turn states, with their spans."""
    if not former:
        return []
    places, begin = {place_of(record)}, 0
    if record.kind == params.CHUNK:
        places, begin = places_of(record), params.evidence(record)[0].start
    length = len(record.text or "")
    return [
        (one, (max(proof.start - begin, 0), min(proof.end - begin, length)))
        for place in places
        for one, proof in former.get(place, ())
        if proof.start - begin < length and proof.end > begin
    ]


def _is_most(record: ContextRecord, spans: Iterable[Span]) -> bool:
    """Whether these spans cover at least half of its text."""
    covered = {at for start, end in spans for at in range(start, end)}
    return 2 * len(covered) >= len((record.text or "").strip())


async def _holding(
    made: Records, stated: Mapping[Place, Sequence[ContextRecord]]
) -> dict[Place, list[ContextRecord]]:
    """Return the current successors of these facts, by the same places."""
    known: dict[str, ContextRecord] = {}
    asked = {key for some in stated.values() for one in some if (key := _successor(made, one))}
    while new := asked - known.keys():
        known |= (there := await made.seen([*new]))
        # A removed fact has none.
        asked = {key for one in there.values() if (key := _successor(made, one))}
    now = made.now()
    found: dict[Place, list[ContextRecord]] = {}
    for place, some in stated.items():
        for one in some:
            last: ContextRecord | None = one
            passed: set[str] = set()
            while last is not None and (key := _successor(made, last)) and key not in passed:
                passed.add(key)
                last = known.get(key)
            if last is not None and last is not one and is_visible(last, now):
                found.setdefault(place, []).append(last)
    return found


def _successor(made: Records, fact: ContextRecord) -> str | None:
    """Return the key of a fact's successor."""
    by = fact.superseded_by_id
    return None if by is None else key_of(turns.owner_of(fact), made.context, "id", by)

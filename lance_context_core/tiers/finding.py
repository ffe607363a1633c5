"""A search of the tiers: candidates of each, one hit an entry, ranked before the access is counted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core.filters import FilterLike
from lance_context_core.jobs import commits
from lance_context_core.search.options import ALONE
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.tiers import entries, scoring
from lance_context_core.tiers.accesses import can_count
from lance_context_core.tiers.moving import IS_ENTRY
from lance_context_core.tiers.values import Ranking, Tier, TierConfig, TierEntry, TierHit
from lance_context_core.types import ContextRecord, SearchHit

_AS_MANY = 3
"""For each hit so many candidates are ranked."""

_ADAPTIVE = {Tier.HOT: 5, Tier.WARM: 3, Tier.COLD: 3}
"""So many hits of a tier an adaptive search takes at most."""


@frozen_by_name
class Question:
    """What is asked, and of which entries."""

    query: str
    top_k: int
    session_id: str | None
    tiers: Sequence[Tier]
    filter: FilterLike | None
    ranking: Ranking


@frozen
class _Candidate:
    key: str
    entry: TierEntry
    text: str
    similarity: float


async def search(records: Records, config: TierConfig, question: Question) -> list[TierHit]:
    """The best hits, best first; what was shown is noted as accessed, after it was ranked."""
    if question.ranking == "adaptive":
        candidates = await _adaptive(records, config, question)
    else:
        n = max(_AS_MANY * question.top_k, 1)
        candidates = [
            one
            for tier in question.tiers
            for one in await _of_tier(records, config, question, tier, n)
        ]
    now = records.now()
    weights = scoring.weights_for(question.query, config)
    ranked = []
    for one in {one.key: one for one in reversed(candidates)}.values():
        recency = scoring.recency(one.entry.last_accessed_at, now, config.half_life)
        score = one.similarity
        if question.ranking == "multi_factor":
            score = scoring.combined(weights, one.similarity, recency, one.entry.importance)
        hit = TierHit(
            entry=one.entry,
            text=one.text,
            score=score,
            similarity=one.similarity,
            recency=recency,
        )
        ranked.append((hit, one.key))
    ranked.sort(key=lambda one: (-one[0].score, -one[0].similarity, one[1]))
    best = ranked[: question.top_k]
    if can_count(records):
        records.resources.accesses.note([key for _, key in best], now)
    return [hit for hit, _ in best]


async def _adaptive(records: Records, config: TierConfig, question: Question) -> list[_Candidate]:
    """Colder tiers are asked only where the hotter ones have nothing similar enough."""
    found: list[_Candidate] = []
    for tier in Tier:
        best = max((one.similarity for one in found), default=0.0)
        if (tier is Tier.WARM and best > config.enough) or (
            tier is Tier.COLD and best >= config.enough_warm
        ):
            break
        if tier in question.tiers:
            similar = await _of_tier(records, config, question, tier, _AS_MANY * _ADAPTIVE[tier])
            similar.sort(key=lambda one: -one.similarity)
            found += similar[: _ADAPTIVE[tier]]
    return found


async def _of_tier(
    records: Records, config: TierConfig, question: Question, tier: Tier, n: int
) -> list[_Candidate]:
    """What of a tier is similar enough, with its entry as it is known before it was found now."""
    here: list[sql.Clause] = [sql.equals("layer", str(tier))]
    here.append(sql.equals("kind", entries.STAND_INS.get(tier, entries.ENTRY)))
    if question.session_id is not None:
        here.append(sql.equals("session_id", question.session_id))
    hits = await records.search(question.query, *here, room=ALONE, filter=question.filter, limit=n)
    similarity = scoring.Similarity(question.query)
    similar = []
    for hit in hits:
        near = similarity.of(hit.record.text or "", hit.channels.get("vector"))
        if near >= config.least_similar[tier]:
            similar.append((hit, near))
    known = await _entries(records, [hit for hit, _ in similar], tier)
    return [
        _Candidate(key, entry, hit.record.text or "", near)
        for hit, near in similar
        for key, entry in [known.get(_place(hit.record, tier), (None, None))]
        if key is not None and entry is not None
    ]


async def _entries(
    records: Records, hits: Sequence[SearchHit[ContextRecord]], tier: Tier
) -> dict[Any, tuple[str, TierEntry]]:
    """The entries that the hits are of, or stand in for, by owner and id; in one query."""
    ids = sorted({_place(hit.record, tier)[-1] for hit in hits})
    if not ids:
        return {}
    known = {}
    for one in await commits.held(records, IS_ENTRY, sql.in_list("id", ids)):
        record = one.record
        if record.layer != tier:
            continue  # Somebody has moved it meanwhile.
        key = one.row[KEY]
        entry = with_pending(records, key, record)
        known[_place(record, Tier.HOT)] = (key, entry)
    return known


def with_pending(records: Records, key: str, record: ContextRecord) -> TierEntry:
    """The entry, with the accesses that are not written yet."""
    pending = records.resources.accesses.of(key)
    if pending is not None:
        record = entries.accessed(record, pending.times, pending.last)
    return entries.from_record(replace(record, embedding=None))


def _place(record: ContextRecord, tier: Tier) -> tuple[str | None, str | None, str | None, str]:
    id = record.id if tier is Tier.HOT else record.source_ids[0]
    return (record.tenant, record.user_id, record.agent_id, id)

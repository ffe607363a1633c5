"""Moves entries between tiers: the entry and its stand-in, in one commit."""

import math
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Any

from lance_context_core._util.calls import called
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held
from lance_context_core.memory_index.bm25 import words_of
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import sql
from lance_context_core.storage.lance.indexes import TextIndex
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.text.analysis import index_words, query_words
from lance_context_core.tiers import entries
from lance_context_core.tiers.types import (
    Authority,
    Tier,
    TierConfig,
    TierEntry,
    TierReport,
    Weights,
)
from lance_context_core.types import ChannelScore, ContextRecord

Summarise = Callable[[str], str | Awaitable[str]]
"""Shortens a text; a blocking function, which runs in a thread, or an asynchronous one."""

IS_ENTRY = sql.equals("kind", entries.ENTRY)
STANDS_IN = sql.in_list("kind", list(entries.STAND_INS.values()))


@frozen
class Wording:
    """The functions that write stand-ins."""

    summarise: Summarise | None = None
    state: Summarise | None = None

    async def of(self, text: str, tier: Tier) -> str:
        """Returns the stand-in text for a tier. Raises the model's errors, and for an empty result."""
        summary = await _said(self.summarise, text, "summarise")
        if tier is Tier.WARM:
            return summary
        return summary if self.state is None else await _said(self.state, summary, "state")


@frozen
class Move:
    """A move of an entry to another tier."""

    before: Held
    to: Tier
    text: str | None = None
    """Its new stand-in there; None without one, or if an earlier one is used again."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further metadata of the stand-in."""


async def found(records: Records, ids: Sequence[str]) -> dict[str, Held]:
    """Returns the entries with these ids, by id, without expired ones.

    Raises NotFoundError unless each exists, and InvalidRequestError if several users'
    entries have the same id.
    """
    ended = sql.absent_or_after("expires_at", records.now())
    there: dict[str, Held] = {}
    for one in await commits.held(records, IS_ENTRY, sql.in_list("id", list(ids)), ended):
        if one.record.id in there:
            raise InvalidRequestError(
                f"several users have an entry {one.record.id!r}: say whose by a scope of the store"
            )
        there[one.record.id] = one
    if missing := [id for id in ids if id not in there]:
        raise NotFoundError(
            f"no entry {missing[0]!r} in the tiers: list the entries with tiers.list"
        )
    return there


async def move_records(records: Records, moves: Sequence[Move]) -> bool:
    """Moves all in one commit; or none, if another writer has changed one of them meanwhile."""
    now = records.now()
    beside = await _standing_in(records, moves)
    added: list[ContextRecord] = []
    changed: list[tuple[Held, ContextRecord]] = []
    for one in moves:
        entry = one.before.record
        changed.append((one.before, replace(entry, layer=str(one.to))))
        for tier in entries.STAND_INS:
            there = beside.get((*_owner(entry), entries.stand_in_id(entry, tier)))
            if tier is not one.to:
                if there is not None and there.record.retired_at is None:
                    hidden = replace(there.record, retired_at=now, retired_reason=entries.MOVED)
                    changed.append((there, hidden))
                continue
            text = one.text
            if text is None and there is not None:
                text = there.record.text
            new = entries.stand_in(entry, tier, text or "", now, one.more)
            if there is None:
                added.append(new)
            else:
                changed.append((there, new))
    return await commits.write(records, added, changed)


async def remove(records: Records, gone: Sequence[Held]) -> bool:
    """Deletes entries, and their stand-ins, in one commit; as `move_records`."""
    beside = await _standing_in(records, [Move(one, Tier.HOT) for one in gone])
    return await commits.write(records, [], [], removed=[*gone, *beside.values()])


async def _standing_in(
    records: Records, moves: Sequence[Move]
) -> dict[tuple[str | None, ...], Held]:
    """Returns their stand-ins, hidden or not, by owner and id."""
    ids = [
        entries.stand_in_id(one.before.record, tier) for one in moves for tier in entries.STAND_INS
    ]
    owners = {_owner(one.before.record) for one in moves}
    there = await commits.held(records, STANDS_IN, sql.in_list("id", ids))
    return {
        (*_owner(one.record), one.record.id): one for one in there if _owner(one.record) in owners
    }


def _owner(record: ContextRecord) -> tuple[str | None, ...]:
    return tuple(getattr(record, part) for part in SCOPE_PARTS)


async def _said(function: Summarise | None, text: str, where: str) -> str:
    if function is None:
        return entries.shortened(text)
    said = await called(function, text)
    if not isinstance(said, str) or not said.strip():
        raise InvalidRequestError(f"{where} returned {said!r:.80}: it has to return a text")
    return said.strip()


def keys_of(held: Sequence[Held]) -> list[str]:
    """Returns the primary keys of the rows."""
    return [one.row[KEY] for one in held]


# The scores of an entry: for a query, and for staying hot.

_TEMPORAL = frozenset(
    "recent recently latest last newest current currently now today yesterday new just ago".split()  # noqa: SIM905
)
_WORD = re.compile(r"\w+")


def recency(last: datetime, now: datetime, half_life: timedelta) -> float:
    """Returns the recency in (0, 1]: half for each half-life since then; 1 for the future."""
    return float(0.5 ** (max(timedelta(0), now - last) / half_life))


def retention(entry: TierEntry, now: datetime, half_life: timedelta) -> float:
    """Returns an entry's score for staying hot; the least moves first."""
    used = 0.1 * math.log1p(entry.access_count)
    recent = recency(entry.last_accessed_at, now, half_life)
    return 0.5 * entry.importance + 0.3 * recent + 0.2 * used


def weights_for(query: str, config: TierConfig) -> Weights:
    """Returns the weights for a query: one for new things gives recency more weight.

    The rest is shared by similarity and importance as five to two.
    """
    hits = sum(word in _TEMPORAL for word in _WORD.findall(query.lower()))
    if not hits or not config.temporal_boost:
        return config.weights
    given = config.weights
    total = given.similarity + given.recency + given.importance
    more = config.temporal_boost * min(hits / 3, 1.0)
    recent = min(1.0, given.recency / total + more)
    rest = 1 - recent
    return Weights(similarity=rest * 5 / 7, recency=recent, importance=rest * 2 / 7)


def combined(weights: Weights, similarity: float, recency: float, importance: float) -> float:
    """Returns the weighted mean of the three, in [0, 1]."""
    total = weights.similarity + weights.recency + weights.importance
    found = (
        weights.similarity * similarity
        + weights.recency * recency
        + weights.importance * importance
    )
    return min(1.0, max(0.0, found / total))


class Similarity:
    """The similarity of texts to a query, on one scale with or without vectors."""

    def __init__(self, query: str) -> None:
        """Prepares this query."""
        self._asked = _terms(query_words(query))

    def of(self, text: str, vector: ChannelScore | None) -> float:
        """Returns the larger of the cosine and the share of the query's words in the text."""
        cosine = 0.0 if vector is None else vector.raw
        found = len(self._asked & _terms(index_words(text)))
        share = found / len(self._asked) if self._asked else 0.0
        return min(1.0, max(0.0, cosine, share))


_USUAL = TextIndex()


def _terms(text: str) -> frozenset[str]:
    """Returns the words of a text; without stems of other languages, which would count words twice."""
    words = words_of(_USUAL)
    found = words(text) if words is not None else []
    return frozenset(one for one in found if one.isdigit() or not one.startswith("0"))


# The round of maintenance: deletes expired entries, and moves others colder by the policy.

AT_ONCE = 500
"""How many entries are moved or deleted in one commit."""

_CHARACTERS_PER_TOKEN = 4


@frozen
class Keeping:
    """Applies the policy to the entries of one scope."""

    records: Records
    config: TierConfig
    wording: Wording

    async def round(self, now: datetime, *, dry_run: bool) -> TierReport:
        """Runs one round, which does nothing more if repeated at the same moment."""
        expired = await self._expired(now)
        going = await self._going(now)
        if not dry_run:
            await self._remove(expired)
            await self._move(going)
        return TierReport(
            expired=tuple(one.record.id for one in expired if one.record.kind == entries.ENTRY),
            warm=tuple(one.record.id for one, to in going if to is Tier.WARM),
            cold=tuple(one.record.id for one, to in going if to is Tier.COLD),
            is_dry_run=dry_run,
        )

    async def candidates(self, tier: Tier, now: datetime) -> list[TierEntry]:
        """Returns a tier's entries that may move colder, due or not; the first to move first."""
        there = [one for one in await self._entries(now) if one.record.layer == tier]
        found = [entries.from_record(one.record) for one in there]
        recent = _recent(found, self.config.keep_recent) if tier is Tier.HOT else set[int]()
        may = [
            one
            for place, one in enumerate(found)
            if one.authority is not Authority.CANONICAL and place not in recent
        ]
        return sorted(may, key=lambda one: retention(one, now, self.config.half_life))

    # Helpers

    async def _entries(self, now: datetime) -> list[Held]:
        ended = sql.absent_or_after("expires_at", now)
        return await commits.held(self.records, IS_ENTRY, ended)

    async def _expired(self, now: datetime) -> list[Held]:
        """Returns expired entries: stand-ins expire with them."""
        return await commits.held(self.records, sql.at_or_before("expires_at", now))

    async def _remove(self, expired: Sequence[Held]) -> None:
        for start in range(0, len(expired), AT_ONCE):
            # Entries changed meanwhile are left to the next round.
            await commits.write(self.records, [], [], removed=expired[start : start + AT_ONCE])

    async def _going(self, now: datetime) -> list[tuple[Held, Tier]]:
        """Returns the entries to move colder, with their tiers; those due for both go to the coldest."""
        there = await self._entries(now)
        found = [entries.from_record(one.record) for one in there]
        hot = [place for place, one in enumerate(found) if one.tier is Tier.HOT]
        warm = [place for place, one in enumerate(found) if one.tier is Tier.WARM]
        leaving = self._leaving_hot(found, hot, now)
        cold = set(self._leaving_warm(found, [*warm, *leaving], now))
        to_warm = [(there[place], Tier.WARM) for place in leaving if place not in cold]
        return to_warm + [(there[place], Tier.COLD) for place in sorted(cold)]

    def _leaving_hot(
        self, found: Sequence[TierEntry], hot: Sequence[int], now: datetime
    ) -> list[int]:
        config = self.config
        among = [found[place] for place in hot]
        recent = {hot[i] for i in _recent(among, config.keep_recent)}
        order = self._order(found, [place for place in hot if place not in recent], now)
        aged = _aged(found, order, now - config.hot_retention, config.hot_importance)
        n_left = len(hot)
        n_tokens = sum(_tokens(one) for one in among)
        leaving = []
        # Moves by age come first, and may make the others unnecessary.
        for place in sorted(order, key=lambda place: place not in aged):
            is_over = _is_above(n_left, config.max_hot) or _is_above(
                n_tokens, config.max_hot_tokens
            )
            if place in aged or is_over:
                leaving.append(place)
                n_left -= 1
                n_tokens -= _tokens(found[place])
        return leaving

    def _leaving_warm(
        self, found: Sequence[TierEntry], warm: Sequence[int], now: datetime
    ) -> list[int]:
        config = self.config
        order = self._order(found, warm, now)
        aged = _aged(found, order, now - config.warm_retention, config.warm_importance)
        n_left = len(warm)
        leaving = []
        for place in sorted(order, key=lambda place: place not in aged):
            if place in aged or _is_above(n_left, config.max_warm):
                leaving.append(place)
                n_left -= 1
        return leaving

    def _order(self, found: Sequence[TierEntry], places: Sequence[int], now: datetime) -> list[int]:
        """Returns those that may move, the lowest score first."""
        may = [place for place in places if found[place].authority is not Authority.CANONICAL]
        return sorted(may, key=lambda place: retention(found[place], now, self.config.half_life))

    async def _move(self, going: Sequence[tuple[Held, Tier]]) -> None:
        for start in range(0, len(going), AT_ONCE):
            batch = going[start : start + AT_ONCE]
            texts = [await self.wording.of(one.record.text or "", to) for one, to in batch]
            moves = [Move(one, to, text) for (one, to), text in zip(batch, texts, strict=True)]
            attempts = Attempts("the entries kept being changed by others")
            while moves:
                attempts.begin()
                if await move_records(self.records, moves):
                    break
                # Entries changed meanwhile are checked again in the next round.
                there = await self.records.written(
                    {key: one.before.row for key, one in zip(_keys(moves), moves, strict=True)}
                )
                kept = set(there)
                moves = [one for key, one in zip(_keys(moves), moves, strict=True) if key in kept]


def _keys(moves: Sequence[Move]) -> list[str]:
    return keys_of([one.before for one in moves])


def _recent(found: Sequence[TierEntry], n: int) -> set[int]:
    """Returns the positions of the last `n` of each session; entries without one do not count."""
    by_session: dict[tuple[str | None, ...], list[int]] = defaultdict(list)
    for place, one in enumerate(found):
        if one.session_id is not None:
            by_session[one.tenant, one.user_id, one.agent_id, one.session_id].append(place)
    return {place for places in by_session.values() for place in places[max(0, len(places) - n) :]}


def _aged(
    found: Sequence[TierEntry], places: Sequence[int], since: datetime, importance: float
) -> set[int]:
    """Returns those of the positions whose entries are older than that and less important."""
    return {
        place
        for place in places
        if found[place].created_at < since and _is_slight(found[place], importance)
    }


def _is_slight(one: TierEntry, threshold: float) -> bool:
    return one.authority is Authority.EPHEMERAL or one.importance < threshold


def _is_above(n: int, most: int | None) -> bool:
    return most is not None and n > most


def _tokens(one: TierEntry) -> int:
    return -(-len(one.text) // _CHARACTERS_PER_TOKEN)

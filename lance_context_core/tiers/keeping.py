"""The round of maintenance: what has ended goes, and what the policy says goes colder."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import Records
from lance_context_core.tiers import entries, moving
from lance_context_core.tiers.moving import IS_ENTRY, Move, Wording
from lance_context_core.tiers.scoring import retention
from lance_context_core.tiers.values import Authority, Tier, TierConfig, TierEntry, TierReport

AT_ONCE = 500
"""So many entries are moved or removed in one commit."""

_CHARACTERS_PER_TOKEN = 4


@frozen
class Keeping:
    """Applies the policy to the entries of one scope."""

    records: Records
    config: TierConfig
    wording: Wording

    async def round(self, now: datetime, *, dry_run: bool) -> TierReport:
        """One round, which does nothing more when it is repeated at the same moment."""
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
        """What of a tier may go colder, whether the policy says so yet or not; the first to go first."""
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
        """What has ended: what stands in for a thing ends with it."""
        return await commits.held(self.records, sql.at_or_before("expires_at", now))

    async def _remove(self, expired: Sequence[Held]) -> None:
        for start in range(0, len(expired), AT_ONCE):
            # What somebody has changed meanwhile is left to the next round.
            await commits.write(self.records, [], [], removed=expired[start : start + AT_ONCE])

    async def _going(self, now: datetime) -> list[tuple[Held, Tier]]:
        """What goes colder, and where to; what is due for both tiers goes to the colder at once."""
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
        # Those whose time has come make room before any other has to.
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
        """Those that may go, the least worth keeping first."""
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
                if await moving.move(self.records, moves):
                    break
                # Who was changed meanwhile is looked at anew in the next round.
                there = await self.records.written(
                    {key: one.before.row for key, one in zip(_keys(moves), moves, strict=True)}
                )
                kept = set(there)
                moves = [one for key, one in zip(_keys(moves), moves, strict=True) if key in kept]


def _keys(moves: Sequence[Move]) -> list[str]:
    return moving.keys([one.before for one in moves])


def _recent(found: Sequence[TierEntry], n: int) -> set[int]:
    """The places of the last `n` of each session; what is in none is in no one's way."""
    by_session: dict[tuple[str | None, ...], list[int]] = defaultdict(list)
    for place, one in enumerate(found):
        if one.session_id is not None:
            by_session[one.tenant, one.user_id, one.agent_id, one.session_id].append(place)
    return {place for places in by_session.values() for place in places[max(0, len(places) - n) :]}


def _aged(
    found: Sequence[TierEntry], places: Sequence[int], since: datetime, importance: float
) -> set[int]:
    """Of the places, those of what is older than that and less important."""
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

"""The memory in tiers: used entries stay verbatim, unused ones are condensed."""

import builtins
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Self, get_args

from lance_context_core._handle import handle
from lance_context_core._util.checks import (
    check_json_object,
    check_name,
    check_span,
    check_text,
    check_time,
    shown,
)
from lance_context_core._util.frozen import frozen, frozen_by_name
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import new_id
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held
from lance_context_core.messages import Message
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.search.options import ALONE
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.tiers import entries, moving
from lance_context_core.tiers.entries import can_count
from lance_context_core.tiers.moving import IS_ENTRY, Keeping, Move, Summarise, Wording
from lance_context_core.tiers.types import (
    Authority,
    Ranking,
    Tier,
    TierConfig,
    TierEntry,
    TierHit,
    TierReport,
    TierStats,
    WriteGrant,
    check_share,
)
from lance_context_core.types import ContextRecord, SearchHit

# Arguments: a tier by its name, an entry to store, and the grant for canonical ones.


def tier_of(value: Tier | str) -> Tier:
    """Returns the tier of that name. Raises InvalidRequestError for an unknown one."""
    if value not in set(Tier):
        raise InvalidRequestError(f"tier={shown(value)}: use one of {', '.join(Tier)}")
    return Tier(value)


def authority_of(record: ContextRecord) -> Authority:
    """Returns the authority of a record's entry."""
    return entries.authority_of(record.metadata.get("authority"))


def check_grant(record: ContextRecord, grant: WriteGrant | None) -> None:
    """Raises for a write or move of a canonical entry without a valid grant."""
    if authority_of(record) is not Authority.CANONICAL:
        return
    if not isinstance(grant, WriteGrant):
        raise InvalidRequestError(
            f"entry {record.id!r} is canonical: pass grant=tiers.grant() if you mean to"
        )
    for part in SCOPE_PARTS:
        wanted = getattr(grant.scope, part)
        if wanted is not None and wanted != getattr(record, part):
            raise InvalidRequestError(
                f"the grant is for {part}={wanted!r}, and entry {record.id!r} is of "
                f"{getattr(record, part)!r}: pass a grant of its scope"
            )


def check_policy(config: object, **wording: object) -> None:
    """Raises for an invalid policy, and for functions that cannot be called."""
    if config is not None and not isinstance(config, TierConfig):
        raise InvalidRequestError(f"config is {shown(config)}: pass a TierConfig")
    for name, function in wording.items():
        if function is not None and not callable(function):
            raise InvalidRequestError(f"{name} is {shown(function)}: pass what can be called")


def check_ranking(ranking: object, top_k: object) -> None:
    """Raises for an unknown ranking, and an invalid number of hits."""
    if ranking not in get_args(Ranking):
        raise InvalidRequestError(
            f"ranking={shown(ranking)}: use one of {', '.join(get_args(Ranking))}"
        )
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 0:
        raise InvalidRequestError(f"top_k={shown(top_k)}: give a number of hits, 0 or more")


def entry_record(
    records: Records,
    config: TierConfig,
    content: str | Message,
    *,
    id: str | None,
    session_id: str | None,
    importance: float,
    authority: Authority | str,
    expires_at: datetime | None,
    source_ids: Sequence[str],
    metadata: Mapping[str, Any] | None,
) -> ContextRecord:
    """Converts the arguments of `add` to a record, stamped with its scope; raises as `add` does."""
    message = content if isinstance(content, Message) else None
    text = message.text if message else check_text(content, "content")
    if not text.strip():
        raise InvalidRequestError("content is empty: give a text")
    if authority not in set(Authority):
        raise InvalidRequestError(
            f"authority={shown(authority)}: use one of {', '.join(Authority)}"
        )
    standing = Authority(authority)
    now = records.now()
    end = None if expires_at is None else check_time(expires_at, "expires_at")
    if end is None and config.session_ttl and standing is not Authority.CANONICAL:
        end = now + config.session_ttl
    known = id if id is not None else message.id if message else None
    said = check_json_object(metadata or {}, "metadata")
    given = {**message.metadata, **said} if message else said
    share = check_share(importance, "importance")
    record = ContextRecord(
        id=new_id() if known is None else check_name(known, "id"),
        kind=entries.ENTRY,
        layer=str(Tier.HOT),
        context=entries.CONTEXT,
        content_type="text/plain",
        created_at=(message.created_at if message else None) or now,
        updated_at=now,
        session_id=None if session_id is None else check_name(session_id, "session_id"),
        source_ids=tuple(check_name(one, "source_ids") for one in source_ids),
        role=message.role if message else None,
        name=message.name if message else None,
        text=text,
        metadata=entries.own_metadata(given, importance=share, authority=standing, at=now),
        expires_at=end,
    )
    return records.stamped(record)


# A search of the tiers: candidates of each, one hit an entry, ranked before the access is counted.

_AS_MANY = 3
"""How many candidates are ranked for each hit."""

_ADAPTIVE = {Tier.HOT: 5, Tier.WARM: 3, Tier.COLD: 3}
"""The most hits of a tier in an adaptive search."""


@frozen_by_name
class Question:
    """A query, and the selection of entries."""

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
    """Returns the best hits, best first; counts their accesses after the ranking."""
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
    weights = moving.weights_for(question.query, config)
    ranked = []
    for one in {one.key: one for one in reversed(candidates)}.values():
        recency = moving.recency(one.entry.last_accessed_at, now, config.half_life)
        score = one.similarity
        if question.ranking == "multi_factor":
            score = moving.combined(weights, one.similarity, recency, one.entry.importance)
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
    """Searches colder tiers only if the hotter ones have nothing similar enough."""
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
    """Returns a tier's similar hits, with their entries as before this search."""
    here: list[sql.Clause] = [sql.equals("layer", str(tier))]
    here.append(sql.equals("kind", entries.STAND_INS.get(tier, entries.ENTRY)))
    if question.session_id is not None:
        here.append(sql.equals("session_id", question.session_id))
    hits = await records.search(question.query, *here, room=ALONE, filter=question.filter, limit=n)
    similarity = moving.Similarity(question.query)
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
    """Returns the entries of hits or stand-ins, by owner and id; in one query."""
    ids = sorted({_place(hit.record, tier)[-1] for hit in hits})
    if not ids:
        return {}
    known = {}
    for one in await commits.held(records, IS_ENTRY, sql.in_list("id", ids)):
        record = one.record
        if record.layer != tier:
            continue  # Another writer has moved it meanwhile.
        key = one.row[KEY]
        entry = with_pending(records, key, record)
        known[_place(record, Tier.HOT)] = (key, entry)
    return known


def with_pending(records: Records, key: str, record: ContextRecord) -> TierEntry:
    """Returns the entry, with the accesses that are not written yet."""
    pending = records.resources.accesses.of(key)
    if pending is not None:
        record = entries.accessed(record, pending.times, pending.last)
    return entries.from_record(replace(record, embedding=None))


def _place(record: ContextRecord, tier: Tier) -> tuple[str | None, str | None, str | None, str]:
    id = record.id if tier is Tier.HOT else record.source_ids[0]
    return (record.tenant, record.user_id, record.agent_id, id)


@handle
class AsyncTieredMemory:
    """Entries that are hot, warm or cold, in the one table of records.

    A search finds a hot entry by its own words, and a warm or cold one by a summary or a fact that
    stands in for it, until it is promoted; the original is stored unchanged. It sees the data of
    the handle's scope. Nothing moves automatically: `maintain` applies the policy.
    """

    _records: Records
    _config: TierConfig = field(default_factory=TierConfig)
    _wording: Wording = field(default_factory=Wording)

    def using(
        self,
        *,
        config: TierConfig | None = None,
        summarise: Summarise | None = None,
        state: Summarise | None = None,
    ) -> Self:
        """Returns the same tiers with another policy, and with a model's summaries.

        - `summarise`: makes the stand-in of a warm entry from its text; by default
          its beginning, up to 75 words.
        - `state`: makes the stand-in fact of a cold entry from the summary; by default
          the summary.

        Either may be asynchronous. Searches do not call them.
        """
        check_policy(config, summarise=summarise, state=state)
        wording = self._wording
        made = copy(self)
        object.__setattr__(made, "_config", config or self._config)
        object.__setattr__(
            made, "_wording", Wording(summarise or wording.summarise, state or wording.state)
        )
        return made

    @property
    def config(self) -> TierConfig:
        """The policy."""
        return self._config

    def grant(self) -> WriteGrant:
        """The grant that `add`, `demote` and `delete` require for a canonical entry."""
        return WriteGrant(scope=self._records.scope)

    # Writing

    async def add(
        self,
        content: str | Message,
        *,
        id: str | None = None,
        session_id: str | None = None,
        importance: float = 0.5,
        authority: Authority | str = Authority.SESSION,
        grant: WriteGrant | None = None,
        expires_at: datetime | None = None,
        source_ids: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> TierEntry:
        """Adds an entry, hot; returns it.

        - `id`: its id; by default that of a message. The same entry again under the same
          id changes nothing; a different one replaces it, and is hot.
        - `importance`: in [0, 1].
        - `authority`: an `Authority`. A canonical entry needs a `grant`.
        - `expires_at`: its expiry, an aware time; by default the policy's `session_ttl` from now,
          except for canonical entries.
        - `source_ids`: the records that it was made from, such as a turn: `erase` of these erases
          it too.

        Raises AlreadyExistsError if the existing entry of that id has more authority, and
        InvalidRequestError for an invalid entry.
        """
        new = entry_record(
            self._records,
            self._config,
            content,
            id=id,
            session_id=session_id,
            importance=importance,
            authority=authority,
            expires_at=expires_at,
            source_ids=source_ids,
            metadata=metadata,
        )
        check_grant(new, grant)
        attempts = Attempts(f"the entry {new.id!r} kept being changed by others")
        while True:
            attempts.begin()
            named = sql.equals(KEY, commits.key(new))
            there = await commits.held(self._records, IS_ENTRY, named)
            if not there:
                if await commits.write(self._records, [new], []):
                    return entries.from_record(new)
                continue
            (before,) = there
            if entries.has_ended(before.record, self._records.now()):
                await moving.remove(self._records, there)
                continue
            if entries.is_same(before.record, new):
                return self._entry(before)
            mine, theirs = authority_of(new), authority_of(before.record)
            if mine.rank < theirs.rank:
                raise AlreadyExistsError(
                    f"entry {new.id!r} is {theirs}, and this is {mine}: an entry with less authority "
                    "cannot replace it. Choose another id"
                )
            placed = replace(before, record=entries.succeeding(before.record, new))
            if await moving.move_records(self._records, [Move(placed, Tier.HOT)]):
                return entries.from_record(placed.record)

    async def get(self, id: str) -> TierEntry:
        """Returns the entry with that id, verbatim. Raises NotFoundError if it does not exist."""
        return self._entry(await self._held(id))

    async def list(
        self,
        *,
        tier: Tier | str | None = None,
        session_id: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[TierEntry]:
        """Returns entries in the order of adding: all, or a tier's or session's."""
        check_span(offset=0, limit=limit, last=None)
        which = [] if tier is None else [sql.equals("layer", str(tier_of(tier)))]
        if session_id is not None:
            which.append(sql.equals("session_id", check_name(session_id, "session_id")))
        alive = sql.absent_or_after("expires_at", self._records.now())
        found = await commits.held(self._records, IS_ENTRY, alive, *which)
        return [self._entry(one) for one in found[:limit]]

    async def delete(self, *ids: str, grant: WriteGrant | None = None) -> int:
        """Deletes entries with their stand-ins, in one commit; returns how many existed.

        Older versions still contain them: `store.erase` removes them from all. Raises
        InvalidRequestError for a canonical entry without a `grant`.
        """
        attempts = Attempts("the entries kept being changed by others")
        named = sql.in_list("id", [check_name(id, "id") for id in ids])
        while True:
            attempts.begin()
            there = await commits.held(self._records, IS_ENTRY, named)
            for one in there:
                check_grant(one.record, grant)
            if not there or await moving.remove(self._records, there):
                return len(there)

    # Searching

    async def search(
        self,
        query: str,
        *,
        top_k: int = 8,
        session_id: str | None = None,
        tiers: Iterable[Tier | str] = tuple(Tier),
        filter: FilterLike | None = None,
        ranking: Ranking = "multi_factor",
    ) -> builtins.list[TierHit]:
        """Searches the entries for `query`; returns hits best first, each entry once.

        - `tiers`: the tiers to search.
        - `ranking`: see `Ranking`.

        Returned entries count as accessed, after the ranking, in one commit for all accesses within
        the policy's `access_interval`. Excludes hits less similar than the policy's bound for the
        tier, and ranks records without recent access lower. No model is called.
        """
        check_ranking(ranking, top_k)
        meant = {tier_of(one) for one in tiers}
        question = Question(
            query=check_text(query, "query"),
            top_k=top_k,
            session_id=None if session_id is None else check_name(session_id, "session_id"),
            tiers=[tier for tier in Tier if tier in meant],
            filter=filter,
            ranking=ranking,
        )
        hits = await search(self._records, self._config, question)
        await entries.flush_if_due(self._records, self._config.access_interval)
        return hits

    async def record_access(self, *ids: str) -> None:
        """Counts an access of each of these entries, as a search that returns them does.

        Raises NotFoundError unless each exists.
        """
        self._records.resources.writable()
        there = await moving.found(self._records, [check_name(id, "id") for id in ids])
        pending = self._records.resources.accesses
        pending.note(moving.keys_of([*there.values()]), self._records.now())
        await entries.flush_if_due(self._records, self._config.access_interval)

    async def flush(self) -> int:
        """Writes the counted accesses; returns of how many entries.

        Accesses not written when a process ends are lost; `maintain` writes them too.
        """
        self._records.resources.writable()
        return await entries.flush(self._records)

    # Moving

    async def candidates(
        self, tier: Tier | str = Tier.HOT, *, limit: int | None = None
    ) -> builtins.list[TierEntry]:
        """Returns a tier's entries that may move colder, lowest score first; no canonical ones."""
        check_span(offset=0, limit=limit, last=None)
        found = await self._keeping().candidates(tier_of(tier), self._records.now())
        return found[:limit]

    async def demote(
        self,
        id: str,
        text: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        grant: WriteGrant | None = None,
    ) -> TierEntry:
        """Moves an entry one tier colder, in one commit with its stand-in; returns it.

        - `text`: the stand-in; by default made from the entry's text.
        - `metadata`: metadata of that text, such as its entities, besides the entry's own.

        Raises InvalidRequestError for a cold entry, and for a canonical one without a `grant`.
        """
        said = None if text is None else check_text(text, "text")
        more = check_json_object(metadata or {}, "metadata")
        attempts = Attempts(f"the entry {id!r} kept being changed by others")
        while True:
            attempts.begin()
            before = await self._held(id)
            check_grant(before.record, grant)
            to = Tier(before.record.layer or Tier.HOT).demote()
            if to is None:
                raise InvalidRequestError(
                    f"entry {id!r} is already cold, the last tier: promote or delete it"
                )
            stands_in = said or await self._wording.of(before.record.text or "", to)
            if await moving.move_records(self._records, [Move(before, to, stands_in, more)]):
                return await self.get(id)

    async def promote(self, id: str, *, to: Tier | str = Tier.HOT) -> TierEntry:
        """Moves an entry to a hotter tier; returns it, verbatim. It counts as accessed.

        Hides its stand-in in the same commit. Raises InvalidRequestError if `to` is
        colder than its tier.
        """
        goal = tier_of(to)
        attempts = Attempts(f"the entry {id!r} kept being changed by others")
        while True:
            attempts.begin()
            before = await self._held(id)
            order = builtins.list(Tier)
            now_in = Tier(before.record.layer or Tier.HOT)
            if order.index(goal) > order.index(now_in):
                raise InvalidRequestError(f"entry {id!r} is {now_in}: demote it to be {goal}")
            found = entries.accessed(before.record, 1, self._records.now())
            text = None
            if goal is not Tier.HOT:
                text = await self._wording.of(before.record.text or "", goal)
            if await moving.move_records(
                self._records, [Move(replace(before, record=found), goal, text)]
            ):
                return await self.get(id)

    async def maintain(self, now: datetime | None = None, *, dry_run: bool = False) -> TierReport:
        """Applies the policy as of `now`: deletes expired entries, and moves due ones colder.

        Expired entries go with their stand-ins. Repeated at the same moment it does nothing; a
        killed run has moved and deleted whole entries, and the next one continues. With `dry_run`
        nothing is written. Raises the errors of `summarise` and `state`: their entries stay in
        their tiers.
        """
        moment = self._records.now() if now is None else check_time(now, "now")
        if not dry_run:
            await self.flush()
        return await self._keeping().round(moment, dry_run=dry_run)

    async def stats(self) -> TierStats:
        """Returns the number of entries of each tier, without expired ones."""
        alive = sql.absent_or_after("expires_at", self._records.now())
        where = self._records.own(IS_ENTRY, alive)
        found = (await self._records.table.select(where, columns=["layer"])).column("layer")
        tiers = found.to_pylist()
        return TierStats(**{str(tier): tiers.count(str(tier)) for tier in Tier})

    # Helpers

    def _keeping(self) -> Keeping:
        return Keeping(self._records, self._config, self._wording)

    def _entry(self, held: Held) -> TierEntry:
        return with_pending(self._records, held.row[KEY], held.record)

    async def _held(self, id: str) -> Held:
        return (await moving.found(self._records, [check_name(id, "id")]))[id]

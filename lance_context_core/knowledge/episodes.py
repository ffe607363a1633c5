"""Episodes: sessions of one owner that are close in time, in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lance_context_core._util.checks import check_time, shown
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.codecs.records import COLUMNS
from lance_context_core.errors import InvalidRequestError
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.evidence_text import quotes, said
from lance_context_core.knowledge.turns import Conversation
from lance_context_core.knowledge.types import Quote
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import sql
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord

GAP = timedelta(hours=6)
"""Minimum time between two episodes."""


@frozen_by_name
class Episode:
    """A stretch of time with its sessions, their summaries and facts."""

    title: str
    """Its most important fact; without one, the beginning of its summary."""
    text: str
    """The summaries of its sessions, in order."""
    start: datetime
    """The time of its first turn."""
    end: datetime
    """The time of its last turn."""
    session_ids: tuple[str, ...]
    """In the order of their first turns."""
    speakers: tuple[str, ...]
    """Names or roles of the speakers, in the order of their first turns."""
    n_turns: int
    facts: tuple[ContextRecord, ...]
    """Its current facts, the most important first."""
    evidence: tuple[Quote, ...] = ()
    """The places of the summaries in the turns."""


@dataclass(slots=True)
class _Stretch:
    start: datetime
    end: datetime
    conversations: list[Conversation]
    speakers: dict[str, None]
    n_turns: int


async def episodes(
    spoken: Records,
    made: Records,
    *,
    gap: timedelta,
    since: datetime | None,
    until: datetime | None,
    limit: int | None,
) -> list[Episode]:
    """Return the episodes of the view, oldest first; `limit` selects the last ones."""
    if not isinstance(gap, timedelta) or gap <= timedelta(0):
        raise InvalidRequestError(f"gap={shown(gap)}: give a positive timedelta")
    stretches = _joined(await _sessions(spoken, since, until), gap)
    stretches = stretches if limit is None else stretches[max(len(stretches) - limit, 0) :]
    ids = sorted({one.session_id for each in stretches for one in each.conversations})
    if not ids:
        return []
    here = sql.all_of(
        [sql.in_list("kind", [params.FACT, params.SUMMARY]), sql.in_list("session_id", ids)]
    )
    by_session: dict[Conversation, list[ContextRecord]] = {}
    for record in await made.read(made.where(here), columns=COLUMNS):
        of = Conversation(turns.owner_of(record), record.session_id or "")
        by_session.setdefault(of, []).append(record)
    summaries = [one for some in by_session.values() for one in some if one.kind == params.SUMMARY]
    there = await said(spoken, summaries)
    return [_told(one, by_session, there) for one in stretches]


async def _sessions(
    spoken: Records, since: datetime | None, until: datetime | None
) -> list[_Stretch]:
    """Each session separately, in the order of their first turns."""
    between = {
        word: check_time(moment, name).isoformat()
        for name, word, moment in (("since", "$gte", since), ("until", "$lt", until))
        if moment is not None
    }
    where = spoken.where(
        turns.MESSAGES,
        sql.is_present("session_id"),
        filter={"created_at": between} if between else None,
    )
    columns = ["session_id", "created_at", "role", "name", *SCOPE_PARTS]
    rows = (await spoken.table.select(where, columns=columns)).to_pylist()
    found: dict[Conversation, _Stretch] = {}
    for row in sorted(rows, key=lambda one: one["created_at"]):
        of, moment = turns.conversation_of(row), row["created_at"].replace(tzinfo=UTC)
        one = found.setdefault(of, _Stretch(moment, moment, [of], {}, 0))
        one.end = moment
        one.n_turns += 1
        if row["role"] != "system":
            one.speakers[row["name"] or row["role"]] = None
    return [*found.values()]


def _joined(sessions: Sequence[_Stretch], gap: timedelta) -> list[_Stretch]:
    """Join sessions of one owner that follow each other within the gap."""
    stretches: list[_Stretch] = []
    last: dict[object, _Stretch] = {}
    for one in sessions:
        owner = one.conversations[0].owner
        before = last.get(owner)
        if before is None or one.start - before.end >= gap:
            last[owner] = one
            stretches.append(one)
            continue
        before.end = max(before.end, one.end)
        before.conversations += one.conversations
        before.speakers |= one.speakers
        before.n_turns += one.n_turns
    return stretches


def _told(
    stretch: _Stretch,
    by_session: dict[Conversation, list[ContextRecord]],
    there: dict[tuple[str | None, ...], ContextRecord],
) -> Episode:
    records = [one for of in stretch.conversations for one in by_session.get(of, ())]
    facts = [one for one in records if one.kind == params.FACT]
    facts.sort(key=lambda one: -one.metadata["importance"])
    summaries = [one for one in records if one.kind == params.SUMMARY]
    text = "\n".join(one.text or "" for one in summaries)
    return Episode(
        title=(facts[0].text or "") if facts else text.partition("\n")[0][:100],
        text=text,
        start=stretch.start,
        end=stretch.end,
        session_ids=tuple(one.session_id for one in stretch.conversations),
        speakers=tuple(stretch.speakers),
        n_turns=stretch.n_turns,
        facts=tuple(facts),
        evidence=tuple(quote for one in summaries for quote in quotes(one, there)),
    )

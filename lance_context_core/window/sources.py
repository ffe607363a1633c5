"""What sections are made from: the stores, as one call of `assemble` sees them. Nothing is written here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lance_context_core.codecs.records import from_row
from lance_context_core.errors import NotFoundError
from lance_context_core.knowledge.knowledge import AsyncKnowledge
from lance_context_core.knowledge.values import KnowledgeHit
from lance_context_core.messages import Message
from lance_context_core.search.options import SearchOptions
from lance_context_core.search.previous_turns import order
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.memory import AsyncMemory
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.types import ContextRecord, Document, SearchHit
from lance_context_core.window.endings import Ending, ending

Place = tuple[str | None, str]
"""The session and the id of a record: an id is a session's own."""


@dataclass(slots=True, kw_only=True)
class Sources:
    """What a section may read, and what the window is about."""

    _records: Records
    query: str | None
    """What is asked; None if nothing is."""
    agent_id: str
    session_id: str
    user_id: str
    shown: frozenset[Place] = field(default_factory=frozenset)
    """The messages that the history shows, once it was chosen."""
    cut: int = 0
    """How many messages of the session came before what the history shows, once it was chosen."""
    covered: int = 0
    """How many of these a summary in the window is of."""
    _ending: Ending | None = None
    """What was read of the end of the session."""

    @property
    def now(self) -> datetime:
        """The current moment."""
        return self._records.now()

    @property
    def history(self) -> AsyncHistory:
        """The conversations."""
        return AsyncHistory(self._records)

    # The conversation

    async def messages(self, start: int, stop: int) -> list[Message]:
        """The messages of the session from one on, up to another."""
        known = self._ending
        if known is not None and known.first <= start and stop <= known.n:
            return known.messages(start, stop)
        return await self.history.get_messages(
            self.agent_id, session_id=self.session_id, offset=start, limit=stop - start
        )

    async def ids(self, start: int, stop: int) -> list[str]:
        """The ids of these messages, without the messages."""
        rows = await self._records.table.slice(
            self._session(), columns=["id"], offset=start, limit=stop - start
        )
        ids: list[str] = rows["id"].to_pylist()
        return ids

    # What else is known

    async def by_ids(self, ids: Sequence[str]) -> list[ContextRecord]:
        """The visible records of these ids, in their order. Raises NotFoundError if one is missing."""
        if not ids:
            return []
        found = {
            one.id: one
            for one in await self._records.read(
                self._records.where(sql.in_list("id", ids)), columns=WITHOUT_BLOB
            )
        }
        if missing := [id for id in ids if id not in found]:
            raise NotFoundError(f"there are no records {missing}: pin what is there")
        return [found[id] for id in ids]

    async def memories(self, limit: int) -> list[ContextRecord]:
        """The user's memories, the newest first."""
        return await AsyncMemory(self._records).latest(user_id=self.user_id, limit=limit)

    async def recall(
        self, limit: int, *, options: SearchOptions | None = None
    ) -> list[SearchHit[ContextRecord]]:
        """Turns and memories that answer the query, best first; of the user, and of nobody's."""
        if not self._asks(limit):
            return []
        return await self._records.search(
            self.query, self._recalled(), limit=limit, options=options
        )

    async def recall_around(
        self, limit: int, *, neighbours: int, options: SearchOptions | None = None
    ) -> list[tuple[SearchHit[ContextRecord], Sequence[ContextRecord]]]:
        """As `recall`, each hit with so many turns on either side, as `neighbours` has them."""
        if neighbours == 1 and self.query is not None and self._asks(limit):
            found = await self._records.search_around(
                self.query, self._recalled(), limit=limit, options=options
            )
            return [(one.hit, _of_session(one.hit.record, one.turns)) for one in found]
        hits = await self.recall(limit, options=options)
        around = await self.neighbours([hit.record for hit in hits], steps=neighbours)
        return [(one, around.get((one.record.session_id, one.record.id), ())) for one in hits]

    async def facts(self, limit: int, *, valid_at: datetime | None = None) -> list[KnowledgeHit]:
        """Facts about the user that answer the query, best first; without a user, nobody's.

        They are those that are true now, or those that were at `valid_at`.
        """
        if not self._asks(limit):
            return []
        user = self._records.whose("user_id", self.user_id)
        found = await AsyncKnowledge(self._records).search(
            str(self.query),
            top_k=limit,
            search_type="facts",
            filter={"$and": [{"kind": "fact"}, {"user_id": user}]},
            valid_at=valid_at,
        )
        return list(found)

    def shows(self, session_id: str | None, ids: Sequence[str]) -> bool:
        """Whether the history shows all of these turns."""
        return bool(ids) and all((session_id, id) in self.shown for id in ids)

    async def neighbours(
        self, found: Sequence[ContextRecord], *, steps: int
    ) -> Mapping[Place, list[ContextRecord]]:
        """The turns around those found, by the places of these: the nearest first, earlier ones before later."""
        around: dict[Place, list[ContextRecord]] = {}
        turns = [one for one in found if one.kind == "message"]
        if not turns or steps <= 0:
            return around
        wanted = sql.all_of(
            [sql.in_list("id", [one.id for one in turns]), sql.equals("kind", "message")]
        )
        reach = await self._rows(wanted)
        records, mine = self._records, _by_key(reach)
        sessions = {row["session_id"] for row in reach if row["session_id"] is not None}
        linked = await order(records.table, records.own(), mine.keys(), sessions, steps=steps)
        beside = {*linked.before, *linked.before.values()} - mine.keys()
        if beside:
            mine |= _by_key(await self._rows(sql.in_list(KEY, sorted(beside))))
        for row in reach:
            near: list[ContextRecord] = []
            back: str | None = row[KEY]
            forth: str | None = row[KEY]
            for _ in range(steps):
                # Behind one that is hidden nothing is shown.
                back, forth = linked.before.get(back or ""), linked.after.get(forth or "")
                back, forth = (one if one in mine else None for one in (back, forth))
                near += [mine[one] for one in (back, forth) if one is not None]
            around[row["session_id"], row["id"]] = near
        return around

    async def documents(self, collection: str, limit: int) -> list[SearchHit[Document]]:
        """The documents of a collection that answer the query, best first."""
        if not self._asks(limit):
            return []
        vectors = AsyncVectors(collection, self._records.resources, self._records.scope)
        return await vectors.search(self.query, limit=limit)

    def _asks(self, limit: int) -> bool:
        return self.query is not None and bool(self.query.strip()) and limit > 0

    def _session(self) -> sql.Clause:
        return self.history._where(self.agent_id, self.session_id)  # noqa: SLF001 - a room of ours

    def _recalled(self) -> sql.Clause:
        """What is a turn of nobody else's, or a memory of the user's."""
        user = self._records.whose("user_id", self.user_id)
        memory = sql.all_of([sql.equals("kind", "memory"), sql.equals("user_id", user)])
        owners = [sql.is_absent("user_id"), *([sql.equals("user_id", user)] if user else [])]
        agent = self._records.whose("agent_id", self.agent_id)
        turn = sql.all_of(
            [sql.equals("kind", "message"), sql.equals("agent_id", agent), sql.any_of(owners)]
        )
        return sql.any_of([memory, turn])

    async def _rows(self, condition: sql.Clause) -> list[dict[str, Any]]:
        """The visible rows that may be recalled and meet a condition."""
        where = self._records.where(self._recalled(), condition)
        columns = [*WITHOUT_BLOB, "id", "session_id", KEY]
        rows: pa.Table = await self._records.table.select(where, columns=columns)
        found: list[dict[str, Any]] = rows.to_pylist()
        return found


def _by_key(rows: Sequence[Mapping[str, Any]]) -> dict[str, ContextRecord]:
    return {row[KEY]: from_row(row) for row in rows}


def _of_session(record: ContextRecord, turns: Sequence[ContextRecord]) -> list[ContextRecord]:
    """Of the turns beside a record those of its session; none where it is no turn."""
    is_turn = record.kind == "message"
    return [one for one in turns if is_turn and one.session_id == record.session_id]


def records_of(sources: Sources, context: str) -> Records:
    """The records of another context, in the scope of the window."""
    return replace(sources._records, context=context)  # noqa: SLF001 - for the sections of this room


async def ending_of(sources: Sources, *, room: int, block: int) -> Ending:
    """The end of the session, as far back as a room of tokens might reach; kept for other sections."""
    where = sources._session()  # noqa: SLF001 - for the sections of this room
    records = sources._records  # noqa: SLF001
    session = [
        sql.equals("session_id", sources.session_id),
        sql.equals("agent_id", records.whose("agent_id", sources.agent_id)),
    ]
    found = sources._ending = await ending(  # noqa: SLF001
        records.table,
        where,
        room=room,
        block=block,
        session_id=sources.session_id,
        hot=records.resources.hot,
        scope=records.own(*session),
    )
    return found

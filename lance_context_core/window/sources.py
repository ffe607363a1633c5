"""What sections are made from: the stores, as one call of `assemble` sees them. Nothing is written here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.codecs.records import from_row
from lance_context_core.errors import NotFoundError
from lance_context_core.knowledge.knowledge import AsyncKnowledge
from lance_context_core.knowledge.types import KnowledgeHit
from lance_context_core.memory_index.scopes import HotScopes
from lance_context_core.messages import Message
from lance_context_core.search.options import SearchOptions
from lance_context_core.search.previous_turns import order
from lance_context_core.storage import changes, sql
from lance_context_core.storage.changes import NEVER, Changes, Position
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.sql.predicates import UnsureError
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal.entries import Entry, How
from lance_context_core.stores.history import COLUMNS, AsyncHistory, message_of
from lance_context_core.stores.memory import AsyncMemory
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.types import ContextRecord, Document, SearchHit
from lance_context_core.window.truncation import is_enough, size_of, sizes_of

# The end of a session: read from the newest message backwards, as far as a budget might reach.
#
# What was read is kept among the hot scopes, and what is said since is laid behind it: a conversation that
# goes on is not read again for each of its windows.

_ROW_BYTES = 600
"""What a row takes in memory beside its texts, about."""
_FLEETING = ("expires_at", "retired_at")
"""A row that has one of these will be gone though nothing is written."""
_IS_FLEETING = sql.any_of([sql.is_present(name) for name in _FLEETING])

Row = Mapping[str, Any]


@frozen_by_name
class Ending:
    """The last messages of a session, from a place on that is a whole number of blocks."""

    rows: pa.Table
    """Those that were read."""
    added: tuple[Row, ...] = ()
    """Those that were said since."""
    first: int
    """How many messages of the session come before them."""
    state: Position = NEVER
    """What of the table is in it."""
    sizes: tuple[int, ...]
    """What each message is taken for, by `size_of`, in order."""
    last_user: int | None
    """Which message of the session is the last that a user says, if it is among these."""
    _plain: dict[int, Row] = field(default_factory=dict)
    """The rows as they were asked for, by their places."""

    @property
    def n(self) -> int:
        """How many messages the session has."""
        return self.first + len(self.sizes)

    @property
    def n_bytes(self) -> int:
        """What it takes in memory, about."""
        return 2 * sum(self.sizes) + int(self.rows.nbytes) + _ROW_BYTES * len(self.sizes)

    def messages(self, start: int, stop: int | None = None) -> list[Message]:
        """The messages of the session from one on, up to another; both are among these."""
        begin, end = start - self.first, (self.n if stop is None else stop) - self.first
        missing = [place for place in range(begin, end) if place not in self._plain]
        if missing:
            first, last, n_read = missing[0], missing[-1] + 1, self.rows.num_rows
            read = self.rows.slice(first, min(last, n_read) - first) if first < n_read else None
            found = [] if read is None else read.to_pylist()
            later = self.added[max(first - n_read, 0) : max(last - n_read, 0)]
            self._plain.update(zip(range(first, last), [*found, *later], strict=True))
        # Anew each time: what a message holds may be changed by whoever was given it.
        return [message_of(self._plain[place]) for place in range(begin, end)]

    def followed(
        self, since: Changes | None, where: sql.Clause, session_id: str
    ) -> "Ending | None":
        """It as the table is now; None if it has to be read again."""
        if since is None or since.entries is None or since.state.table != self.state.table:
            return None
        try:
            new = _appended(since.entries, where, session_id)
        except UnsureError:
            return None
        if new is None:
            return None
        found = replace(self, state=since.state)
        for row in new:
            place = found.n
            found = replace(
                found,
                added=(*found.added, row),
                sizes=(*found.sizes, size_of(row["text"])),
                last_user=place if _is_user(row["role"], row["parts"]) else found.last_user,
            )
        return found

    def reaches(self, room: int) -> bool:
        """Whether it is as much of the session as a room of tokens might hold."""
        return not self.first or (is_enough(self.sizes, room) and self.last_user is not None)


async def ending(
    table: Table,
    where: sql.Clause,
    *,
    room: int,
    block: int,
    session_id: str,
    hot: HotScopes | None,
    scope: sql.Clause,
) -> Ending:
    """The end of a session as far back as a room of tokens might reach, and its user's newest turn.

    `where` is the condition of what is shown of it now, `scope` that of the session. It is read page by
    page, each a few times as long as the one before.
    """
    place = ("ending", str(scope), block)
    known = None
    if hot is not None and not table.access.is_pinned:
        n_forgotten = hot.n_forgotten
        known = hot.known(table, place)
        if isinstance(known, Ending):
            now = known.followed(await changes.since(table, known.state), where, session_id)
            # Of one that has become long the beginning is of no use.
            if now is not None and now.reaches(room) and len(now.added) <= 2 * block:
                if now.added is not known.added or now.state != known.state:
                    hot.keep(table, place, now, n_forgotten=n_forgotten)
                return now
    else:
        hot = None
    found = await _read(table, where, room=room, block=block)
    if hot is not None and found.state is not NEVER and await _lasts(table, where, found):
        hot.keep(table, place, found, n_forgotten=n_forgotten)
    elif hot is not None and known is not None:
        hot.drop(table, place)
    return found


async def _read(table: Table, where: sql.Clause, *, room: int, block: int) -> Ending:
    last, columns = 2 * block, [*COLUMNS, *_FLEETING]
    while True:
        state, (rows, before) = NEVER, (None, 0)
        if (seen := await changes.tail(table, where, columns=columns, last=last)) is not None:
            state, rows, before = seen
        if rows is None:
            rows, before = await table.tail(where, columns=columns, last=last)
        skipped = -before % block if before else 0
        found = _of(rows.slice(skipped), before + skipped, state)
        if not before or found.reaches(room):
            return found
        last *= 4


def _of(rows: pa.Table, first: int, state: Position) -> Ending:
    roles = rows["role"].to_pylist()
    user = None
    for index in range(len(roles) - 1, -1, -1):
        if roles[index] == "user" and _is_user("user", rows["parts"][index].as_py()):
            user = first + index
            break
    return Ending(rows=rows, first=first, state=state, sizes=sizes_of(rows["text"]), last_user=user)


def _is_user(role: str, parts: str | None) -> bool:
    # Some frameworks have the user hand in the results of tools.
    return role == "user" and '"tool_result"' not in (parts or "")


async def _lasts(table: Table, where: sql.Clause, found: Ending) -> bool:
    """Whether all of the session stays as it is while nothing is written."""
    if any(found.rows[name].null_count < found.rows.num_rows for name in _FLEETING):
        return False
    return not found.first or not await table.count(sql.all_of([where, _IS_FLEETING]))


def _appended(entries: Sequence[Entry], where: sql.Clause, session_id: str) -> list[Row] | None:
    """What was said in the session since; None if something else became of it, as far as is known."""
    new: list[Row] = []
    for entry in entries:
        if entry.how is How.REMOVE:
            return None
        is_mine = where.holds is None or where.holds(entry.row)
        if entry.how is How.PUT:
            if is_mine or entry.row.get("session_id") == session_id:
                return None
        elif is_mine:
            if any(entry.row.get(name) is not None for name in _FLEETING):
                return None
            new.append({name: entry.row.get(name) for name in COLUMNS})
    return new


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

    async def cut_at(self) -> datetime | None:
        """When the first message was said that the history shows; None if it shows none."""
        shown = await self.messages(self.cut, self.cut + 1)
        return shown[0].created_at if shown else None

    async def memories(self, limit: int, *, before: datetime | None = None) -> list[ContextRecord]:
        """The user's memories, the newest first; those that were added `before` a moment, if given."""
        filter = None if before is None else {"created_at": {"$lt": before.isoformat()}}
        memory = AsyncMemory(self._records)
        return await memory.latest(user_id=self.user_id, limit=limit, filter=filter)

    async def recall(
        self, limit: int, *, options: SearchOptions | None = None
    ) -> list[SearchHit[ContextRecord]]:
        """Turns and memories that answer the query, best first; of the user, and those without a user."""
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
        """Facts about the user that answer the query, best first; without a user, those that have none.

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

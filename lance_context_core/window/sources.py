"""The stores as one call of `assemble` reads them for its sections; never writes."""

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

# The end of a session: read backwards from the newest message, as far as a budget may reach.
#
# The rows are cached among the hot scopes, and new messages are appended: an ongoing conversation
# is not read again for each of its windows.

_ROW_BYTES = 600
"""Approximate memory of a row without its texts."""
_FLEETING = ("expires_at", "retired_at")
"""A row with one of these will disappear without a write."""
_IS_FLEETING = sql.any_of([sql.is_present(name) for name in _FLEETING])

Row = Mapping[str, Any]


@frozen_by_name
class Ending:
    """The last messages of a session, from the start of a block."""

    rows: pa.Table
    """The rows that were read."""
    added: tuple[Row, ...] = ()
    """The rows that were added since."""
    first: int
    """Number of messages of the session before them."""
    state: Position = NEVER
    """The table's position that they include."""
    sizes: tuple[int, ...]
    """The size of each message, by `size_of`, in order."""
    last_user: int | None
    """The index in the session of the user's last message, if it is among these."""
    _plain: dict[int, Row] = field(default_factory=dict)
    """The requested rows as dicts, by place."""

    @property
    def n(self) -> int:
        """Number of messages in the session."""
        return self.first + len(self.sizes)

    @property
    def n_bytes(self) -> int:
        """Approximate memory in bytes."""
        return 2 * sum(self.sizes) + int(self.rows.nbytes) + _ROW_BYTES * len(self.sizes)

    def messages(self, start: int, stop: int | None = None) -> list[Message]:
        """Return the messages of the session from `start` to `stop`; both are among these."""
        begin, end = start - self.first, (self.n if stop is None else stop) - self.first
        missing = [place for place in range(begin, end) if place not in self._plain]
        if missing:
            first, last, n_read = missing[0], missing[-1] + 1, self.rows.num_rows
            read = self.rows.slice(first, min(last, n_read) - first) if first < n_read else None
            found = [] if read is None else read.to_pylist()
            later = self.added[max(first - n_read, 0) : max(last - n_read, 0)]
            self._plain.update(zip(range(first, last), [*found, *later], strict=True))
        # New objects each time: the caller may change their contents.
        return [message_of(self._plain[place]) for place in range(begin, end)]

    def followed(
        self, since: Changes | None, where: sql.Clause, session_id: str
    ) -> "Ending | None":
        """Return it for the current table; None if it must be read again."""
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
        """Whether it has as much of the session as `room` tokens can hold."""
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
    """Return a session's end within reach of `room` tokens, with the user's newest turn.

    `where` is the condition of its visible rows, `scope` that of the session. It is read page by
    page, each a few times as long as the one before.
    """
    place, table = ("ending", str(scope), block), await table.here()
    known = None
    if hot is not None and not table.access.is_pinned:
        n_forgotten = hot.n_forgotten
        known = hot.known(table, place)
        if isinstance(known, Ending):
            now = known.followed(await changes.since(table, known.state), where, session_id)
            # The beginning of one that has become long is useless.
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
    # Some frameworks store tool results with the role `user`.
    return role == "user" and '"tool_result"' not in (parts or "")


async def _lasts(table: Table, where: sql.Clause, found: Ending) -> bool:
    """Whether all of the session stays visible while nothing is written."""
    if any(found.rows[name].null_count < found.rows.num_rows for name in _FLEETING):
        return False
    return not found.first or not await table.count(sql.all_of([where, _IS_FLEETING]))


def _appended(entries: Sequence[Entry], where: sql.Clause, session_id: str) -> list[Row] | None:
    """Return the messages added to the session since; None for any other or unknown change."""
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
"""The session and id of a record: ids are unique only within sessions."""


@dataclass(slots=True, kw_only=True)
class Sources:
    """The records that a section may read, and the query of the window."""

    _records: Records
    query: str | None
    """The query; None if absent."""
    agent_id: str
    session_id: str
    user_id: str
    shown: frozenset[Place] = field(default_factory=frozenset)
    """The messages that the history shows, once it is chosen."""
    cut: int = 0
    """Number of messages before those that the history shows, once it is chosen."""
    covered: int = 0
    """Number of these that a summary in the window covers."""
    _ending: Ending | None = None
    """The end of the session, once it is read."""

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
        """Return the messages of the session from `start` to `stop`."""
        known = self._ending
        if known is not None and known.first <= start and stop <= known.n:
            return known.messages(start, stop)
        return await self.history.get_messages(
            self.agent_id, session_id=self.session_id, offset=start, limit=stop - start
        )

    async def ids(self, start: int, stop: int) -> list[str]:
        """Return the ids of these messages, without the messages."""
        rows = await self._records.table.slice(
            self._session(), columns=["id"], offset=start, limit=stop - start
        )
        ids: list[str] = rows["id"].to_pylist()
        return ids

    # Other records

    async def by_ids(self, ids: Sequence[str]) -> list[ContextRecord]:
        """Return visible records by id, in order. Raises NotFoundError if one is missing."""
        if not ids:
            return []
        found = {
            one.id: one
            for one in await self._records.read(
                self._records.where(sql.in_list("id", ids)), columns=WITHOUT_BLOB
            )
        }
        if missing := [id for id in ids if id not in found]:
            raise NotFoundError(f"no records {missing}: pin existing ones")
        return [found[id] for id in ids]

    async def cut_at(self) -> datetime | None:
        """The time of the first message that the history shows; None if it shows none."""
        shown = await self.messages(self.cut, self.cut + 1)
        return shown[0].created_at if shown else None

    async def memories(self, limit: int, *, before: datetime | None = None) -> list[ContextRecord]:
        """Return the user's memories, newest first; optionally those added `before` a moment."""
        filter = None if before is None else {"created_at": {"$lt": before.isoformat()}}
        memory = AsyncMemory(self._records)
        return await memory.latest(user_id=self.user_id, limit=limit, filter=filter)

    async def recall(
        self, limit: int, *, options: SearchOptions | None = None
    ) -> list[SearchHit[ContextRecord]]:
        """Return matching turns and memories, best first; of the user, and without a user."""
        if not self._asks(limit):
            return []
        return await self._records.search(
            self.query, self._recalled(), limit=limit, options=options
        )

    async def recall_around(
        self, limit: int, *, neighbours: int, options: SearchOptions | None = None
    ) -> list[tuple[SearchHit[ContextRecord], Sequence[ContextRecord]]]:
        """As `recall`, with each hit's neighbours: `neighbours` turns on either side."""
        if neighbours == 1 and self.query is not None and self._asks(limit):
            found = await self._records.search_around(
                self.query, self._recalled(), limit=limit, options=options
            )
            return [(one.hit, _of_session(one.hit.record, one.turns)) for one in found]
        hits = await self.recall(limit, options=options)
        around = await self.neighbours([hit.record for hit in hits], steps=neighbours)
        return [(one, around.get((one.record.session_id, one.record.id), ())) for one in hits]

    async def facts(self, limit: int, *, valid_at: datetime | None = None) -> list[KnowledgeHit]:
        """Return matching facts about the user, best first; without a user, facts without one.

        They are true now, or were true at `valid_at`.
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
        """Return the turns around each record by place, nearest first, earlier before later."""
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
                # The neighbours end at a hidden turn.
                back, forth = linked.before.get(back or ""), linked.after.get(forth or "")
                back, forth = (one if one in mine else None for one in (back, forth))
                near += [mine[one] for one in (back, forth) if one is not None]
            around[row["session_id"], row["id"]] = near
        return around

    async def documents(self, collection: str, limit: int) -> list[SearchHit[Document]]:
        """Return the matching documents of a collection, best first."""
        if not self._asks(limit):
            return []
        vectors = AsyncVectors(collection, self._records.resources, self._records.scope)
        return await vectors.search(self.query, limit=limit)

    def _asks(self, limit: int) -> bool:
        return self.query is not None and bool(self.query.strip()) and limit > 0

    def _session(self) -> sql.Clause:
        return self.history._where(self.agent_id, self.session_id)  # noqa: SLF001 - a room of ours

    def _recalled(self) -> sql.Clause:
        """The condition of turns without another user, and memories of the user."""
        user = self._records.whose("user_id", self.user_id)
        memory = sql.all_of([sql.equals("kind", "memory"), sql.equals("user_id", user)])
        owners = [sql.is_absent("user_id"), *([sql.equals("user_id", user)] if user else [])]
        agent = self._records.whose("agent_id", self.agent_id)
        turn = sql.all_of(
            [sql.equals("kind", "message"), sql.equals("agent_id", agent), sql.any_of(owners)]
        )
        return sql.any_of([memory, turn])

    async def _rows(self, condition: sql.Clause) -> list[dict[str, Any]]:
        """Return the visible rows to recall that meet a condition."""
        where = self._records.where(self._recalled(), condition)
        columns = [*WITHOUT_BLOB, "id", "session_id", KEY]
        rows: pa.Table = await self._records.table.select(where, columns=columns)
        found: list[dict[str, Any]] = rows.to_pylist()
        return found


def _by_key(rows: Sequence[Mapping[str, Any]]) -> dict[str, ContextRecord]:
    return {row[KEY]: from_row(row) for row in rows}


def _of_session(record: ContextRecord, turns: Sequence[ContextRecord]) -> list[ContextRecord]:
    """Select the turns of the record's session; none if it is no turn."""
    is_turn = record.kind == "message"
    return [one for one in turns if is_turn and one.session_id == record.session_id]


def records_of(sources: Sources, context: str) -> Records:
    """The records of another context, in the scope of the window."""
    return replace(sources._records, context=context)  # noqa: SLF001 - for the sections of this room


async def ending_of(sources: Sources, *, room: int, block: int) -> Ending:
    """Return the session's end within reach of `room` tokens; cached for other sections."""
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

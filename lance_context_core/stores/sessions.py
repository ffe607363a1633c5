"""Sessions: descriptions of conversations, stored apart from their messages."""

import asyncio
import builtins
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._handle import handle
from lance_context_core._util.checks import check_name, check_span, shown
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import key_of, new_id
from lance_context_core.codecs.sessions import COLUMNS, checked, from_row, to_row
from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import sql
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.names import next_revision
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.stores.records import changes as changing
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import Session

# Conversations: matches descriptions of sessions with messages.
#
# A session belongs to a tenant and a user: the same id of two users is two sessions. Its agents
# share it, except those that have described one of their own, in their own scope.

Row = Mapping[str, Any]
Place = tuple[str, str | None, str | None]
"""The id of a session, its tenant and its user."""


@dataclass(slots=True)
class Conversation:
    """A session: its description, the activity of its messages by agent, or both."""

    id: str
    tenant: str | None
    user_id: str | None
    row: Row | None = None
    activity: list[Row] = field(default_factory=list)
    own_agent: str | None = None
    """The agent whose own session it is, if it has described one."""
    other_agents: tuple[str, ...] = ()
    """The agents with sessions of their own."""

    @property
    def messages(self) -> sql.Clause:
        """Return the condition on messages of the view that belong to the session."""
        parts = {"session_id": self.id, "tenant": self.tenant, "user_id": self.user_id}
        clauses = [sql.all_equal(parts)]
        if self.own_agent is not None:
            clauses.append(sql.equals("agent_id", self.own_agent))
        elif self.other_agents:
            others = sql.not_in_list("agent_id", self.other_agents)
            clauses.append(sql.any_of([sql.is_absent("agent_id"), others]))
        return sql.all_of(clauses)

    def session(self) -> Session:
        """Return the session for callers."""
        begun = [_utc(one["created_at"]) for one in self.activity]
        active = [_utc(one["updated_at"]) for one in self.activity]
        agents = [one["agent_id"] for one in self.activity if one["agent_id"] is not None]
        if self.row is None:
            described = Session(id=self.id, created_at=min(begun), updated_at=max(active))
        else:
            described = from_row(self.row)
        return replace(
            described,
            created_at=min([described.created_at, *begun]),
            updated_at=max([described.updated_at, *active]),
            n_messages=sum(one["n_messages"] for one in self.activity),
            tenant=self.tenant,
            user_id=self.user_id,
            agent_id=described.agent_id or max(agents, default=None),
        )


def conversations(rows: Iterable[Row], activity: Iterable[Row]) -> list[Conversation]:
    """Combine descriptions, and activity by session and scope, into conversations.

    A row of `activity` has a `session_id`, the parts of a scope, `n_messages`, `created_at` of the
    first and `updated_at` of the last.
    """
    described: dict[Place, dict[str | None, Row]] = {}
    for row in rows:
        described.setdefault((row["id"], row["tenant"], row["user_id"]), {})[row["agent_id"]] = row
    active: dict[Place, list[Row]] = {}
    for one in activity:
        place = (one["session_id"], one["tenant"], one["user_id"])
        active.setdefault(place, []).append(one)
    _lend(described, active)
    found = []
    for place in described.keys() | active.keys():
        found += _of_place(place, described.get(place, {}), active.get(place, []))
    return sorted(
        found, key=lambda one: [one.id, *(getattr(one, p) or "" for p in SCOPE_PARTS[:2])]
    )


def _lend(
    described: dict[Place, dict[str | None, Row]],
    active: Mapping[Place, Sequence[Row]],
) -> None:
    """Assign descriptions made outside users' scopes to the user with messages.

    They have less information than the messages. With several users, to none.
    """
    for place in [one for one in described if one not in active]:
        id, tenant, user = place
        inside = [
            one
            for one in active
            if one[0] == id and tenant in (None, one[1]) and user in (None, one[2])
        ]
        if len(inside) == 1 and inside[0] not in described:
            described[inside[0]] = described.pop(place)


def _of_place(
    place: Place, rows: Mapping[str | None, Row], activity: Sequence[Row]
) -> list[Conversation]:
    """Return the conversations of one id of one tenant and user."""
    agents = tuple(sorted(agent for agent in rows if agent is not None))
    found = []
    for agent in agents:
        own = [one for one in activity if one["agent_id"] == agent]
        found.append(Conversation(*place, row=rows[agent], activity=own, own_agent=agent))
    rest = [one for one in activity if one["agent_id"] not in agents]
    if rest or None in rows:
        shared = Conversation(*place, row=rows.get(None), activity=rest, other_agents=agents)
        found.append(shared)
    return found


def _utc(moment: datetime) -> datetime:
    # Arrow has its own UTC.
    return moment.replace(tzinfo=UTC)


_SAMPLE_ROWS = 256
"""Number of the last rows from which the age of recent ones is estimated."""

_BATCH_ROWS = 65_536
"""Number of messages read at a time for all sessions."""

_WIDER = (1, 8, 64)
"""Factors by which the period grows if it has too few sessions."""


@handle
class AsyncSessions:
    """The sessions of the store; satisfies `SessionStore`.

    A session exists as soon as it has messages; `create` only adds a description.
    """

    _records: Records

    async def create(
        self,
        session_id: str | None = None,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
    ) -> Session:
        """Create the description of a session; an absent id is generated.

        An existing session is returned unchanged: nothing is ever lost. From `expires_at` on no
        read returns it or the messages that it had at this call; see `update`.
        """
        session_id = new_id() if session_id is None else check_name(session_id, "session_id")
        self._records.resources.writable()
        now = self._records.now()
        scope = self._records.scope
        described = checked(
            {"title": title, "metadata": metadata or {}, "expires_at": expires_at}, ""
        )
        session = Session(
            id=session_id,
            created_at=now,
            updated_at=now,
            author=self._records.resources.author,
            **{**described, **scope.parts()},
        )
        key = key_of(scope, self._records.context, "session", session_id)
        found = await self._found([session_id])
        meant = found if len(found) < 2 else self._own(found)
        if not meant or meant[0].row is None:
            if session.expires_at is not None and meant:
                await self._expire(meant[0], session.expires_at)
            await self._insert(to_row(session, key=key))
            found = await self._found([session_id])
        return self._one(found).session() if found else session

    async def get(self, session_id: str) -> Session | None:
        """Return a session that was created or has messages; else None.

        Users, and agents with scopes of their own, may have sessions of the same id: a handle that
        sees several returns its own, if it has one. Else InvalidRequestError is raised, as in
        `update` and `delete`: use a `scope` of the owner.
        """
        session_id = check_name(session_id, "session_id")
        found = await self._found([session_id])
        return self._one(found).session() if found else None

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        ended_at: datetime | None = None,
        expires_at: datetime | None = None,
    ) -> Session:
        """Change the given fields of a session; `metadata` is replaced as a whole.

        From `expires_at` on no read returns the session or the messages that it has now: one commit
        sets their expiry, and another that of the description. A message that is appended later has
        its own expiry; a session with such messages exists as if it had never been described. An
        expired session stays expired, and may be described again.

        Raises NotFoundError for a session that was not created and has no messages.
        """
        given = {
            "title": title,
            "status": status,
            "metadata": metadata,
            "ended_at": ended_at,
            "expires_at": expires_at,
        }
        changes = checked({k: value for k, value in given.items() if value is not None}, "")
        session_id = check_name(session_id, "session_id")
        self._records.resources.writable()
        if not (found := await self._found([session_id])):
            raise NotFoundError(f"session {session_id!r} does not exist: create it first")
        if self._one(found).row is None:
            await self.create(session_id)
        if (moment := changes.get("expires_at")) is not None:
            await self._expire(self._one(found), moment)
        attempts = Attempts(f"session {session_id!r} kept being changed by others")
        while True:
            attempts.begin()
            found = await self._found([session_id])
            if not found or (row := self._one(found).row) is None:
                raise NotFoundError(f"session {session_id!r} has just expired: create it again")
            session = replace(
                from_row(row),
                updated_at=self._records.now(),
                author=self._records.resources.author,
                **changes,
            )
            new = to_row(session, key=row[KEY]) | {"revision": next_revision(row["revision"])}
            batch = WriteBatch([{**row, **new}], Mode.REPLACE)
            if (await self._records.resources.database.sessions.write(batch)).is_done:
                found = await self._found([session_id])
                return self._one(found).session() if found else session

    async def list(self, *, limit: int | None = None, offset: int = 0) -> builtins.list[Session]:
        """Return sessions, the most recently active first.

        Sessions of the same id of several users are listed separately, with their `user_id`.

        With a `limit` only recent messages, as far back as necessary, and those of the page's
        sessions are read.
        """
        check_span(offset=offset, limit=limit, last=None)
        # The most recently active sessions are among those with these ids.
        ids = None if limit is None else await self._most_recent(offset + limit)
        sessions = [one.session() for one in await self._found(ids)]
        sessions.sort(key=lambda session: session.updated_at, reverse=True)
        return sessions[offset:][:limit]

    async def count(self) -> int:
        """Return the number of sessions, as in `list`."""
        described = await self._described(None, include_hidden=False)
        whose = await self._summed(self._records.where(*_IN_A_SESSION), _WHOSE, _distinct)
        # Without descriptions, each id of a tenant and a user is one session: no row is read.
        ids = pa.array({row["id"] for row in described}, whose["session_id"].type)
        is_told = pc.is_in(whose["session_id"], value_set=ids)
        others = whose.filter(pc.invert(is_told)).select(_PLACE)
        told = conversations(described, whose.filter(is_told).to_pylist())
        return len(told) + int(pa.TableGroupBy(others, _PLACE).aggregate([]).num_rows)

    async def delete(self, session_id: str) -> bool:
        """Delete a session and its messages; returns whether it existed."""
        session_id = check_name(session_id, "session_id")
        if not (found := await self._found([session_id], include_hidden=True)):
            return False
        one = self._one(found)
        mine = self._records.where(
            sql.equals("kind", "message"),
            one.messages,
            include_expired=True,
            include_retired=True,
        )
        n_messages = (await self._records.table.write(WriteBatch(where=mine))).n_removed
        if n_messages:
            await self._records.cleared({"session_id": session_id})
        described = sql.in_list(KEY, [] if one.row is None else [one.row[KEY]])
        sessions = self._records.resources.database.sessions
        return n_messages + (await sessions.write(WriteBatch(where=described))).n_removed > 0

    async def sweep(self) -> int:
        """Delete the expired descriptions, in one commit; returns their number.

        This only frees space: no read returns them before either. For messages, use
        `History.sweep`.
        """
        self._records.resources.writable()
        gone = sql.at_or_before("expires_at", self._records.now())
        where = sql.all_of([self._records.inside(), gone])
        sessions = self._records.resources.database.sessions
        return (await sessions.write(WriteBatch(where=where))).n_removed

    async def _insert(self, row: Mapping[str, Any]) -> None:
        """Add a description, unless an unexpired one exists."""
        table = self._records.resources.database.sessions
        attempts = Attempts(f"session {row['id']!r} kept being changed by others")
        while not (await table.write(WriteBatch([row], Mode.INSERT))).is_done:
            attempts.begin()
            there = await table.select(sql.in_list(KEY, [row[KEY]]), columns=COLUMNS)
            for old in there.to_pylist():
                if self._is_there(old):
                    return
                new = {**row, "revision": next_revision(old["revision"])}
                await table.write(WriteBatch([new], Mode.REPLACE))

    async def _expire(self, one: Conversation, moment: datetime) -> None:
        """Set the expiry of the messages that a session has now."""
        where = self._records.where(sql.equals("kind", "message"), one.messages)
        await changing.expire_all(self._records, where, moment)

    def _is_there(self, row: Mapping[str, Any]) -> bool:
        """Whether a description has not expired; rows of an older release have no expiry."""
        expires_at = row.get("expires_at")
        return expires_at is None or expires_at > self._records.now()

    def _own(self, found: Sequence[Conversation]) -> builtins.list[Conversation]:
        """Return those of exactly the scope's tenant and user, and its agent if several."""
        scope = self._records.scope
        own = [one for one in found if (one.tenant, one.user_id) == (scope.tenant, scope.user_id)]
        return own if len(own) < 2 else [one for one in own if one.own_agent == scope.agent_id]

    def _one(self, found: Sequence[Conversation]) -> Conversation:
        """Return the session that its id selects."""
        if len(found) > 1 and not (found := self._own(all := found)):
            whose = ", ".join(
                str({part: getattr(one.session(), part) for part in SCOPE_PARTS}) for one in all[:5]
            )
            raise InvalidRequestError(
                f"session_id={shown(all[0].id)} names a session in {len(all)} scopes: use "
                f"scope(...) with one of {whose}"
            )
        return found[0]

    async def _found(
        self, ids: Collection[str] | None, *, include_hidden: bool = False
    ) -> builtins.list[Conversation]:
        """Return the conversations of the view, of some ids or of all."""
        described = await self._described(ids, include_hidden=include_hidden)
        return conversations(described, await self._activity(ids, include_hidden=include_hidden))

    async def _described(
        self, ids: Collection[str] | None, *, include_hidden: bool
    ) -> builtins.list[dict[str, Any]]:
        """Return the descriptions of the view, of some ids or of all."""
        named = [] if ids is None else [sql.in_list("id", ids)]
        where = sql.all_of([self._records.inside(), *named])
        rows = await self._records.resources.database.sessions.select(
            where or None, columns=COLUMNS
        )
        return [row for row in rows.to_pylist() if include_hidden or self._is_there(row)]

    async def _most_recent(self, n: int) -> builtins.list[str]:
        """Return the `n` most recently active sessions, latest first.

        Reads only activity since a moment, which is sufficient if enough sessions were active
        since.
        """
        last: dict[str, datetime] = {}
        for since in await self._moments(n):
            last = await self._active(since)
            if len(last) >= n:
                break
        return sorted(sorted(last), key=lambda one: last[one], reverse=True)[:n]

    async def _moments(self, n: int) -> builtins.list[datetime | None]:
        """Return increasing periods to search for `n` sessions; None is unbounded."""
        table = await self._records.table.here()
        columns, n_rows = ["updated_at"], max(_SAMPLE_ROWS, 8 * n)
        sample = await table.access.look(
            "read {}",
            lambda handle: reads.written_last(handle, n_rows, columns),
            table.nothing(columns),
        )
        if sample.num_rows < n_rows:
            return [None]
        times = sample.sort_by("updated_at")["updated_at"]
        # Not the oldest one: a few rows may be there for another reason.
        last = times[-1].as_py()
        span: timedelta = last - times[n_rows // 8].as_py()
        return [*dict.fromkeys(last - factor * span for factor in _WIDER), None]

    async def _active(self, since: datetime | None) -> dict[str, datetime]:
        """Return the sessions active since then, with their last activity."""
        recent = [] if since is None else [sql.at_or_after("updated_at", since.replace(tzinfo=UTC))]
        messages = await self._records.table.select(
            self._records.where(*_IN_A_SESSION, *recent), columns=["session_id", "updated_at"]
        )
        described = await self._records.resources.database.sessions.select(
            sql.all_of([self._records.inside(), *recent]) or None, columns=["id", "updated_at"]
        )
        ids, moments = messages["session_id"], messages["updated_at"]
        # Typed, since there may be no chunk.
        both = pa.table(
            {
                "id": pa.chunked_array([*ids.chunks, *described["id"].chunks], ids.type),
                "at": pa.chunked_array(
                    [*moments.chunks, *described["updated_at"].chunks], moments.type
                ),
            }
        )
        latest = pa.TableGroupBy(both, "id").aggregate([("at", "max")])
        return dict(zip(latest["id"].to_pylist(), latest["at_max"].to_pylist(), strict=True))

    async def _activity(
        self, ids: Collection[str] | None, *, include_hidden: bool
    ) -> builtins.list[dict[str, Any]]:
        """Return the number of messages per session and owner, with the first and last times."""
        which = [] if ids is None else [sql.in_list("session_id", ids)]
        where = self._records.where(
            *_IN_A_SESSION,
            *which,
            include_expired=include_hidden,
            include_retired=include_hidden,
        )
        columns = [*_WHOSE, "created_at", "updated_at"]
        if ids is None:
            found = await self._summed(where, columns, _first_and_last, _combined)
        else:
            rows = await self._records.table.select(where, columns=columns)
            found = _combined(_first_and_last(rows))
        return found.to_pylist()  # type: ignore[no-any-return] # Arrow has no types

    async def _summed(
        self,
        where: sql.Clause,
        columns: Sequence[str],
        of_rows: Callable[[pa.Table], pa.Table],
        of_parts: Callable[[pa.Table], pa.Table] | None = None,
    ) -> pa.Table:
        """Aggregate all matching messages, a part of which is in memory at a time."""
        table = self._records.table
        of_parts = of_parts or of_rows

        async def look() -> pa.Table:
            parts = of_rows(table.nothing(columns))
            async for batch in table.batches(where, columns=columns, batch_rows=_BATCH_ROWS):
                part = await asyncio.to_thread(of_rows, pa.Table.from_batches([batch]))
                parts = pa.concat_tables([parts, part])
                if parts.num_rows > _BATCH_ROWS:
                    parts = of_parts(parts)
            return of_parts(parts)

        return await table.access.follow(look)


_IN_A_SESSION = (sql.equals("kind", "message"), sql.is_present("session_id"))

_WHOSE = ("session_id", *SCOPE_PARTS)
_PLACE = ["session_id", *SCOPE_PARTS[:2]]


def _first_and_last(rows: pa.Table) -> pa.Table:
    """Return the number of messages, and first and last times, per session and agent."""
    aggregates = [("created_at", "min"), ("updated_at", "max"), ("updated_at", "count")]
    found = pa.TableGroupBy(rows, [*_WHOSE]).aggregate(aggregates)
    return found.select([*_WHOSE, "created_at_min", "updated_at_max", "updated_at_count"])


def _combined(parts: pa.Table) -> pa.Table:
    """Combine these of all parts."""
    aggregates = [
        ("created_at_min", "min"),
        ("updated_at_max", "max"),
        ("updated_at_count", "sum"),
    ]
    found = pa.TableGroupBy(parts, [*_WHOSE]).aggregate(aggregates)
    return pa.table(
        {
            **{name: found[name] for name in _WHOSE},
            "created_at": found["created_at_min_min"],
            "updated_at": found["updated_at_max_max"],
            "n_messages": found["updated_at_count_sum"],
        }
    )


def _distinct(rows: pa.Table) -> pa.Table:
    if not rows.num_rows:
        return rows.select(_WHOSE)
    # A column without values distinguishes no row, and is half of the work.
    told = [name for name in _WHOSE if rows[name].null_count < rows.num_rows]
    found = pa.TableGroupBy(rows, told).aggregate([])
    for name in _WHOSE:
        if name not in told:
            nothing = pa.nulls(found.num_rows, rows.schema.field(name).type)
            found = found.append_column(name, nothing)
    return found.select(_WHOSE)

"""Sessions: what is known about conversations, beside their messages."""

import builtins
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lance_context_core._json import (
    check_json_object,
    check_name,
    check_text,
    check_time,
    dumps,
    loads,
)
from lance_context_core.engine import reading, sql
from lance_context_core.engine.revisions import new_revision, next_revision
from lance_context_core.engine.schema import KEY
from lance_context_core.errors import ConflictError, NotFoundError
from lance_context_core.records import Session
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.stores.records import Records, check_span
from lance_context_core.stores.rows import key_of, new_id

_MAX_ATTEMPTS = 20

_SAMPLE_ROWS = 256
"""So many of the last rows tell how far back the recent ones go."""

_WIDER = (1, 8, 64)
"""How many times as far it is looked where the sessions of that time are too few."""


@dataclass(frozen=True, slots=True)
class AsyncSessions:
    """The sessions of the store; satisfies `SessionStore`.

    A session exists as soon as it has messages; creating it only adds a description.
    """

    _records: Records

    async def create(
        self,
        session_id: str | None = None,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """Describe a session; an absent id is generated.

        A session that was created before is returned as it is: creating never loses anything.
        """
        session_id = new_id() if session_id is None else check_name(session_id, "session_id")
        self._records.resources.writable()
        now = self._records.resources.clock.now()
        row = {
            KEY: key_of(self._records.scope, self._records.context, "session", session_id),
            "id": session_id,
            "created_at": now,
            "updated_at": now,
            "revision": new_revision(),
            "title": None if title is None else check_text(title, "title"),
            "status": "active",
            "metadata": dumps(check_json_object(metadata or {}, "metadata")),
            **self._records.scope.parts(),
        }
        if await self._row(session_id) is None:
            await self._records.resources.sessions.insert_absent([row])
        created = await self.get(session_id)
        assert created is not None
        return created

    async def get(self, session_id: str) -> Session | None:
        """A session that was created or has messages; else None."""
        session_id = check_name(session_id, "session_id")
        row = await self._row(session_id)
        activity = (await self._activity([session_id])).get(session_id)
        if row is None and activity is None:
            return None
        return _session(session_id, row, activity)

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        ended_at: datetime | None = None,
    ) -> Session:
        """Change what is given, keep the rest; `metadata` is replaced as a whole.

        Raises NotFoundError for a session that neither was created nor has messages.
        """
        given = {
            "title": None if title is None else check_text(title, "title"),
            "status": None if status is None else check_name(status, "status"),
            "metadata": None
            if metadata is None
            else dumps(check_json_object(metadata, "metadata")),
            "ended_at": None if ended_at is None else check_time(ended_at, "ended_at"),
        }
        self._records.resources.writable()
        if await self.get(session_id) is None:
            raise NotFoundError(f"session {session_id!r} does not exist: create it first")
        await self.create(session_id)
        for _ in range(_MAX_ATTEMPTS):
            row = await self._row(session_id)
            assert row is not None
            changes: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
            changes["updated_at"] = self._records.resources.clock.now()
            changes["revision"] = next_revision(row["revision"])
            if await self._records.resources.sessions.replace([row | changes]) == 1:
                updated = await self.get(session_id)
                assert updated is not None
                return updated
        raise ConflictError(f"session {session_id!r} kept being changed by others: try again")

    async def list(self, *, limit: int | None = None, offset: int = 0) -> builtins.list[Session]:
        """Sessions, the most recently active first.

        With a `limit` it is read what was written lately, as far back as it takes, and what the
        sessions of that page have; not all messages.
        """
        check_span(offset=offset, limit=limit, last=None)
        ids = None if limit is None else await self._most_recent(offset + limit)
        return (await self._known(ids))[offset:][:limit]

    async def delete(self, session_id: str) -> bool:
        """Forget a session and its messages; returns whether there was anything to forget."""
        session_id = check_name(session_id, "session_id")
        mine = self._records.where(
            sql.equals("kind", "message"),
            sql.equals("session_id", session_id),
            include_expired=True,
            include_retired=True,
        )
        n_messages = await self._records.delete(mine)
        described = sql.all_of([*self._walls(), sql.equals("id", session_id)])
        n_rows = await self._records.resources.sessions.delete(described)
        return n_messages + n_rows > 0

    def _walls(self) -> builtins.list[str]:
        return [sql.equals(part, value) for part, value in self._records.scope.parts().items()]

    async def _row(self, session_id: str) -> dict[str, Any] | None:
        rows = await self._rows(sql.all_of([*self._walls(), sql.equals("id", session_id)]))
        return rows[0] if rows else None

    async def _rows(self, where: str) -> builtins.list[dict[str, Any]]:
        table = self._records.resources.sessions
        rows: builtins.list[dict[str, Any]] = (
            await table.select(where or None, columns=table.spec.schema.names)
        ).to_pylist()
        return rows

    async def _known(self, ids: Collection[str] | None) -> builtins.list[Session]:
        """These sessions, or all, as far as they are there, the most recently active first."""
        which = [] if ids is None else [sql.in_list("id", ids)]
        rows = {row["id"]: row for row in await self._rows(sql.all_of([*self._walls(), *which]))}
        activity = await self._activity(ids)
        sessions = [
            _session(one, rows.get(one), activity.get(one))
            for one in sorted(rows.keys() | activity)
        ]
        return sorted(sessions, key=lambda session: session.updated_at, reverse=True)

    async def _most_recent(self, n: int) -> builtins.list[str]:
        """The `n` sessions that were active last, the latest first.

        Only what happened since some moment is looked at, which is all that there is to know about
        them if as many sessions were active since.
        """
        last: dict[str, datetime] = {}
        for since in await self._moments(n):
            last = await self._active(since)
            if len(last) >= n:
                break
        return sorted(sorted(last), key=lambda one: last[one], reverse=True)[:n]

    async def _moments(self, n: int) -> builtins.list[datetime | None]:
        """How far back to look for `n` sessions, one after the other; None is to the beginning."""
        table, columns, n_rows = self._records.table, ["updated_at"], max(_SAMPLE_ROWS, 8 * n)
        sample = await table.look(
            "read {}",
            lambda handle: reading.written_last(handle, n_rows, columns),
            table.nothing(columns),
        )
        if sample.num_rows < n_rows:
            return [None]
        times = sample.sort_by("updated_at")["updated_at"]
        # Not of the oldest one: a few may have come to stand there for another reason.
        last = times[-1].as_py()
        span: timedelta = last - times[n_rows // 8].as_py()
        return [*dict.fromkeys(last - factor * span for factor in _WIDER), None]

    async def _active(self, since: datetime | None) -> dict[str, datetime]:
        """The sessions that were active since then, and when last."""
        recent = (
            [] if since is None else [f"updated_at >= {sql.timestamp(since.replace(tzinfo=UTC))}"]
        )
        messages = await self._records.table.select(
            self._records.where(*_IN_A_SESSION, *recent), columns=["session_id", "updated_at"]
        )
        described = await self._records.resources.sessions.select(
            sql.all_of([*self._walls(), *recent]) or None, columns=["id", "updated_at"]
        )
        both = pa.table(
            {
                "id": pa.chunked_array([*messages["session_id"].chunks, *described["id"].chunks]),
                "at": pa.chunked_array(
                    [*messages["updated_at"].chunks, *described["updated_at"].chunks]
                ),
            }
        )
        latest = pa.TableGroupBy(both, "id").aggregate([("at", "max")])
        return dict(zip(latest["id"].to_pylist(), latest["at_max"].to_pylist(), strict=True))

    async def _activity(self, ids: Collection[str] | None) -> dict[str, Mapping[str, Any]]:
        """How many messages a session has, and when the first and the last were written."""
        which = [] if ids is None else [sql.in_list("session_id", ids)]
        where = self._records.where(*_IN_A_SESSION, *which)
        rows = await self._records.table.select(
            where,
            columns=["session_id", "tenant", "user_id", "agent_id", "created_at", "updated_at"],
        )
        if rows.num_rows == 0:
            return {}
        summary = pa.TableGroupBy(rows, "session_id").aggregate(
            [
                ("updated_at", "count"),
                ("created_at", "min"),
                ("updated_at", "max"),
                ("tenant", "max"),
                ("user_id", "max"),
                ("agent_id", "max"),
            ]
        )
        return {row["session_id"]: row for row in summary.to_pylist()}


_IN_A_SESSION = (sql.equals("kind", "message"), "session_id IS NOT NULL")


def _session(
    session_id: str, row: Mapping[str, Any] | None, activity: Mapping[str, Any] | None
) -> Session:
    """A session from its description, its messages, or both."""
    if activity is None:
        activity = {}
    if row is None:
        row = {
            "created_at": activity["created_at_min"],
            "updated_at": activity["updated_at_max"],
            "status": "active",
        }
    created = min(row["created_at"], activity.get("created_at_min") or row["created_at"])
    updated = max(row["updated_at"], activity.get("updated_at_max") or row["updated_at"])
    ended = row.get("ended_at")
    return Session(
        id=session_id,
        title=row.get("title"),
        status=row["status"],
        # Arrow has a UTC of its own.
        created_at=created.replace(tzinfo=UTC),
        updated_at=updated.replace(tzinfo=UTC),
        ended_at=None if ended is None else ended.replace(tzinfo=UTC),
        metadata=loads(row["metadata"], "metadata") if row.get("metadata") else {},
        n_messages=activity.get("updated_at_count", 0),
        # A description made outside every scope knows less than the messages do.
        **{part: row.get(part) or activity.get(f"{part}_max") for part in SCOPE_PARTS},
    )

"""Long-term memories: what an agent shall still know in another session."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._handle import handle
from lance_context_core._progress import check_progress
from lance_context_core._util import cooperative as steps
from lance_context_core._util.calls import takes
from lance_context_core._util.checks import (
    check_json_object,
    check_name,
    check_names,
    check_span,
    check_time,
    listed,
)
from lance_context_core.codecs.records import COLUMNS, from_row
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.messages import Message, TextPart
from lance_context_core.search import query as searching
from lance_context_core.search.options import ALONE, SearchArguments
from lance_context_core.storage import sql
from lance_context_core.stores.records import writes
from lance_context_core.stores.records.scoped import Records
from lance_context_core.stores.records.writes import Draft
from lance_context_core.types import ContextRecord, Page, Progress, SearchHit

_MEMORIES = sql.equals("kind", "memory")


@handle
class AsyncMemory:
    """The memories of users; satisfies `MemoryService`."""

    _records: Records

    async def add(
        self,
        memories: Sequence[str | Message],
        *,
        user_id: str = "",
        session_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
        keep_existing: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[str]:
        """Remember texts or messages, in one commit; returns their ids, in order.

        `metadata` is added to each. From `expires_at` on they are hidden from every read. What the
        user has in the session already, by the id of a message, is left as it is, so a call may be
        repeated; so is what says something else, if `keep_existing`. Else AlreadyExistsError is
        raised for that, before anything is written. Raises InvalidRequestError for an empty text:
        there is nothing to remember in it.

        `progress` is called as texts are embedded, up to 1,000 at a time, and once all is written;
        what it raises before that, as cancelling does, ends the call, and nothing is written.
        """
        check_progress(progress)
        common = check_json_object(metadata or {}, "metadata")
        scope = self._records.scope
        within = {
            "kind": "memory",
            "user_id": self._records.whose("user_id", user_id),
            "session_id": check_name(session_id, "session_id") if session_id else None,
        }
        own: dict[str, Any] = {
            **within,
            "tenant": scope.tenant,
            "agent_id": scope.agent_id,
            "expires_at": None if expires_at is None else check_time(expires_at, "expires_at"),
        }

        def draft(index: int, memory: str | Message) -> Draft:
            message = _message(memory, f"memories[{index}]")
            more: dict[str, Any] = {"metadata": {**message.metadata, **common}}
            if isinstance(memory, str):
                more["parts"] = ()
            return Draft.said(message, now=self._records.now(), **own, **more)

        given = listed(memories, "memories")
        return await writes.insert_said(
            self._records, draft, given, within, keep_existing=keep_existing, progress=progress
        )

    @takes(SearchArguments, searching.DEFAULTS)
    async def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        user_id: str = "",
        session_id: str | None = None,
        **arguments: Unpack[SearchArguments],
    ) -> builtins.list[SearchHit[ContextRecord]]:
        """What a user's memories say about `query`, best first; in one session, or in all.

        Memories stand alone, unlike turns: nothing is added by boosts, unless `options` say so.
        See `AsyncContextStore.search`.
        """
        within = self._within(user_id, session_id)
        return await self._records.search(query, _MEMORIES, within=within, room=ALONE, **arguments)

    async def list(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        page: int = 1,
        page_size: int = 10,
    ) -> Page[ContextRecord]:
        """A user's memories by session, then in the order in which they were added.

        A page past the end is empty.
        """
        for name, value in (("page", page), ("page_size", page_size)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidRequestError(f"{name}={value!r}: count from 1")
        table = self._records.table
        rows = await table.select(self._where(user_id, session_id), columns=["session_id"])
        order = rows.sort_by([("session_id", "ascending"), ("_rowid", "ascending")])["_rowid"]
        wanted = order.to_pylist()[(page - 1) * page_size :][:page_size]
        items = await steps.each_row(from_row, await table.take(wanted, columns=COLUMNS))
        return Page(items=items, page=page, page_size=page_size, total=rows.num_rows)

    async def latest(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        filter: FilterLike | None = None,
        limit: int = 10,
        offset: int = 0,
        by_session: bool = False,
    ) -> builtins.list[ContextRecord]:
        """A user's memories, or those that match, the newest first: `limit` after `offset`.

        With `by_session`, those of the session that began last come first: of which the first memory
        that is still there, whether or not it matches, was added last. Only those that are returned
        are read whole.
        """
        if limit is None:
            raise InvalidRequestError("limit=None: say how many are wanted, such as 10")
        check_span(offset=offset, limit=limit, last=None)
        rows = await self._records.few(
            self._where(user_id, session_id),
            filter,
            within=self._within(user_id, session_id),
            columns=COLUMNS,
            by="session_id" if by_session else "",
            offset=offset,
            last=limit,
        )
        if rows is not None:
            return await steps.each(from_row, rows[::-1])
        where = self._where(user_id, session_id, filter=filter)
        if not by_session:
            return (await self._records.read(where, offset=offset, last=limit))[::-1]
        table = self._records.table
        matching = await table.select(where, columns=["session_id"])
        if len(matching["session_id"].unique()) > 1:
            everything = await table.select(
                self._where(user_id, session_id), columns=["session_id"]
            )
            matching = _by_beginning(matching, everything["session_id"].unique())
        wanted = matching["_rowid"].to_pylist()[::-1][offset:][:limit]
        return await steps.each_row(from_row, await table.take(wanted, columns=COLUMNS))

    async def delete(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Forget a user's memories: all, those of one session, or some; returns how many.

        Hidden ones go too. Unknown `ids` are passed over. Older versions of the store keep them.
        """
        where = self._where(user_id, session_id, hidden=True)
        if ids is not None:
            where = sql.all_of([where, sql.in_list("id", check_names(ids, "ids"))])
        return await self._records.table.delete(where)

    async def clear(self) -> int:
        """Forget the memories of all users in the scope, in one commit; returns how many."""
        return await self._records.table.delete(
            self._records.where(_MEMORIES, include_expired=True, include_retired=True)
        )

    def _where(
        self,
        user_id: str,
        session_id: str | None,
        *,
        hidden: bool = False,
        filter: FilterLike | None = None,
    ) -> sql.Clause:
        return self._records.where(
            *self._conditions(user_id, session_id),
            filter=filter,
            include_expired=hidden,
            include_retired=hidden,
        )

    def _conditions(self, user_id: str, session_id: str | None) -> builtins.list[sql.Clause]:
        return [_MEMORIES, sql.all_equal(self._within(user_id, session_id))]

    def _within(self, user_id: str, session_id: str | None) -> dict[str, str | None]:
        within = {"user_id": self._records.whose("user_id", user_id)}
        if session_id is not None:
            within["session_id"] = check_name(session_id, "session_id") if session_id else None
        return within


def _message(memory: str | Message, where: str) -> Message:
    """What is to be remembered, as a message. Raises InvalidRequestError if it says nothing."""
    if not isinstance(memory, str | Message):
        raise InvalidRequestError(f"{where} is a {type(memory).__name__}: pass a text or a Message")
    message = Message.user(memory) if isinstance(memory, str) else memory
    if not message.text.strip() and all(isinstance(part, TextPart) for part in message.parts):
        raise InvalidRequestError(f"{where} is empty: there is nothing to remember")
    return message


def _by_beginning(rows: pa.Table, sessions: pa.Array) -> pa.Table:
    """Rows in the order of these sessions, which those that began since are after."""
    begun = pc.index_in(rows["session_id"], value_set=sessions)
    return rows.append_column("begun", begun).sort_by(
        [("begun", "ascending"), ("_rowid", "ascending")]
    )

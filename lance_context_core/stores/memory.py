"""Long-term memories: what an agent shall still know in another session."""

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core import _steps as steps
from lance_context_core._checks import (
    check_json_object,
    check_name,
    check_names,
    listed,
)
from lance_context_core._options import takes
from lance_context_core.engine import sql
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import FilterLike
from lance_context_core.messages import Message, TextPart
from lance_context_core.records import ContextRecord, Page, SearchHit
from lance_context_core.rows.records import (
    COLUMNS,
    from_row,
    new_id,
)
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.stores.records.view import (
    Draft,
    Records,
    check_span,
)


@dataclass(frozen=True, slots=True)
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
    ) -> builtins.list[str]:
        """Remember texts or messages, in one commit; returns their ids, in order.

        `metadata` is added to each. From `expires_at` on they are hidden from every read. What the
        user has in the session already, by the id of a message, is left as it is, so a call may be
        repeated; so is what says something else, if `keep_existing`. Else AlreadyExistsError is
        raised for that, before anything is written. Raises InvalidRequestError for an empty text:
        there is nothing to remember in it.
        """
        common = check_json_object(metadata or {}, "metadata")
        drafts = [
            self._draft(memory, index, user_id, session_id, common, expires_at)
            for index, memory in enumerate(listed(memories, "memories"))
        ]
        if not drafts:
            return []
        within = {
            "kind": "memory",
            "user_id": self._user(user_id),
            "session_id": session_id or None,
        }
        result = await self._records.insert(drafts, within=within, keep_existing=keep_existing)
        return list(result.ids)

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

        Memories stand alone, unlike turns: nothing is lent by neighbours, unless `options` say so.
        See `AsyncContextStore.search`.
        """
        conditions = self._conditions(user_id, session_id)
        return await self._records.search(query, *conditions, neighbours=0.0, **arguments)

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
        where = self._where(user_id, session_id, filter=filter)
        if limit is None:
            raise InvalidRequestError("limit=None: say how many are wanted, such as 10")
        check_span(offset=offset, limit=limit, last=None)
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
        return await self._records.delete(where)

    async def clear(self) -> int:
        """Forget the memories of all users in the scope, in one commit; returns how many."""
        memories = sql.equals("kind", "memory")
        return await self._records.delete(
            self._records.where(memories, include_expired=True, include_retired=True)
        )

    def _user(self, user_id: str) -> str | None:
        """The user that the call is about, inside the scope; None for no user in particular."""
        if user_id:
            user_id = check_name(user_id, "user_id")
        return self._records.scope.resolve("user_id", user_id or None)

    def _where(
        self,
        user_id: str,
        session_id: str | None,
        *,
        filter: FilterLike | None = None,
        hidden: bool = False,
    ) -> str:
        return self._records.where(
            *self._conditions(user_id, session_id),
            filter=filter,
            include_expired=hidden,
            include_retired=hidden,
        )

    def _conditions(self, user_id: str, session_id: str | None) -> builtins.list[str]:
        conditions = [sql.equals("kind", "memory"), sql.equals("user_id", self._user(user_id))]
        if session_id is not None:
            session = check_name(session_id, "session_id") if session_id != "" else None
            conditions.append(sql.equals("session_id", session))
        return conditions

    def _draft(
        self,
        memory: str | Message,
        index: int,
        user_id: str,
        session_id: str,
        metadata: Mapping[str, Any],
        expires_at: datetime | None,
    ) -> Draft:
        if not isinstance(memory, str | Message):
            raise InvalidRequestError(
                f"memories[{index}] is a {type(memory).__name__}: pass a text or a Message"
            )
        message = Message.user(memory) if isinstance(memory, str) else memory
        if not message.text.strip() and all(isinstance(part, TextPart) for part in message.parts):
            raise InvalidRequestError(f"memories[{index}] is empty: there is nothing to remember")
        now = self._records.resources.clock.now()
        record = ContextRecord(
            id=message.id or new_id(),
            kind="memory",
            content_type="text/plain",
            created_at=message.created_at or now,
            updated_at=now,
            user_id=self._user(user_id),
            session_id=session_id or None,
            role=message.role,
            name=message.name,
            text=message.text or None,
            parts=() if isinstance(memory, str) else message.parts,
            native=message.native,
            metadata={**message.metadata, **metadata},
            expires_at=expires_at,
        )
        return Draft(record=record, identity=("id", message.id) if message.id else None)


def _by_beginning(rows: pa.Table, sessions: pa.Array) -> pa.Table:
    """Rows in the order of these sessions, which those that began since are after."""
    begun = pc.index_in(rows["session_id"], value_set=sessions)
    return rows.append_column("begun", begun).sort_by(
        [("begun", "ascending"), ("_rowid", "ascending")]
    )

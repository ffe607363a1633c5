"""Long-term memories of users across sessions."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, Unpack

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
    shown,
)
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import COLUMNS, apart, from_row, is_visible
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError, NotFoundError
from lance_context_core.filters import FilterLike
from lance_context_core.messages import Message, TextPart
from lance_context_core.search import query as searching
from lance_context_core.search.options import ALONE, SearchArguments
from lance_context_core.storage import sql
from lance_context_core.storage.write_batch import WriteBatch
from lance_context_core.stores import remembering
from lance_context_core.stores.records import changes, writes
from lance_context_core.stores.records.scoped import Records
from lance_context_core.stores.records.writes import Draft
from lance_context_core.stores.remembering import Remembered
from lance_context_core.types import ContextRecord, Page, Progress, SearchHit

_MEMORIES = sql.equals("kind", "memory")

Duplicates = Literal["touch", "keep"]
"""The handling of a known text: its memory is touched, or another one added."""

NOTHING = remembering.Known({}, frozenset())


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
        duplicates: Duplicates = "touch",
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[str]:
        """Store texts or messages as memories, in one commit; returns their ids, in order.

        `metadata` is added to each. From `expires_at` on no read returns them. A text that the user
        already has, in the session or, without one, in any, is not duplicated: its memory is
        touched, and gets the `metadata` of this call, if any, and its expiry. With
        `duplicates="keep"` each text is a memory of its own.

        A message whose id the user has in the session already is left unchanged, so a call may be
        repeated. If the stored one has other content, `keep_existing` leaves it unchanged too; else
        AlreadyExistsError is raised before anything is written. Raises InvalidRequestError for an
        empty text.

        `progress` is called as texts are embedded, up to 1,000 at a time, and once all is written;
        if it raises before that, for example to cancel, the call ends, and nothing is written.
        """
        kept = await self._remember(
            memories,
            user_id=user_id,
            session_id=session_id,
            metadata=metadata,
            expires_at=expires_at,
            keep_existing=keep_existing,
            duplicates=duplicates,
            progress=progress,
        )
        return [one.id for one in kept]

    async def _remember(
        self,
        memories: Sequence[str | Message],
        *,
        user_id: str = "",
        session_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
        keep_existing: bool = False,
        duplicates: Duplicates = "touch",
        progress: Callable[[Progress], object] | None = None,
    ) -> builtins.list[Remembered]:
        check_progress(progress)
        if duplicates not in ("touch", "keep"):
            raise InvalidRequestError(f"duplicates={shown(duplicates)}: use 'touch' or 'keep'")
        common = check_json_object(metadata or {}, "metadata")
        until = None if expires_at is None else check_time(expires_at, "expires_at")
        scope, user = self._records.scope, self._records.whose("user_id", user_id)
        session = check_name(session_id, "session_id") if session_id else None
        within = {"kind": "memory", "user_id": user, "session_id": session}
        own: dict[str, Any] = {
            **within,
            "tenant": scope.tenant,
            "agent_id": scope.agent_id,
            "expires_at": until,
        }
        given = listed(memories, "memories")
        messages = [_message(one, f"memories[{index}]") for index, one in enumerate(given)]
        once = duplicates == "touch"
        ids = {
            one: remembering.named(scope, user, session_id, one)
            for one in given
            if once and isinstance(one, str)
        }
        there = await self._known(ids, user_id, session_id or None) if ids else NOTHING
        new: dict[str | int, Message] = {}
        for index, (one, message) in enumerate(zip(given, messages, strict=True)):
            if not (once and isinstance(one, str)):
                new[index] = message
            elif one not in there.by_text and one not in new:
                new[one] = remembering.as_message(one, ids[one], there)

        is_text = [isinstance(name, str) or isinstance(given[name], str) for name in new]

        def draft(index: int, message: Message) -> Draft:
            more: dict[str, Any] = {"metadata": {**message.metadata, **common}}
            if is_text[index]:
                more["parts"] = ()
            return Draft.said(message, now=self._records.now(), **own, **more)

        written = await writes.insert_said(
            self._records,
            draft,
            list(new.values()),
            within,
            keep_existing=keep_existing,
            progress=progress,
        )
        if there.by_text:
            told = None if metadata is None else common
            known = list(there.by_text.values())
            await remembering.touch(self._records, known, metadata=told, expires_at=until)
        found = dict(zip(new, written, strict=True))
        kept = []
        for index, one in enumerate(given):
            if isinstance(one, str) and one in there.by_text:
                kept.append(Remembered(there.by_text[one][1].id, is_new=False))
            else:
                name = one if once and isinstance(one, str) else index
                kept.append(Remembered(found[name], is_new=True))
        return kept

    async def _known(
        self, ids: Mapping[str, str], user_id: str, session_id: str | None
    ) -> remembering.Known:
        return await remembering.known(
            self._records,
            list(ids),
            list(ids.values()),
            *self._conditions(user_id, session_id),
            within=self._within(user_id, session_id),
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
        """Search a user's memories, best first; in one session, or in all.

        Memories are independent, unlike turns: no boosts apply, unless in `options`. See
        `AsyncContextStore.search`.
        """
        within = self._within(user_id, session_id)
        return await self._records.search(query, _MEMORIES, within=within, room=ALONE, **arguments)

    async def get(
        self, id: str, *, user_id: str = "", session_id: str | None = None
    ) -> ContextRecord | None:
        """Return the user's memory with that id; None if absent or hidden.

        Searches one session, or all.
        """
        named = sql.equals("id", check_name(id, "id"))
        found = await self._records.read(
            sql.all_of([self._where(user_id, session_id), named]), limit=1
        )
        return found[0] if found else None

    async def get_many(
        self, ids: Sequence[str], *, user_id: str = "", session_id: str = ""
    ) -> builtins.list[ContextRecord]:
        """Return a user's memories in the order of `ids`; absent and hidden ones are skipped.

        One read by key, of one session; without a `session_id`, of the memories without a session.
        A memory that was written in a wider or narrower scope is found by `get` alone.
        """
        ids = check_names(ids, "ids")
        within = {"kind": "memory", **self._within(user_id, session_id)}
        keys = {one: writes.key_of_said(self._records, within, one) for one in ids}
        found, now = await self._records.seen(list(keys.values())), self._records.now()
        known = (found.get(keys[one]) for one in ids)
        return [apart(one) for one in known if one is not None and is_visible(one, now)]

    async def update(
        self,
        id: str,
        text: str | None = None,
        *,
        user_id: str = "",
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
    ) -> ContextRecord:
        """Change the text, metadata or expiry of a memory; returns the changed memory.

        Arguments that are None leave the value unchanged. Raises NotFoundError if the user has no
        such memory, and InvalidRequestError for an empty text, or without changes.
        """
        if text is None and metadata is None and expires_at is None:
            raise InvalidRequestError("nothing to update: give a text, metadata or expires_at")
        values: dict[str, Any] = {}
        if text is not None:
            message = _message(text, "text")
            values |= {"text": message.text, "parts": (), "native": None, "embedding": None}
        if metadata is not None:
            values["metadata"] = check_json_object(metadata, "metadata")
        if expires_at is not None:
            values["expires_at"] = check_time(expires_at, "expires_at")
        named = sql.equals("id", check_name(id, "id"))
        where = sql.all_of([self._where(user_id, session_id), named])
        record = await changes.patch(self._records, where, lambda before: replace(before, **values))
        if record is None:
            whose = f" of user {user_id!r}" if user_id else ""
            raise NotFoundError(f"no memory {id!r}{whose}: list the existing ones with memory.list")
        return record

    async def upsert(
        self,
        id: str,
        text: str,
        *,
        user_id: str = "",
        session_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
    ) -> ContextRecord:
        """Store a text under your own id, replacing the session's memory of that id.

        A replaced memory keeps its `created_at` and place. Raises InvalidRequestError for an empty
        text.
        """
        message = replace(_message(text, "text"), id=check_name(id, "id"))
        common = check_json_object(metadata or {}, "metadata")
        until = None if expires_at is None else check_time(expires_at, "expires_at")
        values: dict[str, Any] = {"metadata": common, "expires_at": until}
        said: dict[str, Any] = {
            "text": message.text,
            "parts": (),
            "native": None,
            "embedding": None,
        }

        def change(before: ContextRecord) -> ContextRecord:
            return replace(before, **values, **said, retired_at=None, retired_reason=None)

        within = self._within(user_id, session_id)
        named = sql.equals("id", id)
        where = sql.all_of([self._where(user_id, session_id, hidden=True), named])
        scope = self._records.scope

        def draft(_: int, one: Message) -> Draft:
            own = {"tenant": scope.tenant, "agent_id": scope.agent_id, "kind": "memory"}
            return Draft.said(
                one, now=self._records.now(), **own, **within, **{**values, "parts": ()}
            )

        attempts = Attempts("the same memory kept being changed by others")
        while True:
            attempts.begin()
            if (record := await changes.patch(self._records, where, change)) is not None:
                return record
            try:
                await writes.insert_said(
                    self._records,
                    draft,
                    [message],
                    {"kind": "memory", **within},
                    keep_existing=False,
                    progress=None,
                )
            except AlreadyExistsError:  # Another writer has stored something else there meanwhile.
                continue

    async def list(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        page: int = 1,
        page_size: int = 10,
    ) -> Page[ContextRecord]:
        """Return a user's memories, or those that match, by session, then by time of addition.

        `limit` is an alias of `page_size`. A page past the end is empty.
        """
        if limit is not None:
            if page_size not in (10, limit):
                raise InvalidRequestError(
                    f"limit={shown(limit)} and page_size={shown(page_size)} are two names of one "
                    "argument: give one of them"
                )
            page_size = limit
        for name, value in (("page", page), ("page_size" if limit is None else "limit", page_size)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidRequestError(f"{name}={value!r}: count from 1")
        table = self._records.table
        where = self._where(user_id, session_id, filter=filter)
        rows = await table.select(where, columns=["session_id"])
        # They are in the order of writing, which the sort keeps; a changed row has another number.
        order = rows.sort_by([("session_id", "ascending")])["_rowid"]
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
        """Return a user's memories, or those that match, newest first: `limit` after `offset`.

        With `by_session`, the session that began last comes first: the one whose first existing
        memory, matching or not, was added last. Only returned memories are read whole.
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
        """Delete a user's memories: all, those of a session, or by id; returns their number.

        Includes hidden ones. Unknown `ids` are skipped. Older versions of the store still contain
        them.
        """
        where = self._where(user_id, session_id, hidden=True)
        if ids is not None:
            where = sql.all_of([where, sql.in_list("id", check_names(ids, "ids"))])
        return (await self._records.table.write(WriteBatch(where=where))).n_removed

    async def clear(self) -> int:
        """Delete the memories of all users in the scope, in one commit; returns their number."""
        where = self._records.where(_MEMORIES, include_expired=True, include_retired=True)
        return (await self._records.table.write(WriteBatch(where=where))).n_removed

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
    """Return a memory as a message. Raises InvalidRequestError if it is empty."""
    if not isinstance(memory, str | Message):
        raise InvalidRequestError(f"{where} is a {type(memory).__name__}: pass a text or a Message")
    message = Message.user(memory) if isinstance(memory, str) else memory
    if not message.text.strip() and all(isinstance(part, TextPart) for part in message.parts):
        raise InvalidRequestError(f"{where} is empty: give a text")
    return message


def _by_beginning(rows: pa.Table, sessions: pa.Array) -> pa.Table:
    """Sort rows in the order of these sessions; sessions that began since come last."""
    begun = pc.index_in(rows["session_id"], value_set=sessions)
    return rows.append_column("begun", begun).sort_by([("begun", "ascending")])

"""Conversations: messages by agent and session, in the order of their acknowledgement."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar, Unpack

import pyarrow.compute as pc

from lance_context_core._handle import handle
from lance_context_core._progress import check_progress
from lance_context_core._util import cooperative as steps
from lance_context_core._util.calls import takes
from lance_context_core._util.checks import (
    check_json_object,
    check_name,
    check_span,
    check_time,
    listed,
    loads,
    shown,
)
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import is_text_alone, refuse_duplicates
from lance_context_core.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
)
from lance_context_core.filters import RECORD_FIELDS, FilterLike
from lance_context_core.messages import Message, Part, TextPart, parts_from_json
from lance_context_core.messages.message import stored_message
from lance_context_core.messages.parts import text_part
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.write_batch import Observed, Tail, WriteBatch
from lance_context_core.stores.records import archive, changes, writes
from lance_context_core.stores.records.scoped import Records
from lance_context_core.stores.records.writes import Draft
from lance_context_core.types import ContextRecord, Progress, SearchHit

# The end of a conversation, changed if it is still as it was read.

T = TypeVar("T")

_BUSY = "the end of the session kept being changed by others"


async def remove_last(
    records: Records,
    where: sql.Clause,
    *,
    within: writes.Within,
    expected_id: str | None,
    columns: Sequence[str],
) -> Mapping[str, Any] | None:
    """Delete the last matching row, and return these columns of it; None if absent."""
    records.resources.writable()
    asked = [*dict.fromkeys([*columns, KEY, "id", "revision"])]
    attempts = Attempts(_BUSY)
    while True:
        attempts.begin()
        observed = await records.observed(where, within=within, columns=asked, last=1)
        rows = observed.rows
        id = rows[0]["id"] if rows else None
        if expected_id is not None and id != expected_id:
            raise ConflictError(
                f"expected_id={shown(expected_id)} is not the last message, which is "
                f"{shown(id)}: nothing was written. Read the end of the session and try again"
            )
        if not rows:
            return None
        key = rows[0][KEY]
        tail = Tail(where, [key])
        seen = {key: rows[0]["revision"]}
        batch = WriteBatch(deletes=seen, expect=seen, tail=tail, observed=observed)
        if (await records.table.write(batch)).is_done:
            return rows[0]


async def replace_tail(
    records: Records,
    where: sql.Clause,
    draft: Callable[[int, T], Draft],
    given: Sequence[T],
    *,
    within: writes.Within,
    inside: writes.Within,
    after: str | None,
    expected: Sequence[str] | None,
) -> list[str]:
    """Replace the matching records behind one by new records; see `AsyncHistory`.

    The ids are unique `within` these columns; all matching rows are `inside` these.
    """
    records.resources.writable()
    new = await writes.prepare(records, records.table, draft, given, within)
    if expected is not None:
        refuse_duplicates(("id", id) for id in expected)
    attempts = Attempts(_BUSY)
    while True:
        attempts.begin()
        before, tail, observed = await _end(records, where, inside, after, expected)
        going = {row[KEY]: row["revision"] for row in tail}
        keys = [one.row[KEY] for one in new]
        staying = sql.in_list(KEY, [key for key in keys if key not in going])
        there = await records.table.get(staying, columns=[KEY, "id", "expires_at"])
        now = records.now()
        gone = [row[KEY] for row in there if row["expires_at"] and row["expires_at"] <= now]
        if taken := [row["id"] for row in there if row[KEY] not in gone]:
            raise AlreadyExistsError(
                f"id={taken[0]!r} is taken by a message that stays: nothing was done. Choose another "
                "id, or replace the messages after an earlier one"
            )
        if not going and not new:
            return []
        await writes.complete(records, records.table, new)
        if gone:
            await writes.clear_away(records, gone)
        ends = [before, *tail] if before else tail
        batch = WriteBatch(
            [one.row for one in new],
            deletes=going,
            expect={**dict.fromkeys(keys), **going},
            tail=Tail(where, [row[KEY] for row in ends], is_all=before is None),
            observed=observed,
        )
        if (await records.table.write(batch)).is_done:
            return [one.record.id for one in new]


async def _end(
    records: Records,
    where: sql.Clause,
    within: writes.Within,
    after: str | None,
    expected: Sequence[str] | None,
) -> tuple[Mapping[str, Any] | None, Sequence[Mapping[str, Any]], Observed]:
    """Return the row of that id, and those behind it; all rows without an id."""
    # One more than expected shows whether there are others.
    last = None if expected is None else len(expected) + 1
    asked = [KEY, "id", "revision"]
    observed = await records.observed(where, within=within, columns=asked, last=last)
    rows = observed.rows
    ids = [row["id"] for row in rows]
    if after is None:
        before, tail = None, rows
    elif after in ids:
        place = len(ids) - 1 - ids[::-1].index(after)
        before, tail = rows[place], rows[place + 1 :]
    elif await records.table.count(sql.all_of([where, sql.equals("id", after)])):
        before, tail = None, rows
    else:
        raise NotFoundError(f"after={shown(after)}: the session has no such message")
    ids = [row["id"] for row in tail]
    if expected is not None and ids != [*expected]:
        raise ConflictError(
            f"expected_tail={shown(list(expected))} does not match the messages after {shown(after)}, where "
            f"the last ones are {shown(ids)}: nothing was written. Read the end of the session and try again"
        )
    return before, tail, observed


CHAT_ROLES = ("user", "assistant", "system", "tool", "developer")
"""The roles of records that count as messages of a conversation."""

_MESSAGES = sql.equals("kind", "message")
COLUMNS = ("id", "role", "name", "text", "parts", "native", "created_at", "metadata")


@handle
class AsyncHistory:
    """The history of conversations; satisfies `HistoryProvider`."""

    _records: Records

    async def append(
        self,
        agent_id: str,
        message: Message,
        *,
        session_id: str,
        run_id: str = "",
        keep_existing: bool = False,
        expires_at: datetime | None = None,
    ) -> str:
        """Append a message to a session; returns its id. See `append_many`."""
        draft, within = drafting(self._records, agent_id, session_id, run_id, expires_at=expires_at)
        result = await writes.insert(
            self._records, draft, [message], within=within, keep_existing=keep_existing
        )
        return result.ids[0]

    async def append_many(
        self,
        agent_id: str,
        messages: Sequence[Message],
        *,
        session_id: str,
        run_id: str = "",
        keep_existing: bool = False,
        expires_at: datetime | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> list[str]:
        """Append messages to a session, in one commit; returns their ids, in order.

        A message without an id gets one. A message whose id the session already contains is left
        unchanged, so a call whose outcome is unknown may be repeated. If the stored one has other
        content, `keep_existing` leaves it unchanged too; else AlreadyExistsError is raised before
        anything is written; only if another writer takes the id at the same moment, the rest of the
        call may be written. `agent_id` and `run_id` may be empty. From `expires_at` on no read
        returns the messages; `touch` changes that of a whole session. Raises InvalidRequestError
        for a duplicate id, before anything is written.

        `progress` is called as texts are embedded, up to 1,000 at a time, and once all is written;
        if it raises before that, for example to cancel, the call ends, and nothing is written.
        """
        check_progress(progress)
        draft, within = drafting(self._records, agent_id, session_id, run_id, expires_at=expires_at)
        given = listed(messages, "messages")
        return await writes.insert_said(
            self._records, draft, given, within, keep_existing=keep_existing, progress=progress
        )

    async def replace(
        self,
        agent_id: str,
        messages: Sequence[Message],
        *,
        session_id: str,
        run_id: str = "",
        filter: FilterLike | None = None,
        keep_existing: bool = False,
    ) -> list[str]:
        """Replace a session's messages, or those that match `filter`, in one commit.

        The new messages are appended, in order; the others stay in place, even if one of `messages`
        has the same id: see `append_many` for its content. Messages that others append meanwhile
        are either replaced too, or follow the new ones. Returns the ids of the messages. Raises
        InvalidRequestError, before anything is written, for a duplicate id, and for a filter that
        matches every message, such as {}.
        """
        where = self._where(agent_id, session_id, filter=filter, hidden=True)
        draft, within = drafting(self._records, agent_id, session_id, run_id)
        inside = self._within(agent_id, session_id)
        if not (given := listed(messages, "messages")):
            await archive.delete(self._records, where, within=inside)
            await self._records.cleared(inside)
            return []
        await archive.forget(self._records, where)
        ids = await writes.exchange(
            self._records,
            where,
            draft,
            given,
            within=within,
            inside=inside,
            keep_existing=keep_existing,
        )
        await self._records.cleared(inside)
        return ids

    async def pop(
        self, agent_id: str, *, session_id: str, expected_id: str | None = None
    ) -> Message | None:
        """Delete the last message of a session, and return it; None if it has none.

        Concurrent calls get different messages. With `expected_id`, raises ConflictError and
        changes nothing if the last message has another id, or none exists.
        """
        last = await remove_last(
            self._records,
            self._where(agent_id, session_id),
            within=self._within(agent_id, session_id),
            expected_id=expected_id,
            columns=COLUMNS,
        )
        if last is None:
            return None
        await self._records.cleared(self._within(agent_id, session_id))
        return message_of(last)

    async def replace_tail(
        self,
        agent_id: str,
        messages: Sequence[Message],
        *,
        session_id: str,
        after: str | None,
        expected_tail: Sequence[str] | None = None,
        run_id: str = "",
    ) -> list[str]:
        """Replace all messages `after` one, given by its id, in one commit.

        None replaces all messages. `expected_tail` has the ids of the messages to replace, in
        order; if these differ, ConflictError is raised and nothing is changed, also if others
        append at the same moment. Returns the ids of the new messages, which may reuse ids of
        replaced ones. Raises NotFoundError if the message `after` does not exist, and
        AlreadyExistsError for the id of a message that stays; then nothing is changed.
        """
        draft, within = drafting(self._records, agent_id, session_id, run_id)
        ids = await replace_tail(
            self._records,
            self._where(agent_id, session_id),
            draft,
            listed(messages, "messages"),
            within=within,
            inside=self._within(agent_id, session_id),
            after=after if after is None else check_name(after, "after"),
            expected=None
            if expected_tail is None
            else [check_name(id, "expected_tail") for id in listed(expected_tail, "expected_tail")],
        )
        await self._records.cleared(self._within(agent_id, session_id))
        return ids

    async def rewrite(
        self,
        agent_id: str,
        message: Message,
        *,
        session_id: str,
        expected: Message | None = None,
    ) -> None:
        """Replace the content of a message, by its id, at its place, in one commit.

        Its role, name, parts, metadata and native form become those of `message`; its id, time and
        run stay. With `expected`, the message as it was read, raises ConflictError and changes
        nothing if its content has changed. Raises NotFoundError if it does not exist.
        """
        draft, _ = drafting(self._records, agent_id, session_id, "")
        said = draft(0, message).record
        if message.id is None:
            raise InvalidRequestError("message has no id: give that of the one to be rewritten")
        if expected is not None and not isinstance(expected, Message):
            raise InvalidRequestError(
                f"expected is {shown(expected)}: give a Message that was read"
            )

        def change(record: ContextRecord) -> ContextRecord:
            if expected is not None and _said(record) != _said(expected):
                raise ConflictError(
                    f"message {message.id!r} of session {session_id!r} differs from `expected`: "
                    "nothing was done. Read it again, and decide again"
                )
            return replace(record, embedding=None, **{name: getattr(said, name) for name in _SAID})

        where = sql.all_of([self._where(agent_id, session_id), sql.equals("id", message.id)])
        within = self._within(agent_id, session_id)
        if await changes.patch(self._records, where, change, within=within) is None:
            raise NotFoundError(f"session {session_id!r} has no message {message.id!r}: append it")
        await self._records.cleared(within)

    async def annotate(
        self,
        agent_id: str,
        metadata: Mapping[str, Any],
        *,
        session_id: str,
        filter: FilterLike | None = None,
    ) -> list[str]:
        """Add `metadata` to a session's messages, or those that match, in one commit.

        The messages stay in place, and keep their other metadata. Returns the ids that this call
        has changed, in order: if two calls run at once, and their filter no longer matches a
        changed message, one of them changes it. Raises InvalidRequestError for a filter that
        matches every message, such as {}.
        """
        more = check_json_object(metadata, "metadata")
        changed = await changes.patch_all(
            self._records,
            self._where(agent_id, session_id, filter=filter),
            lambda record: replace(record, metadata={**record.metadata, **more}),
            within=self._within(agent_id, session_id),
        )
        return [record.id for record in changed]

    async def get_messages(
        self,
        agent_id: str,
        *,
        session_id: str,
        limit: int | None = None,
        offset: int = 0,
        last: int | None = None,
        filter: FilterLike | None = None,
    ) -> list[Message]:
        """Return messages in order: the first `limit` after `offset`, or the `last` ones.

        With `last`, `offset` counts from the end, so that a chat can be read backwards page by
        page. With a `filter` only matching messages count. An unknown session has no messages.
        """
        where = self._where(agent_id, session_id)
        check_span(offset=offset, limit=limit, last=last)
        rows = await self._records.page(
            where,
            within=self._within(agent_id, session_id),
            filter=filter,
            columns=COLUMNS,
            offset=offset,
            limit=limit,
            last=last,
        )
        return await steps.each_row(message_of, rows)

    async def count(
        self, agent_id: str, *, session_id: str, filter: FilterLike | None = None
    ) -> int:
        """Return the number of messages of a session, or of matching ones; 0 if unknown."""
        where, within = self._where(agent_id, session_id), self._within(agent_id, session_id)
        return await self._records.count(where, within=within, filter=filter)

    async def session_ids(self, agent_id: str) -> list[str]:
        """Return the sessions of an agent's messages, in the order of their first ones."""
        where = self._records.where(
            _MESSAGES,
            sql.equals("agent_id", self._records.whose("agent_id", agent_id)),
            sql.is_present("session_id"),
        )
        rows = await self._records.table.select(where, columns=["session_id"])
        found: list[str] = pc.unique(rows["session_id"]).to_pylist()
        return found

    async def clear(
        self, agent_id: str, *, session_id: str, filter: FilterLike | None = None
    ) -> int:
        """Delete a session's messages, or those that match; returns their number.

        Older versions still contain them. Raises InvalidRequestError for a filter that matches
        every message, such as {}: omit it to clear the session.
        """
        where = self._where(agent_id, session_id, filter=filter, hidden=True)
        within = self._within(agent_id, session_id)
        n_cleared = await archive.delete(self._records, where, within=within)
        await self._records.cleared(within)
        return n_cleared

    async def clear_run(self, agent_id: str, *, session_id: str, run_id: str) -> int:
        """Delete the messages of one run of a session; returns their number."""
        run = sql.equals("run_id", check_name(run_id, "run_id"))
        where = sql.all_of([self._where(agent_id, session_id, hidden=True), run])
        within = self._within(agent_id, session_id)
        n_cleared = await archive.delete(self._records, where, within=within)
        await self._records.cleared(within)
        return n_cleared

    async def touch(self, agent_id: str, *, session_id: str, expires_at: datetime | None) -> int:
        """Set the expiry of all messages of a session, None for never; returns their number.

        One commit. From then on no read returns any of them. A message appended later has its own
        expiry, so set the same for it and touch the session again. Expired messages stay expired.
        """
        self._records.resources.writable()
        moment = None if expires_at is None else check_time(expires_at, "expires_at")
        where = self._where(agent_id, session_id)
        within = self._within(agent_id, session_id)
        n_touched = await changes.expire_all(self._records, where, moment, within=within)
        await self._records.cleared(within)
        return n_touched

    async def sweep(self) -> int:
        """Delete the expired messages, in one commit; returns their number.

        This only frees space: no read returns them before either.
        """
        self._records.resources.writable()
        gone = sql.at_or_before("expires_at", self._records.now())
        where = self._records.own(_MESSAGES, gone)
        n_swept = (await self._records.table.write(WriteBatch(where=where))).n_removed
        if n_swept:
            await self._records.cleared({})
        return n_swept

    @takes(SearchArguments, searching.DEFAULTS)
    async def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        **arguments: Unpack[SearchArguments],
    ) -> list[SearchHit[ContextRecord]]:
        """Return the messages that match `query`, best first: of all sessions, or of one.

        See `AsyncContextStore.search`.
        """
        within: dict[str, str | None] = {}
        if session_id is not None:
            within["session_id"] = check_name(session_id, "session_id")
        if agent_id is not None:
            within["agent_id"] = self._records.whose("agent_id", agent_id)
        return await self._records.search(query, _MESSAGES, within=within, **arguments)

    def _within(self, agent_id: str, session_id: str) -> dict[str, str | None]:
        return {
            "session_id": session_id,
            "agent_id": self._records.whose("agent_id", agent_id),
        }

    def _where(
        self,
        agent_id: str,
        session_id: str,
        *,
        filter: FilterLike | None = None,
        hidden: bool = False,
    ) -> sql.Clause:
        """Return the condition of messages that a call changes or deletes, with its `filter`."""
        matching = sql.restricting(
            filter,
            columns=RECORD_FIELDS,
            instead="leave filter out to mean all messages of the session",
        )
        return self._records.where(
            _MESSAGES,
            matching,
            sql.equals("session_id", check_name(session_id, "session_id")),
            sql.equals("agent_id", self._records.whose("agent_id", agent_id)),
            include_expired=hidden,
            include_retired=hidden,
        )


_SAID = ("role", "name", "text", "parts", "native", "metadata")
"""The columns of a record with the content of its message."""


def drafting(
    records: Records,
    agent_id: str,
    session_id: str,
    run_id: str,
    *,
    expires_at: datetime | None = None,
    of_each: Sequence[Mapping[str, Any]] = (),
) -> tuple[Callable[[int, Message], Draft], dict[str, str | None]]:
    """Return the function that makes drafts of messages, and the scope of their ids.

    `of_each` has the id of each message and its owed job, if the caller sets them.
    """
    scope, clock = records.scope, records.resources.clock
    session_id = check_name(session_id, "session_id")
    agent = records.whose("agent_id", agent_id)
    own: dict[str, Any] = {
        "kind": "message",
        "tenant": scope.tenant,
        "user_id": scope.user_id,
        "agent_id": agent,
        "session_id": session_id,
        "run_id": check_name(run_id, "run_id") if run_id else None,
        "expires_at": None if expires_at is None else check_time(expires_at, "expires_at"),
    }

    def draft(index: int, message: Message) -> Draft:
        if not isinstance(message, Message):
            raise InvalidRequestError(
                f"messages[{index}] is a {type(message).__name__}: pass Message.user('…') or alike"
            )
        return Draft.said(message, now=clock.now(), **own, **(of_each[index] if of_each else {}))

    return draft, writes.message_scope(agent, session_id)


def _said(one: ContextRecord | Message) -> tuple[object, ...]:
    parts = one.parts or ((TextPart(text=one.text),) if one.text else ())
    return one.role, one.name, tuple(parts)


def message_of(row: Mapping[str, Any]) -> Message:
    """Return the message of a row; a record without parts has a text."""
    text, parts, metadata = row["text"], row["parts"], row["metadata"]
    made: tuple[Part, ...] = ()
    if parts and not (text and is_text_alone(text, parts)):
        made = parts_from_json(parts)
    return stored_message(
        role=row["role"],
        parts=made or (() if text is None else (text_part(text, "TextPart.text"),)),
        id=row["id"],
        name=row["name"],
        created_at=row["created_at"].replace(tzinfo=UTC),
        metadata=loads(metadata, "metadata") if metadata and metadata != "{}" else {},
        native=loads(row["native"], "native") if row["native"] else None,
    )

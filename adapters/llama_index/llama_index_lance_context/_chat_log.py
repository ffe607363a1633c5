"""Conversations of an agent in the store's history, for LlamaIndex's chat stores.

Each key is a session, and each message one of its messages. The archived status is in the metadata,
so that other frameworks still read the whole conversation.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base_db import MessageStatus

from lance_context_core import AsyncHistory, Field, Filter, InvalidRequestError, Message
from llama_index_lance_context._messages import from_canonical, to_canonical

STATUS = "llama_index_status"
"""The metadata key of archived messages; a message without it is active."""

_IS_ARCHIVED = Field("metadata", STATUS).eq(MessageStatus.ARCHIVED.value)
_STATUSES = {MessageStatus.ACTIVE: ~_IS_ARCHIVED, MessageStatus.ARCHIVED: _IS_ARCHIVED, None: None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A stored message with its LlamaIndex messages."""

    id: str
    messages: tuple[ChatMessage, ...]
    """At least one; several only if another framework wrote several tool results in one."""


@dataclass(frozen=True, slots=True)
class ChatLog:
    """The sessions of one agent, over a blocking or asynchronous store.

    Blocking calls never await.
    """

    _history: AsyncHistory
    _agent_id: str

    async def keys(self) -> list[str]:
        """The sessions with messages, in the order of their beginning."""
        return await self._history.session_ids(self._agent_id)

    async def entries(
        self,
        key: str,
        status: MessageStatus | None,
        *,
        n_messages: int | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """The entries of a session, in order; enough for the first `n_messages`, or the `last`."""
        found = await self._history.get_messages(
            self._agent_id, session_id=key, limit=n_messages, last=last, filter=_STATUSES[status]
        )
        return _entries(found)

    async def messages(
        self,
        key: str,
        status: MessageStatus | None,
        *,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """The messages of a session, in order; both statuses if `status` is None."""
        start = _checked(offset or 0, "offset")
        n_messages = None if limit is None else start + _checked(limit, "limit")
        found = await self.entries(key, status, n_messages=n_messages)
        return _flat(found)[start:n_messages]

    async def add(self, key: str, messages: Iterable[ChatMessage], status: MessageStatus) -> None:
        """Adds messages at the end, atomically, in one commit."""
        written = [_marked(one, status) for one in messages]
        await self._history.append_many(self._agent_id, written, session_id=key)

    async def replace(
        self,
        key: str,
        messages: Iterable[ChatMessage],
        status: MessageStatus,
        *,
        replaced: MessageStatus | None,
    ) -> None:
        """Replaces the messages of the status `replaced`, or all, in one commit."""
        written = [_marked(one, status) for one in messages]
        await self._history.replace(
            self._agent_id, written, session_id=key, filter=_STATUSES[replaced]
        )

    async def remove_at(
        self, key: str, position: int, status: MessageStatus | None
    ) -> ChatMessage | None:
        """Removes the message at a position, negative from the end, and returns it."""
        # Reads up to that position from the nearer end: a message is one position or several.
        near = {"n_messages": position + 1} if position >= 0 else {"last": -position}
        while True:
            found = await self.entries(key, status, **near)
            places = [(entry, one) for entry in found for one in entry.messages]
            if not -len(places) <= position < len(places):
                return None
            entry, message = places[position]
            if await self._remove([entry.id], key, status):
                return message

    async def remove_last(self, key: str) -> ChatMessage | None:
        """Removes the last message of a session, and returns it; reads no other one."""
        last = await self._history.pop(self._agent_id, session_id=key)
        return None if last is None else _flat(_entries([last]))[-1]

    async def remove_all(self, key: str, status: MessageStatus | None) -> None:
        """Removes a session's messages, in one commit."""
        await self._history.clear(self._agent_id, session_id=key, filter=_STATUSES[status])

    async def take_all(self, key: str) -> list[ChatMessage]:
        """Removes a session's messages, in one commit, and returns them."""
        found = await self.entries(key, None)
        if found:
            await self._remove([entry.id for entry in found], key, None)
        return _flat(found)

    async def take_oldest(self, key: str, n: int, *, seen: Sequence[str] = ()) -> list[ChatMessage]:
        """Removes the first `n` active messages, and returns them in order.

        See `archive_oldest`.
        """
        known = seen[: _checked(n, "n")]
        taken = await self._take(key, await self._active(key, known))
        return taken + await self._further(key, n - len(known), self._take)

    async def archive_oldest(
        self, key: str, n: int, *, seen: Sequence[str] = ()
    ) -> list[ChatMessage]:
        """Archives the first `n` active messages, and returns them in order.

        They are counted from the ids that the caller has `seen`, oldest first: messages that others
        archived since are among the `n`, and no later one replaces them.
        """
        known = seen[: _checked(n, "n")]
        archived = await self.archive(key, await self._active(key, known))
        return archived + await self._further(key, n - len(known), self.archive)

    async def _further(
        self,
        key: str,
        n: int,
        let_go: Callable[[str, Sequence[Entry]], Awaitable[list[ChatMessage]]],
    ) -> list[ChatMessage]:
        """Passes the next `n` active messages to `let_go`, except those that another task took."""
        gone: list[ChatMessage] = []
        while (n_left := n - len(gone)) > 0:
            oldest = await self._oldest(key, n_left)
            gone += await let_go(key, oldest)
            if len(_flat(oldest)) < n_left:
                break  # there were no more
        return gone

    async def archive(self, key: str, entries: Sequence[Entry]) -> list[ChatMessage]:
        """Archives these in one commit; returns the messages that were active before."""
        if not entries:
            return []
        changed = await self._history.annotate(
            self._agent_id,
            {STATUS: MessageStatus.ARCHIVED.value},
            session_id=key,
            filter=_with_ids([entry.id for entry in entries]) & ~_IS_ARCHIVED,
        )
        return _flat([entry for entry in entries if entry.id in set(changed)])

    async def _take(self, key: str, entries: Sequence[Entry]) -> list[ChatMessage]:
        """Removes active ones in one commit; returns the messages that were not removed before."""
        if not entries:
            return []
        ids = [entry.id for entry in entries]
        n_removed = await self._remove(ids, key, MessageStatus.ACTIVE)
        # Another writer removed the missing ones, from the beginning too.
        return _flat(entries[len(entries) - n_removed :])

    async def _active(self, key: str, ids: Sequence[str]) -> list[Entry]:
        """The active ones of these, in order."""
        if not ids:
            return []
        found = await self._history.get_messages(
            self._agent_id, session_id=key, filter=_with_ids(ids) & ~_IS_ARCHIVED
        )
        return _entries(found)

    async def _oldest(self, key: str, n: int) -> list[Entry]:
        """The first active entries that contain `n` messages."""
        oldest: list[Entry] = []
        for entry in await self.entries(key, MessageStatus.ACTIVE, n_messages=n):
            if len(_flat(oldest)) >= n:
                break
            oldest.append(entry)
        return oldest

    async def _remove(self, ids: Sequence[str], key: str, status: MessageStatus | None) -> int:
        filter: Filter = _with_ids(ids)
        if (is_status := _STATUSES[status]) is not None:
            filter &= is_status
        return await self._history.clear(self._agent_id, session_id=key, filter=filter)


def _with_ids(ids: Sequence[str]) -> Filter:
    return Field("id").is_in(list(dict.fromkeys(ids)))


def _marked(message: ChatMessage, status: MessageStatus) -> Message:
    is_archived = MessageStatus(status) is MessageStatus.ARCHIVED
    metadata = {STATUS: MessageStatus.ARCHIVED.value} if is_archived else {}
    return to_canonical(message, metadata=metadata)


def _entries(found: Iterable[Message]) -> list[Entry]:
    return [Entry(id=one.id or "", messages=tuple(from_canonical(one))) for one in found]


def _flat(entries: Iterable[Entry]) -> list[ChatMessage]:
    return [message for entry in entries for message in entry.messages]


def _checked(number: Any, what: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InvalidRequestError(f"{what}={number!r}: give a whole number, 0 or more")
    return number

"""A conversation of the store as the memory of an agent."""

import asyncio
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context._places import SUMMARIES
from agentscope_lance_context.agentscope1._framework import MemoryBase, Msg
from agentscope_lance_context.agentscope1._messages import (
    SUMMARY,
    from_canonicals,
    messages_of,
    to_canonicals,
)
from lance_context_core import AsyncContextStore, Field, Filter, Item, Message
from lance_context_core.adapting import StoreLike
from lance_context_core.arguments import ItemKey

_DEFAULT_SESSION = "default"
_MARK = "agentscope_mark:"
"""The prefix of metadata keys that hold the marks of a message."""
_ORIGINAL = "agentscope_id"
"""The key in the metadata of a message for its own id, if the message is duplicated."""


class LanceContextMemory(StoreOwner, MemoryBase):
    """The messages of one session of a user, with their marks, and the summary of older ones.

    Added messages are visible to every process at once, and after a restart, whether or not the
    agent's state is saved. Messages read back equal.
    """

    _handle: UserHandle

    def __init__(
        self,
        store: StoreLike,
        session_id: str | None = None,
        *,
        user_id: str | None = None,
        agent_id: str = "",
        embedder: Any = None,
        name: str = SUMMARIES.name,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `session_id`: default: the session `default`.
        - `agent_id`: the owner, if several agents have a memory of the same session.
        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        - `name`: of the summaries, which are `store.kv(name)`.
        """
        super().__init__()
        self._handle = UserHandle(store, embedder=embedder)
        self._user_id = user_id
        self._session_id = session_id or _DEFAULT_SESSION
        self._agent_id = agent_id
        self._name = name

    async def add(
        self,
        memories: Msg | list[Msg] | None,
        marks: str | list[str] | None = None,
        *,
        allow_duplicates: bool = False,
        skip_duplicated: bool = True,
        **_: Any,
    ) -> None:
        """Adds messages with these marks at the end, atomically; None is not a message.

        A message with an existing id is unchanged and keeps its marks, unless duplicates are
        allowed, by either of AgentScope's arguments; a duplicate does not prevent other messages
        from being added. Raises TypeError for an invalid message or mark, InvalidRequestError for a
        value that cannot be stored.
        """
        metadata = {_key(mark): True for mark in _texts(marks, "marks")}
        messages = await to_canonicals(messages_of(memories, "memories"))
        marked = [replace(message, metadata=metadata) for message in messages]
        if allow_duplicates or not skip_duplicated:
            new = await self._named_apart(marked)
        else:
            new = _distinct(marked)
        await self._store.history.append_many(
            self._agent_id, new, session_id=self._session_id, keep_existing=True
        )

    async def get_memory(
        self,
        mark: str | None = None,
        exclude_mark: str | None = None,
        prepend_summary: bool = True,  # noqa: FBT001, FBT002 - as AgentScope has it
        **_: Any,
    ) -> list[Msg]:
        """The messages with one mark and without the other, in order; after the summary.

        The summary is a user's message, if it exists and is requested.
        """
        conditions = [Field("metadata", _key(one)).eq(True) for one in _text(mark, "mark")]
        conditions += [
            Field("metadata", _key(one)).ne(True) for one in _text(exclude_mark, "exclude_mark")
        ]
        history = self._store.history.get_messages(
            self._agent_id, session_id=self._session_id, filter=_all(conditions)
        )
        if not prepend_summary:
            return await from_canonicals(await history)
        stored, summary = await asyncio.gather(history, self._summary())
        messages = await from_canonicals(stored)
        told = [Msg("user", summary, "user", metadata=dict(SUMMARY))] if summary else []
        return [*told, *messages]

    async def update_compressed_summary(self, summary: str) -> None:
        """Replaces the summary; an empty one removes it."""
        if not isinstance(summary, str):
            raise TypeError(f"summary={summary!r:.80}: give a text")
        namespace, key = self._summary_key
        item = Item(namespace=namespace, key=key, value={"summary": summary})
        await self._store.kv(self._name).put([item])
        self._compressed_summary = summary

    async def update_messages_mark(
        self, new_mark: str | None, old_mark: str | None = None, msg_ids: list[str] | None = None
    ) -> int:
        """Changes marks of all messages, or of those with these ids and the old mark.

        Returns their number.

        With both marks the new one replaces the old one. Without a new one the old one is removed,
        or all marks are.
        """
        new, old = _text(new_mark, "new_mark"), _text(old_mark, "old_mark")
        given = None if msg_ids is None else _of_ids(_texts(msg_ids, "msg_ids"))
        marked = [Field("metadata", _key(one)).eq(True) for one in old]
        change = dict.fromkeys(map(_key, old)) | {_key(one): True for one in new}
        if new and not old:
            marked = [Field("metadata", _key(one)).ne(True) for one in new]
        elif not new and not old:
            change = dict.fromkeys(await self._marks(given))
            marked = [_any(Field("metadata", key).eq(True) for key in change)]
        conditions = marked if given is None else [given, *marked]
        if not change:
            return 0
        changed = await self._store.history.annotate(
            self._agent_id, change, session_id=self._session_id, filter=_all(conditions)
        )
        return len(changed)

    async def delete(self, msg_ids: list[str], **_: Any) -> int:
        """Removes the messages with these ids; returns their number."""
        return await self._clear(_of_ids(_texts(msg_ids, "msg_ids")))

    async def delete_by_mark(self, mark: str | list[str], *_: Any, **__: Any) -> int:
        """Removes the messages with one of these marks; returns their number."""
        marks = _texts(mark, "mark")
        return await self._clear(_any(Field("metadata", _key(one)).eq(True) for one in marks))

    async def size(self) -> int:
        """Number of messages, without the summary."""
        return await self._store.history.count(self._agent_id, session_id=self._session_id)

    async def clear(self) -> None:
        """Removes all messages and the summary."""
        await self._clear(None)
        if await self._summary():
            await self.update_compressed_summary("")

    # Helpers

    @property
    def _store(self) -> AsyncContextStore:
        return self._handle.of(self._user_id)

    @property
    def _summary_key(self) -> ItemKey:
        return SUMMARIES.key(self._agent_id, self._session_id)

    async def _clear(self, filter: Filter | None) -> int:
        return await self._store.history.clear(
            self._agent_id, session_id=self._session_id, filter=filter
        )

    async def _summary(self) -> str:
        """The stored summary, or else that of a loaded state."""
        (item,) = await self._store.kv(self._name).get([self._summary_key])
        if item is not None and item.value is not None:
            self._compressed_summary = item.value["summary"]
        return self._compressed_summary

    async def _named_apart(self, messages: Sequence[Message]) -> list[Message]:
        """The messages; those with a taken id get another one, and their own is stored."""
        taken = {message.id for message in await self._found(_of_ids(_ids(messages)))}
        named = []
        for message in messages:
            if message.id in taken:
                metadata = {**message.metadata, _ORIGINAL: message.id}
                named.append(replace(message, id=uuid.uuid4().hex, metadata=metadata))
            else:
                named.append(message)
            taken.add(message.id)
        return named

    async def _found(self, filter: Filter | None) -> list[Message]:
        return await self._store.history.get_messages(
            self._agent_id, session_id=self._session_id, filter=filter
        )

    async def _marks(self, filter: Filter | None) -> list[str]:
        """The keys of all marks of messages."""
        found = await self._found(filter)
        return sorted({key for one in found for key in one.metadata if key.startswith(_MARK)})


def _key(mark: str) -> str:
    # Not formatted: AgentScope's own marks are enum members.
    return _MARK + mark


def _text(given: str | None, where: str) -> list[str]:
    """One text, or none. Raises TypeError, as AgentScope does, for anything else."""
    if given is not None and not isinstance(given, str):
        raise TypeError(f"{where}={given!r:.80}: give a text")
    return [] if given is None else [given]


def _texts(given: str | Iterable[str] | None, where: str) -> list[str]:
    """One text, several, or none. Raises TypeError for anything else."""
    texts = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        raise TypeError(f"{where}={given!r:.80}: give a text, or a list of them")
    return list(texts)


def _distinct(messages: Iterable[Message]) -> list[Message]:
    """The messages; of those with the same id the first."""
    found: dict[str | None, Message] = {}
    for message in messages:
        found.setdefault(message.id, message)
    return [*found.values()]


def _ids(messages: Iterable[Message]) -> list[str]:
    return [message.id for message in messages if message.id is not None]


def _of_ids(ids: Sequence[str]) -> Filter:
    return Field("id").is_in(ids) | Field("metadata", _ORIGINAL).is_in(ids)


def _all(conditions: Sequence[Filter]) -> Filter | None:
    """All of the conditions; None without any."""
    found: Filter | None = None
    for one in conditions:
        found = one if found is None else found & one
    return found


def _any(conditions: Iterable[Filter]) -> Filter:
    """One of the conditions; without any, nothing matches."""
    found: Filter = Field("id").is_in([])
    for one in conditions:
        found |= one
    return found

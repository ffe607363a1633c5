"""A conversation of the store as LangChain's chat message history."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage

from lance_context_core import InvalidRequestError
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, listed
from langchain_lance_context._messages import from_canonical, to_canonical

A = TypeVar("A")
B = TypeVar("B")

_AT_ONCE = 50
"""Number of messages that are converted before the event loop runs other work."""


class LanceContextChatMessageHistory(HandleOwner, BaseChatMessageHistory):
    """The messages of one session, in the order in which they were acknowledged.

    They read back equal, except chunks, which are stored as complete messages. The store and other
    frameworks read them as canonical messages.

    A message with an id that the session contains is skipped, so that retries are safe; a different
    message with that id raises AlreadyExistsError. A message without an id is always added. The
    asynchronous methods await the store, and block no event loop.
    """

    def __init__(
        self,
        store: StoreLike,
        session_id: str,
        *,
        agent_id: str = "",
        run_id: str = "",
        limit: int | None = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `session_id`, `agent_id`: the conversation; without an agent it belongs to none.
        - `run_id`: stored with each added message.
        - `limit`: how many of the last messages are read; absent means all. The others stay stored.
        """
        if limit is not None and (isinstance(limit, bool) or limit < 0):
            raise InvalidRequestError(f"limit={limit!r}: give a number of messages, 0 or more")
        self._handle = Handle(store)
        self._session_id = session_id
        self._agent_id = agent_id
        self._run_id = run_id
        self._limit = limit

    @property
    def session_id(self) -> str:
        """The conversation's id."""
        return self._session_id

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # the base has an attribute
        """The messages in order, or the last `limit` of them; a new list each time."""
        history = self._handle.sync.history
        found = history.get_messages(self._agent_id, session_id=self._session_id, last=self._limit)
        return [message for one in found for message in from_canonical(one)]

    async def aget_messages(self) -> list[BaseMessage]:
        """As `messages`."""
        history = self._handle.aio.history
        found = await history.get_messages(
            self._agent_id, session_id=self._session_id, last=self._limit
        )
        read = await _each(from_canonical, found)
        return [message for some in read for message in some]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Adds messages at the end, atomically, in one commit.

        Raises InvalidRequestError, before anything is written, for a message that cannot be stored.
        """
        self._handle.sync.history.append_many(
            self._agent_id,
            [to_canonical(one) for one in listed(messages, "messages")],
            session_id=self._session_id,
            run_id=self._run_id,
        )

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """As `add_messages`."""
        await self._handle.aio.history.append_many(
            self._agent_id,
            await _each(to_canonical, listed(messages, "messages")),
            session_id=self._session_id,
            run_id=self._run_id,
        )

    def clear(self) -> None:
        """Deletes the session's messages."""
        self._handle.sync.history.clear(self._agent_id, session_id=self._session_id)

    async def aclear(self) -> None:
        """As `clear`."""
        await self._handle.aio.history.clear(self._agent_id, session_id=self._session_id)


async def _each(convert: Callable[[A], B], values: Sequence[A]) -> list[B]:
    """The converted values, in order."""
    made: list[B] = []
    for start in range(0, len(values), _AT_ONCE):
        if start:
            await asyncio.sleep(0)
        made += [convert(one) for one in values[start : start + _AT_ONCE]]
    return made

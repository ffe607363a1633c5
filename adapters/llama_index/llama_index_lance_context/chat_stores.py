"""The store's history as LlamaIndex's chat stores: conversations by key, in order of writing."""

from functools import partial
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr, field_serializer
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from lance_context_core.adapting import Handle, HandleOwner, StoreLike, block_on, uri_of
from llama_index_lance_context._chat_log import ChatLog
from llama_index_lance_context._looks import Looks

ACTIVE = MessageStatus.ACTIVE


class LanceContextAsyncChatStore(HandleOwner, AsyncDBChatStore):
    """The chat store of `Memory`: `Memory.from_defaults(chat_store=…)`.

    A key is a session of the store's history, and messages read back equal. Other frameworks read
    the same conversation, archived messages too; their messages are translated. A foreign message
    with several tool results reads as several here, which are archived and removed together.

    Every call is one read, one commit, or one of each; if another process changes the same messages
    meanwhile, the call repeats for the rest. It may be used from several event loops at once.
    Invalid arguments raise InvalidRequestError, a ValueError, before anything is written. With a
    store given by its URI it can be pickled and serialized.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    store: Any = Field(description="An open store, or the URI of one.")
    agent_id: str = ""
    """The owner of the conversations; without an agent they belong to none."""

    _handle: Handle = PrivateAttr()
    _log: ChatLog = PrivateAttr()
    _looks: Looks = PrivateAttr(default_factory=Looks)

    def __init__(self, store: StoreLike, *, agent_id: str = "", **kwargs: Any) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again."""
        super().__init__(**{"store": store, "agent_id": agent_id, **kwargs})
        self._handle = Handle(store)
        self._log = ChatLog(self._handle.aio.history, agent_id)

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialization."""
        return "LanceContextAsyncChatStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """The messages of that status, or of both in the order of the conversation."""
        if status != ACTIVE or limit is not None or offset:
            return await self._log.messages(key, status, limit=limit, offset=offset)
        entries = await self._log.entries(key, ACTIVE)
        self._looks.note(key, [entry.id for entry in entries for _ in entry.messages])
        return [message for entry in entries for message in entry.messages]

    async def count_messages(self, key: str, status: MessageStatus | None = ACTIVE) -> int:
        """Number of messages of `get_messages`; reads them."""
        return len(await self._log.messages(key, status))

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = ACTIVE
    ) -> None:
        """Adds a message at the end."""
        await self._log.add(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = ACTIVE
    ) -> None:
        """Adds messages at the end, atomically, in one commit."""
        await self._log.add(key, messages, status)

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = ACTIVE
    ) -> None:
        """Replaces the messages of that status, in one commit; the others stay."""
        self._looks.forget()
        await self._log.replace(key, messages, status, replaced=status)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Removes the active message at a position, and returns it; None if it does not exist.

        A negative position counts from the end.
        """
        self._looks.forget()
        return await self._log.remove_at(key, idx, ACTIVE)

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Removes the messages of that status, or all of the session, in one commit."""
        self._looks.forget()
        await self._log.remove_all(key, status)

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Removes the first `n` active messages, or all if there are fewer; returns them in order.

        Counts like `archive_oldest_messages`, from those that this task has read.
        """
        taken = await self._log.take_oldest(key, n, seen=self._looks.seen(key))
        self._looks.drop(key, n)
        return taken

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archives the first `n` active messages, or all if there are fewer; returns them in order.

        Concurrent calls of any processes archive different messages. A task that has read the
        active messages means the first of those: messages that others archived or removed since
        count toward `n`, and unseen ones stay. So two tasks that read the same messages archive
        them once.
        """
        archived = await self._log.archive_oldest(key, n, seen=self._looks.seen(key))
        self._looks.drop(key, n)
        return archived

    async def get_keys(self) -> list[str]:
        """The sessions with messages of the agent, in the order of their beginning."""
        return await self._log.keys()

    @field_serializer("store")
    def _store_by_its_uri(self, store: StoreLike) -> str:
        return uri_of(store)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), agent_id=self.agent_id), (uri_of(self.store),)


class LanceContextChatStore(HandleOwner, BaseChatStore):
    """The chat store of `ChatMemoryBuffer` and the chat engines.

    It shares conversations with `LanceContextAsyncChatStore`. This interface has no status: it
    returns and removes archived messages like all others. Otherwise the same guarantees hold. The
    asynchronous methods await the store, and block no event loop.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    store: Any = Field(description="An open store, or the URI of one.")
    agent_id: str = ""
    """The owner of the conversations; without an agent they belong to none."""

    _handle: Handle = PrivateAttr()
    _log: ChatLog = PrivateAttr()

    def __init__(self, store: StoreLike, *, agent_id: str = "", **kwargs: Any) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again."""
        super().__init__(**{"store": store, "agent_id": agent_id, **kwargs})
        self._handle = Handle(store)
        self._log = ChatLog(self._handle.aio.history, agent_id)

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialization."""
        return "LanceContextChatStore"

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Replaces all messages of the session, in one commit."""
        block_on(self._log.replace(key, messages, ACTIVE, replaced=None))

    async def aset_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """As `set_messages`."""
        await self._log.replace(key, messages, ACTIVE, replaced=None)

    def get_messages(self, key: str) -> list[ChatMessage]:
        """The messages of a session, in order; empty for an unknown one."""
        return block_on(self._log.messages(key, None))

    async def aget_messages(self, key: str) -> list[ChatMessage]:
        """As `get_messages`."""
        return await self._log.messages(key, None)

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Adds a message at the end."""
        block_on(self._log.add(key, [message], ACTIVE))

    async def async_add_message(self, key: str, message: ChatMessage) -> None:
        """As `add_message`."""
        await self._log.add(key, [message], ACTIVE)

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Removes a session's messages, and returns them; None if it has none."""
        return block_on(self._log.take_all(key)) or None

    async def adelete_messages(self, key: str) -> list[ChatMessage] | None:
        """As `delete_messages`."""
        return await self._log.take_all(key) or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Removes the message at a position, and returns it; None if it does not exist.

        A negative position counts from the end.
        """
        return block_on(self._log.remove_at(key, idx, None))

    async def adelete_message(self, key: str, idx: int) -> ChatMessage | None:
        """As `delete_message`."""
        return await self._log.remove_at(key, idx, None)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Removes the last message, and returns it; None if it does not exist."""
        return block_on(self._log.remove_last(key))

    async def adelete_last_message(self, key: str) -> ChatMessage | None:
        """As `delete_last_message`."""
        return await self._log.remove_last(key)

    def get_keys(self) -> list[str]:
        """The sessions with messages of the agent, in the order of their beginning."""
        return block_on(self._log.keys())

    async def aget_keys(self) -> list[str]:
        """As `get_keys`."""
        return await self._log.keys()

    @field_serializer("store")
    def _store_by_its_uri(self, store: StoreLike) -> str:
        return uri_of(store)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), agent_id=self.agent_id), (uri_of(self.store),)

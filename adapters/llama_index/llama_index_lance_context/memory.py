"""LlamaIndex's `Memory` over the store: a conversation that survives its process."""

from collections.abc import Callable
from typing import Any, Self

from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.llms.types import ChatMessage, ContentBlock
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
from llama_index.core.memory.memory import (
    DEFAULT_FLUSH_SIZE,
    DEFAULT_MEMORY_BLOCKS_TEMPLATE,
    DEFAULT_TOKEN_LIMIT,
    BaseMemoryBlock,
    InsertMethod,
    Memory,
    generate_chat_store_key,
)
from llama_index.core.prompts import RichPromptTemplate
from llama_index.core.storage.chat_store.base_db import MessageStatus

from lance_context_core import InvalidRequestError
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, one_at_a_time, uri_of
from llama_index_lance_context._chat_log import ChatLog
from llama_index_lance_context._overflow import overflow
from llama_index_lance_context._tokens import count_tokens
from llama_index_lance_context.chat_stores import LanceContextAsyncChatStore

_PLAIN = (
    *("session_id", "agent_id", "token_limit", "token_flush_size", "chat_history_token_ratio"),
    *("image_token_size_estimate", "audio_token_size_estimate", "video_token_size_estimate"),
    "document_token_size_estimate",
)
"""The fields that are JSON already."""


class LanceContextMemory(HandleOwner, Memory):
    """A session of the store, as the memory of an agent: `agent.run(…, memory=memory)`.

    It differs from LlamaIndex's own:

    - Each message is stored when `put` returns, and a new process with the same `store` and
      `session_id` continues the session.
    - Concurrent changes of one session are serialized: messages never leave the conversation twice,
      or in place of others.
    - `token_limit` counts all that a model receives: also tool calls, reasoning and citations,
      which LlamaIndex does not count.
    - Instructions (system and developer messages) never leave the conversation.
    - Messages leave only after all memory blocks stored them. If a block fails, or the process is
      killed, they are offered again; a block may receive the same ones twice.
    - `to_dict` and `from_dict` restore it, and so does a workflow's `Context`, if the store is
      given by its URI. The tokenizer is not serialized: pass another one than LlamaIndex's default
      to `from_dict` as `tokenizer_fn`.

    A memory block must not write to the memory that it is a block of.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    store: Any = Field(description="An open store, or the URI of one.")
    agent_id: str = ""
    """The owner of the conversation; without an agent it belongs to none."""

    _handle: Handle = PrivateAttr()
    _log: ChatLog = PrivateAttr()

    def __init__(
        self,
        store: StoreLike,
        *,
        session_id: str | None = None,
        agent_id: str = "",
        token_limit: int = DEFAULT_TOKEN_LIMIT,
        **fields: Any,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        The other fields are those of `Memory`; an absent `session_id` is generated.
        """
        if "sql_store" in fields:
            raise InvalidRequestError("sql_store: the memory makes it from `store`, give that")
        handle = Handle(store)
        own = {
            "store": store,
            "session_id": session_id or generate_chat_store_key(),
            "agent_id": agent_id,
            "token_limit": token_limit,
            "sql_store": LanceContextAsyncChatStore(handle.aio, agent_id=agent_id),
        }
        super().__init__(**{**fields, **own})
        self._handle = handle
        self._log = ChatLog(handle.aio.history, agent_id)

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialization."""
        return "LanceContextMemory"

    @classmethod
    def from_defaults(  # type: ignore[override]  # where the base takes the places of databases
        cls,
        store: StoreLike,
        *,
        session_id: str | None = None,
        agent_id: str = "",
        chat_history: list[ChatMessage] | None = None,
        token_limit: int = DEFAULT_TOKEN_LIMIT,
        token_flush_size: int = DEFAULT_FLUSH_SIZE,
        memory_blocks: list[BaseMemoryBlock[Any]] | None = None,
        tokenizer_fn: Callable[[str], list[Any]] | None = None,
        **fields: Any,
    ) -> Self:
        """A memory of the session with `chat_history` as its conversation so far, if given."""
        memory = cls(
            store,
            session_id=session_id,
            agent_id=agent_id,
            token_limit=token_limit,
            token_flush_size=token_flush_size,
            memory_blocks=memory_blocks or [],
            tokenizer_fn=tokenizer_fn,
            **fields,
        )
        if chat_history is not None:
            asyncio_run(memory.aset(chat_history))
        return memory

    # Writing; the blocking methods of the base class run these

    async def aput(self, message: ChatMessage) -> None:
        """Adds a message at the end, and archives old ones if the conversation is too long."""
        await self.aput_messages([message])

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Adds messages at the end, atomically, in one commit; then like `aput`."""
        async with self._alone():
            await self._log.add(self.session_id, messages, MessageStatus.ACTIVE)
            await self._manage_queue()

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replaces the conversation so far, in one commit.

        Messages that left it before stay archived.
        """
        async with self._alone():
            await super().aset(messages)

    async def areset(self, status: MessageStatus | None = None) -> None:
        """Deletes the messages of that status, or all, in one commit."""
        async with self._alone():
            await super().areset(status)

    async def _manage_queue(self) -> None:
        """Passes excess messages to the memory blocks, then archives them."""
        entries = await self._log.entries(self.session_id, MessageStatus.ACTIVE)
        chosen = overflow(
            [entry.messages[0].role for entry in entries],
            [sum(map(self._estimate_token_count, entry.messages)) for entry in entries],
            limit=self.token_limit * self.chat_history_token_ratio,
            flush_size=self.token_flush_size,
        )
        if not chosen:
            return
        leaving = [entries[index] for index in chosen]
        for block in self.memory_blocks:
            # Copies: each block may change its own.
            messages = [one.model_copy(deep=True) for entry in leaving for one in entry.messages]
            await block.aput(messages, from_short_term_memory=True, session_id=self.session_id)
        await self._log.archive(self.session_id, leaving)

    def _estimate_token_count(
        self, message_or_blocks: str | ChatMessage | list[ChatMessage] | list[ContentBlock]
    ) -> int:
        """The tokens that a model receives, tool calls and reasoning included.

        See `count_tokens`.
        """
        if isinstance(message_or_blocks, str):
            return len(self.tokenizer_fn(message_or_blocks))
        one_or_more = message_or_blocks
        return count_tokens(
            [one_or_more] if isinstance(one_or_more, ChatMessage) else one_or_more,
            tokenizer=self.tokenizer_fn,
            media={
                "image": self.image_token_size_estimate,
                "audio": self.audio_token_size_estimate,
                "video": self.video_token_size_estimate,
                "document": self.document_token_size_estimate,
            },
        )

    def _alone(self) -> Any:
        """The lock of the session, shared by all memories over it in this process."""
        return one_at_a_time("memory", self._handle.aio.uri, self.agent_id, self.session_id)

    # Serialisation

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The JSON for `from_dict`; the messages are in the store.

        Raises InvalidRequestError if the memory was given an open store.
        """
        del kwargs
        plain = {name: getattr(self, name) for name in _PLAIN}
        template = self.memory_blocks_template
        if template.template_str != DEFAULT_MEMORY_BLOCKS_TEMPLATE.template_str:
            plain["memory_blocks_template"] = template.template_str
        return {
            **plain,
            "store": uri_of(self.store),
            "insert_method": self.insert_method.value,
            "memory_blocks": [_block_to_dict(block) for block in self.memory_blocks],
            "class_name": self.class_name(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The memory of `to_dict`; `kwargs` take precedence.

        The classes of its memory blocks must have been imported. Raises InvalidRequestError for a
        block that cannot be restored from JSON: pass `memory_blocks` then.
        """
        fields = {**data, **kwargs}
        fields.pop("class_name", None)
        if "memory_blocks" not in kwargs:
            fields["memory_blocks"] = [_block_from_dict(one) for one in data["memory_blocks"]]
        if isinstance(template := fields.get("memory_blocks_template"), str):
            fields["memory_blocks_template"] = RichPromptTemplate(template)
        fields["insert_method"] = InsertMethod(fields["insert_method"])
        return cls(**fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)


def _block_to_dict(block: BaseMemoryBlock[Any]) -> dict[str, Any]:
    return {"type": _name_of(type(block)), "value": block.model_dump(mode="json")}


def _block_from_dict(data: dict[str, Any]) -> BaseMemoryBlock[Any]:
    # Data never causes an import.
    classes = {_name_of(one): one for one in _subclasses(BaseMemoryBlock)}
    try:
        made: BaseMemoryBlock[Any] = classes[data["type"]].model_validate(data["value"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"the memory block {data['type']!r:.80} cannot be restored: import its class, or pass "
            "memory_blocks to from_dict"
        ) from error
    return made


def _subclasses(one: type[Any]) -> list[type[Any]]:
    return [below for child in one.__subclasses__() for below in (child, *_subclasses(child))]


def _name_of(one: type[Any]) -> str:
    return f"{one.__module__}.{one.__qualname__}"

"""A LlamaIndex memory that shows a window within a budget and stores the whole session."""

from collections.abc import Sequence
from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
from llama_index.core.memory.memory import DEFAULT_TOKEN_LIMIT, generate_chat_store_key
from llama_index.core.memory.types import BaseMemory

from lance_context_core import InvalidRequestError
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, WindowMaker, block_on
from lance_context_core.window import Budget, DialectName, Section, Summariser
from llama_index_lance_context._messages import from_canonical, to_canonical


class LanceContextWindowMemory(HandleOwner, BaseMemory):
    """A session of the store, shown to an agent as a window: `agent.run(…, memory=memory)`.

    LlamaIndex's own memory flushes the oldest messages to its blocks, and shows the rest. This one
    stores all of them, and shows a window by `store.assemble`: calls keep their results, the user's
    newest turn is always included, and the beginning stays the same for many calls, for providers'
    caches. `get` never writes.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    store: Any = Field(description="An open store, or the URI of one.")
    session_id: str = ""
    user_id: str = ""
    """The owner of recalled memories and sessions; empty means none."""
    run_id: str = ""
    """The key under which windows are stored, if they are."""

    _handle: Handle = PrivateAttr()
    _maker: WindowMaker = PrivateAttr()

    def __init__(
        self,
        store: StoreLike,
        budget: Budget | int = DEFAULT_TOKEN_LIMIT,
        *,
        session_id: str | None = None,
        user_id: str = "",
        run_id: str = "",
        summariser: Summariser | None = None,
        sections: Sequence[Section] | None = None,
        dialect: DialectName = "openai_chat",
        counter: Any = None,
        keep_windows: bool = False,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        `budget` is a `Budget`, or a number of tokens; its `reserve_output` also covers the system
        prompt and the tools. An absent `session_id` is generated. See `WindowMaker` for the other
        arguments, and `store.windows` for stored windows.
        """
        maker = WindowMaker(
            budget=budget,
            sections=sections,
            summariser=summariser,
            dialect=dialect,
            counter=counter,
            keeps_windows=keep_windows,
        )
        handle = Handle(store)
        session = session_id or generate_chat_store_key()
        own = {"store": store, "session_id": session, "user_id": user_id, "run_id": run_id}
        super().__init__(**own)
        self._handle, self._maker = handle, maker

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's serialization."""
        return "LanceContextWindowMemory"

    @classmethod
    def from_defaults(cls, **fields: Any) -> Self:
        """Creates the memory, with `chat_history` as the conversation so far, if given."""
        history = fields.pop("chat_history", None)
        memory = cls(**fields)
        if history is not None:
            memory.set(history)
        return memory

    # Reading

    async def aget(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:
        """The window; `input` is the query of recall, by default the user's last text."""
        del kwargs
        store = self._handle.aio
        if not await store.history.count("", session_id=self.session_id):
            return []
        window = await self._maker.window(
            store,
            self.session_id,
            user_id=self.user_id,
            query=input if input and input.strip() else None,
            run_id=self.run_id,
        )
        return [made for one in window.messages for made in from_canonical(one)]

    async def aget_all(self) -> list[ChatMessage]:
        """The whole conversation."""
        kept = await self._handle.aio.history.get_messages("", session_id=self.session_id)
        return [made for one in kept for made in from_canonical(one)]

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:
        """As `aget`."""
        return block_on(self.aget(input, **kwargs))

    def get_all(self) -> list[ChatMessage]:
        """As `aget_all`."""
        return block_on(self.aget_all())

    # Writing

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Adds messages at the end, atomically, in one commit."""
        made = [to_canonical(one) for one in _listed(messages)]
        await self._handle.aio.history.append_many("", made, session_id=self.session_id)

    async def aput(self, message: ChatMessage) -> None:
        """Adds a message at the end."""
        await self.aput_messages([message])

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Replaces the whole conversation, in one commit."""
        made = [to_canonical(one) for one in _listed(messages)]
        await self._handle.aio.history.replace("", made, session_id=self.session_id)

    async def areset(self) -> None:
        """Deletes the conversation."""
        await self._handle.aio.history.clear("", session_id=self.session_id)

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """As `aput_messages`."""
        block_on(self.aput_messages(messages))

    def put(self, message: ChatMessage) -> None:
        """As `aput`."""
        block_on(self.aput(message))

    def set(self, messages: list[ChatMessage]) -> None:
        """As `aset`."""
        block_on(self.aset(messages))

    def reset(self) -> None:
        """As `areset`."""
        block_on(self.areset())


def _listed(messages: object) -> list[ChatMessage]:
    if not isinstance(messages, list | tuple):
        raise InvalidRequestError(f"messages={messages!r:.80}: give a list of ChatMessage")
    return list(messages)

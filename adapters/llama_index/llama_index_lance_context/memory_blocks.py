"""The store's long-term memory as a block of LlamaIndex's `Memory`."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr, field_serializer
from llama_index.core.utils import get_tokenizer

from lance_context_core import ContextRecord, InvalidRequestError, Message
from lance_context_core.adapting import Handle, StoreLike, content_of, uri_of
from lance_context_core.arguments import SearchMode
from llama_index_lance_context._messages import to_canonical
from llama_index_lance_context._stored_block import SESSION, StoredBlock


class LanceContextMemoryBlock(StoredBlock):
    """Recalls messages that left the conversation, by words and meaning.

    It stores received messages in `store.memory`, each message with a text once, and recalls those
    that answer the last messages, best first, each as `role: text`. Without an embedder it searches
    by words alone.

    - `scope="session"`: only messages of the same session; without a session, those without one.
    - `scope="user"`: all memories of `user_id`, of any session and framework.

    An answer that is too long for the model is cut at its end, which has the least relevant hits,
    by the requested tokens and at most a word more. Received messages are never changed.
    """

    name: str = "recalled"
    priority: int = 1
    """Blocks with the lowest are cut first; 0 is never cut."""
    store: Any = Field(description="An open store, or the URI of one.")
    embedder: Any = None
    """The embedder of a store at a URI; an open store has its own."""
    scope: Literal["session", "user"] = "session"
    user_id: str = ""
    limit: int = Field(default=5, ge=1)
    """Maximum number of recalled messages."""
    mode: SearchMode | None = None
    """`hybrid`, `vector` or `text`; absent means hybrid where the store can embed, else text."""
    tokenizer_fn: Callable[[str], Sequence[Any]] = Field(
        default_factory=get_tokenizer, exclude=True
    )

    _handle: Handle = PrivateAttr()

    def __init__(self, store: StoreLike, *, embedder: Any = None, **fields: Any) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again."""
        super().__init__(**{"store": store, "embedder": embedder, **fields})
        if self.scope == "user" and not self.user_id:
            raise InvalidRequestError("scope='user' recalls what a user has said: give a user_id")
        self._handle = Handle(store, embedder=embedder)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        """Memories for the last messages; empty if none matches, or they have no text."""
        if not (query := self._asked(messages)):
            return ""
        session_id = block_kwargs.get(SESSION)
        hits = await self._handle.aio.memory.search(
            query,
            user_id=self.user_id,
            session_id=None if self.scope == "user" else session_id or "",
            mode=self.mode,
            limit=self.limit,
        )
        recent = {one.content for one in messages or []}
        told = [hit.record for hit in hits if hit.record.text not in recent]
        return "\n".join(_line(record) for record in told if content_of(record))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The beginning of `content` that is that many tokens shorter; None if nothing is left."""
        n_left = len(self.tokenizer_fn(content)) - tokens_to_truncate
        if n_left <= 0:
            return None
        return _beginning(content, n_left, self.tokenizer_fn) or None

    async def _keep(self, messages: Sequence[ChatMessage], session_id: str | None) -> None:
        # Like LlamaIndex's own block: messages without a text could not be recalled as one.
        given = [self._memory(one, session_id) for one in messages if (one.content or "").strip()]
        unique = {one.id: one for one in given}
        await self._handle.aio.memory.add(
            list(unique.values()), user_id=self.user_id, session_id=session_id or ""
        )

    def _memory(self, message: ChatMessage, session_id: str | None) -> Message:
        """The message with a stable id, so that it is stored once."""
        more = {k: v for k, v in message.additional_kwargs.items() if k != SESSION}
        own = message.model_copy(update={"additional_kwargs": more})
        canonical = to_canonical(own)
        told = "\0".join([self.user_id, session_id or "", canonical.to_json()])
        id = hashlib.blake2b(told.encode(), digest_size=16).hexdigest()
        return replace(canonical, id=id)

    @field_serializer("store")
    def _store_by_its_uri(self, store: StoreLike) -> str:
        return uri_of(store)

    @field_serializer("embedder")
    def _embedder_by_its_name(self, embedder: Any) -> str | None:
        if not isinstance(embedder, str | None):
            raise InvalidRequestError(
                f"embedder={embedder!r:.80} cannot be serialised: give its name, or pass the memory "
                "block to from_dict"
            )
        return embedder

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "store"}
        return partial(type(self), **fields), (uri_of(self.store),)


def _line(record: ContextRecord) -> str:
    return f"{record.role}: {content_of(record)}"


def _beginning(text: str, n_tokens: int, tokenizer: Callable[[str], Sequence[Any]]) -> str:
    """The longest prefix that ends with a word and has at most `n_tokens`."""
    ends = [
        i
        for i, (a, b) in enumerate(zip(text, text[1:] + " ", strict=True), start=1)
        if b.isspace() and not a.isspace()
    ]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        if len(tokenizer(text[: ends[middle - 1]])) <= n_tokens:
            low = middle
        else:
            high = middle - 1
    return text[: ends[low - 1]] if low else ""

"""The store's key-value items as LangChain's cache of model answers."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.embeddings import Embeddings
from langchain_core.outputs import Generation

from lance_context_core import AsyncKeyValues, InvalidRequestError, Item, ItemVector
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, block_on, in_thread
from langchain_lance_context._answers import Prompt, from_json, to_json


class LanceContextSemanticCache(HandleOwner, BaseCache):
    """Caches the answers of models, and finds them by the meaning of the prompt.

    The model and its parameters must match exactly. The text of a prompt is compared by meaning; of
    a conversation, the last message's text if a human wrote it, while all messages before it must
    match exactly. An answer is found if its prompt reaches `score_threshold`; the nearest prompt
    wins.

    The asynchronous methods await the store, and block no event loop.
    """

    def __init__(
        self,
        store: StoreLike,
        embedding: Embeddings | None = None,
        *,
        score_threshold: float = 0.95,
        ttl: timedelta | None = None,
        name: str = "langchain_cache",
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `embedding`: makes the vectors of prompts; without it the store's embedder does.
        - `score_threshold`: in [0, 1], the least similarity of a prompt, as (1 + cosine) / 2; 1
          finds only the same text.
        - `ttl`: lifetime of an answer; None means for ever.
        - `name`: of the store's items, which are `store.kv(name)`.
        """
        _check(score_threshold, ttl)
        self._handle = Handle(store)
        self._kv = self._handle.aio.kv(name)
        how = (self._handle, score_threshold, ttl)
        self._awaiting = self._blocking = _Answers(self._kv, None, None, *how)
        if embedding is not None:
            self._awaiting = _Answers(
                self._kv, embedding.aembed_documents, embedding.aembed_query, *how
            )
            self._blocking = _Answers(
                self._kv,
                in_thread(embedding.embed_documents),
                in_thread(embedding.embed_query),
                *how,
            )

    def lookup(self, prompt: str, llm_string: str) -> list[Generation] | None:
        """The model's answer to this prompt, or to one with the same meaning; None if unknown."""
        return block_on(self._blocking.lookup(Prompt.of(prompt, llm_string)))

    async def alookup(self, prompt: str, llm_string: str) -> list[Generation] | None:
        """As `lookup`."""
        return await self._awaiting.lookup(Prompt.of(prompt, llm_string))

    def update(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        """Stores an answer, replacing an earlier one to the same prompt."""
        block_on(self._blocking.update(Prompt.of(prompt, llm_string), to_json(return_val)))

    async def aupdate(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        """As `update`."""
        await self._awaiting.update(Prompt.of(prompt, llm_string), to_json(return_val))

    def clear(self, **kwargs: Any) -> None:  # noqa: ARG002 - the base class has it
        """Deletes all answers."""
        block_on(self._kv.delete_under(()))

    async def aclear(self, **kwargs: Any) -> None:  # noqa: ARG002 - the base class has it
        """As `clear`."""
        await self._kv.delete_under(())


class _Answers:
    """The cached answers, with a blocking or asynchronous embedder; None means the store's."""

    def __init__(
        self,
        kv: AsyncKeyValues,
        documents: Callable[[list[str]], Awaitable[list[list[float]]]] | None,
        query: Callable[[str], Awaitable[list[float]]] | None,
        handle: Handle,
        score_threshold: float,
        ttl: timedelta | None,
    ) -> None:
        self._kv = kv
        self._documents = documents
        self._query = query
        self._handle = handle
        self._score_threshold = score_threshold
        self._ttl = ttl

    async def lookup(self, prompt: Prompt) -> list[Generation] | None:
        [same] = await self._kv.get([(prompt.namespace, prompt.key)])
        if same is not None:
            return from_json(same.data)
        if not prompt.meaning.strip() or self._score_threshold >= 1:
            return None
        asked = prompt.meaning if self._query is None else await self._query(prompt.meaning)
        nearest = await self._kv.search(asked, namespace=prompt.namespace, limit=1)
        if nearest and nearest[0].score >= self._score_threshold:
            return from_json(nearest[0].record.data)
        return None

    async def update(self, prompt: Prompt, answer: bytes) -> None:
        vectors = []
        if prompt.meaning.strip() and self._score_threshold < 1:
            text, vector = prompt.meaning, None
            if self._documents is not None:
                [vector] = await self._documents([text])
            vectors = [ItemVector(text=text) if vector is None else ItemVector(vector=vector)]
        item = Item(
            namespace=prompt.namespace,
            key=prompt.key,
            value={"prompt": prompt.meaning},
            data=answer,
            data_type="application/json",
            vectors=vectors,
            expires_at=None if self._ttl is None else self._handle.now() + self._ttl,
        )
        await self._kv.put([item])


def _check(score_threshold: float, ttl: timedelta | None) -> None:
    is_number = isinstance(score_threshold, int | float) and not isinstance(score_threshold, bool)
    if not is_number or not 0 <= score_threshold <= 1:
        raise InvalidRequestError(f"score_threshold={score_threshold!r}: give a number from 0 to 1")
    if ttl is not None and (not isinstance(ttl, timedelta) or ttl <= timedelta(0)):
        raise InvalidRequestError(f"ttl={ttl!r}: give a timedelta of more than nothing, or None")

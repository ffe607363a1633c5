"""The store's key-value items as LangGraph's `BaseStore`, for memories across threads."""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    IndexConfig,
    Op,
    Result,
    TTLConfig,
    ensure_embeddings,
)

from lance_context_core import AsyncKeyValues, EmbeddingError, ItemVector
from lance_context_core import Item as StoredItem
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, block_on, in_thread
from lance_context_core.arguments import ItemKey
from lance_context_core.errors import DimensionMismatchError
from langchain_lance_context._both_ways import (
    Answer,
    Count,
    Later,
    Nothing,
    Running,
    is_beside_a_loop,
)
from langchain_lance_context._connecting import place_at
from langchain_lance_context._operations import (
    Batch,
    Listing,
    Put,
    Search,
    checked_fields,
    checked_minutes,
    expiry,
    to_batch,
    to_found,
    to_item,
    to_stored,
    ttl_of,
)
from langchain_lance_context._sweeping import Sweeper

_SWEEP_MINUTES = 5
"""Default interval of `start_ttl_sweeper`."""


class LanceContextStore(HandleOwner, BaseStore):
    """Long-term memory for graphs and agents: JSON objects under keys, in namespaces.

    One class for synchronous and asynchronous code; methods that begin with `a` await the store and
    block no event loop. A batch reads the state before it, and writes all of its puts and deletions
    in one commit. The last of several puts to a key counts.

    - Values are JSON objects. A replaced value keeps its `created_at`; vectors and time to live are
      new.
    - A search with a query returns items with vectors first, nearest first, with the cosine of
      their nearest vector as `score`; then those without, with the score None. Without a query or
      an `index`, the latest written items come first.
    - An expired item is never returned, whatever `omit_expired` is; the sweep only frees the space.

    `setup`, `sweep_ttl`, `start_ttl_sweeper` and `stop_ttl_sweeper`, which LangGraph's
    `SqliteStore` and `AsyncSqliteStore` share, may be called or awaited; awaited, they block no
    event loop.

    Invalid values raise a ValueError, before anything is written.
    """

    supports_ttl = True

    index_config: IndexConfig | None
    """The given `index`."""

    embeddings: Embeddings | None
    """The embedder of items, from `index["embed"]`; None if the store's embedder is used."""

    def __init__(
        self,
        store: StoreLike,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        name: str = "langgraph_store",
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `index`: the indexed fields; without it, queries are ignored. Without `embed`, the store's
          embedder makes the vectors.
        - `ttl`: lifetime of items, in minutes. With `sweep_interval_minutes`, a thread sweeps from
          the first put with a time to live until `close`, or until this object is
          garbage-collected.
        - `name`: of the store's items, which are `store.kv(name)`.
        """
        self._handle = Handle(store)
        self.index_config, self.embeddings = index, None
        self.ttl_config = None if ttl is None else _checked_ttl(ttl)
        self._fields = None if index is None else checked_fields(index.get("fields") or ["$"], "fields")  # fmt: skip
        kv, now = self._handle.aio.kv(name), self._handle.now
        self._items = self._handle.sync.kv(name)
        self._awaiting = self._blocking = _Work(kv=kv, now=now)
        if index is not None and index.get("embed") is not None:
            embed, dims = ensure_embeddings(index["embed"]), index.get("dims")
            self.embeddings = embed
            awaited = _Embed(embed.aembed_documents, embed.aembed_query, dims)
            blocking = _Embed(in_thread(embed.embed_documents), in_thread(embed.embed_query), dims)
            self._awaiting = _Work(kv=kv, now=now, embed=awaited)
            self._blocking = _Work(kv=kv, now=now, embed=blocking)
        self._sweep = kv.sweep
        self._sweeper = Sweeper(lambda: block_on(kv.sweep()))
        weakref.finalize(self, self._sweeper.let_go)

    @classmethod
    def from_conn_string(
        cls, conn_string: str, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> Self:
        """Opens a store for a `with` or `async with` block, which closes it.

        `:memory:` is a store that lives as long as the block. Raises InvalidRequestError unless
        `conn_string` is a text.
        """
        return cls(place_at(conn_string), index=index, ttl=ttl)

    def setup(self) -> Nothing:
        """Does nothing: the first write creates the table."""
        return Nothing()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Runs the operations; the results are in their order."""
        batch = to_batch(ops, fields=self._fields)
        if len(batch.gets) == batch.n_operations:
            return self._got(batch)
        if (puts := self._blocking.plain_items(batch)) is not None:
            self._items.put(puts)
            self._sweep_from_now_on(batch)
            return [None] * batch.n_operations
        results = block_on(self._blocking.do(batch))
        self._sweep_from_now_on(batch)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`."""
        batch = to_batch(ops, fields=self._fields)
        results = await self._awaiting.do(batch)
        self._sweep_from_now_on(batch)
        return results

    def sweep_ttl(self) -> Count | Later:
        """Removes expired items; returns their number.

        Inside a running event loop the sweep starts, and awaiting or using the result waits for it.
        """
        return Later(self._sweep()) if is_beside_a_loop() else Count(block_on(self._sweep()))

    async def asweep_ttl(self) -> int:
        """As `sweep_ttl`."""
        return await self._sweep()

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Running:
        """Sweeps periodically in a thread.

        The default interval is that of `ttl`, else five minutes.

        Nothing changes if one sweeps already. Cancelling the future, `stop_ttl_sweeper`, closing
        the store, and the end of this object all end the thread. Awaited, the future is one of the
        event loop, to be awaited or cancelled.
        """
        minutes = sweep_interval_minutes
        if minutes is None:
            minutes = (self.ttl_config or {}).get("sweep_interval_minutes") or _SWEEP_MINUTES
        return self._sweeper.start(60 * checked_minutes(minutes, "sweep_interval_minutes"))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> Answer | Later:
        """Ends the thread; returns whether it ended within the timeout. None waits for it.

        Inside a running event loop it behaves as `sweep_ttl` does.
        """
        if is_beside_a_loop():
            return Later(asyncio.to_thread(self._sweeper.stop, timeout))
        return Answer(self._sweeper.stop(timeout))

    def close(self) -> None:
        """Ends the sweeper, and closes the store if it was given by its URI."""
        self._sweeper.stop()
        super().close()

    async def aclose(self) -> None:
        """As `close`."""
        self._sweeper.let_go()
        await super().aclose()

    def _got(self, batch: Batch) -> list[Result]:
        """The items of a batch of gets, most of which skip the store's loop."""
        gets = list(batch.gets.values())
        found = self._items.get([one.key for one in gets])
        refreshed = [
            one
            for get, one in zip(gets, found, strict=True)
            if one is not None and get.is_refreshing and ttl_of(one) is not None
        ]
        if refreshed:
            block_on(self._blocking.refresh(refreshed, besides=()))
        return [None if one is None else to_item(one) for one in found]

    def _sweep_from_now_on(self, batch: Batch) -> None:
        is_due = (self.ttl_config or {}).get("sweep_interval_minutes") is not None
        if is_due and any(put.ttl_minutes is not None for put in batch.puts.values()):
            self.start_ttl_sweeper()


@dataclass(frozen=True, slots=True)
class _Embed:
    """The embedder, and the dimension of its vectors."""

    documents: Callable[[list[str]], Awaitable[list[list[float]]]]
    query: Callable[[str], Awaitable[list[float]]]
    dims: int | None

    async def of_texts(self, texts: Iterable[str]) -> dict[str, Sequence[float]]:
        """A vector for each text; each distinct text is embedded once."""
        distinct = list(dict.fromkeys(texts))
        vectors = await self.documents(distinct) if distinct else []
        if len(vectors) != len(distinct):
            raise EmbeddingError(f"{len(vectors)} vectors were made of {len(distinct)} texts")
        return {text: self._checked(vector) for text, vector in zip(distinct, vectors, strict=True)}

    async def of_queries(self, texts: Iterable[str]) -> dict[str, Sequence[float]]:
        """Like `of_texts`, for queries."""
        return {text: self._checked(await self.query(text)) for text in dict.fromkeys(texts)}

    def _checked(self, vector: Sequence[float]) -> Sequence[float]:
        if self.dims is not None and len(vector) != self.dims:
            raise DimensionMismatchError(
                f"the index has dims={self.dims}, but a vector of {len(vector)} numbers was made"
            )
        return vector


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """Runs a batch with a blocking or asynchronous embedder."""

    kv: AsyncKeyValues
    now: Callable[[], datetime]
    embed: _Embed | None = None
    """Absent, the store's embedder makes the vectors."""

    async def do(self, batch: Batch) -> list[Result]:
        """Reads all, then writes all."""
        questions = await self._questions(batch.searches.values())
        puts = await self._items(batch.puts)
        results: list[Result] = [None] * batch.n_operations
        refreshed: list[StoredItem] = []

        wanted = list(batch.gets.values())
        found = await self.kv.get([one.key for one in wanted]) if wanted else []
        for place, get, one in zip(batch.gets, wanted, found, strict=True):
            if one is not None:
                results[place] = to_item(one)
                refreshed += [one] if get.is_refreshing else []
        for place, search in batch.searches.items():
            page = await self._search(search, questions)
            results[place] = [to_found(one, score) for one, score in page]
            refreshed += [one for one, _ in page] if search.is_refreshing else []
        for place, listing in batch.listings.items():
            results[place] = [] if listing is None else await self._list(listing)

        gone = [key for key, put in batch.puts.items() if put.value is None]
        if gone:
            await self.kv.write(puts=puts, deletes=gone)
        elif puts:
            await self.kv.put(puts)
        await self.refresh(refreshed, besides=batch.puts)
        return results

    def plain_items(self, batch: Batch) -> list[StoredItem] | None:
        """The puts, if there is nothing else and nothing to embed."""
        puts = batch.puts
        is_all = not (batch.gets or batch.searches or batch.listings)
        if not puts or not is_all or any(put.texts or put.value is None for put in puts.values()):
            return None
        now = self.now()
        return [to_stored(key, put, vectors=(), now=now) for key, put in puts.items()]

    async def _questions(self, searches: Iterable[Search]) -> Mapping[str, str | Sequence[float]]:
        """The results of the store, by query."""
        queries = [one.query for one in searches if one.query is not None]
        if self.embed is None:
            return {query: query for query in queries}
        return await self.embed.of_queries(queries)

    async def _items(self, puts: Mapping[ItemKey, Put]) -> list[StoredItem]:
        """The items to write, with vectors or with texts for the store to embed."""
        vectors: Mapping[str, Sequence[float]] = {}
        if self.embed is not None:
            texts = [text for put in puts.values() for _, text in put.texts]
            vectors = await self.embed.of_texts(texts)
        now = self.now()
        return [
            to_stored(
                key,
                put,
                vectors=[
                    ItemVector(path=path, text=text)
                    if self.embed is None
                    else ItemVector(path=path, vector=vectors[text])
                    for path, text in put.texts
                ],
                now=now,
            )
            for key, put in puts.items()
            if put.value is not None
        ]

    async def _search(
        self, search: Search, questions: Mapping[str, str | Sequence[float]]
    ) -> list[tuple[StoredItem, float | None]]:
        within: dict[str, Any] = {"prefix": search.prefix, "filter": search.filter}
        listed: dict[str, Any] = {**within, "order": "updated", "reverse": True}
        end = search.offset + search.limit
        if search.query is None:
            found = await self.kv.list(**listed, limit=search.limit, offset=search.offset)
            return [(one, None) for one in found]
        # The data has the lifetime of an item from now on.
        hits = await self.kv.search(
            questions[search.query], **within, limit=end, include_data=search.is_refreshing
        )
        ranked = [(hit.record, hit.channels["vector"].raw) for hit in hits]
        if len(ranked) == end:
            return [*ranked[search.offset :]]
        # All items with vectors are here; of the requested number, enough have none.
        known = {_identity(one) for one, _ in ranked}
        others = await self.kv.list(**listed, limit=end)
        unranked = [(one, None) for one in others if _identity(one) not in known]
        return [*ranked, *unranked][search.offset : end]

    async def _list(self, listing: Listing) -> list[tuple[str, ...]]:
        return await self.kv.namespaces(
            prefix=listing.prefix,
            suffix=listing.suffix,
            max_depth=listing.max_depth,
            limit=listing.limit,
            offset=listing.offset,
        )

    async def refresh(self, read: Iterable[StoredItem], *, besides: Container[ItemKey]) -> None:
        """Renews the lifetime of read items, in one commit for each time to live."""
        keys: dict[float, dict[ItemKey, None]] = {}
        for one in read:
            key, ttl = (one.namespace, one.key), ttl_of(one)
            if ttl is not None and key not in besides:
                keys.setdefault(ttl, {})[key] = None
        for ttl, some in keys.items():
            await self.kv.touch([*some], expires_at=expiry(ttl, self.now()))


def _identity(stored: StoredItem) -> tuple[object, ...]:
    """The identity of items, also in narrower scopes that a wider one sees."""
    return stored.namespace, stored.key, stored.tenant, stored.user_id, stored.agent_id


def _checked_ttl(config: TTLConfig) -> TTLConfig:
    for name in ("default_ttl", "sweep_interval_minutes"):
        if (value := config.get(name)) is not None:
            checked_minutes(value, name)
    return config

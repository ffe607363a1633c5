"""The store's key-value items as LlamaIndex's key-value store."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from llama_index.core.storage.kvstore.types import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_COLLECTION,
    BaseKVStore,
)

from lance_context_core import InvalidRequestError, Item, KeyValues
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, uri_of
from lance_context_core.arguments import ItemKey

JSON_TYPE = "application/json"


class LanceContextKVStore(HandleOwner, BaseKVStore):
    """Mappings under keys, in collections: `IngestionCache(cache=…)`, `KVIndexStore(…)`.

    A value reads back equal, with its keys in order. Values must be JSON and keys texts: others
    raise InvalidRequestError, a ValueError, before anything is written. Each call is one read or
    one commit. The asynchronous methods await the store, and block no event loop; the blocking ones
    work inside a running loop. With a store given by its URI it can be pickled, so that the workers
    of an `IngestionPipeline` share it.
    """

    def __init__(self, store: StoreLike, *, name: str = "llama_index") -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        `name` is that of the store's items, which are `store.kv(name)`.
        """
        self._store = store
        self._name = name
        self._handle = Handle(store)
        self._aio = self._handle.aio.kv(name)
        self._kv = KeyValues(self._aio)

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        """Writes a value, replacing an existing one."""
        self.put_all([(key, val)], collection)

    async def aput(
        self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION
    ) -> None:
        """As `put`."""
        await self.aput_all([(key, val)], collection)

    def put_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """Writes values atomically in one commit; the last of two with the same key counts.

        `batch_size` is ignored.
        """
        del batch_size
        self._kv.put(_items(kv_pairs, collection))

    async def aput_all(
        self,
        kv_pairs: list[tuple[str, dict[str, Any]]],
        collection: str = DEFAULT_COLLECTION,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        """As `put_all`."""
        del batch_size
        # Thousands of values are serialized in a thread, off the event loop.
        await self._aio.put(await asyncio.to_thread(_items, kv_pairs, collection))

    def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """The value of a key; None if it does not exist."""
        return _value(*self._kv.get(_keys(key, collection)))

    async def aget(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """As `get`."""
        return _value(*await self._aio.get(_keys(key, collection)))

    def get_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """The values of a collection by key, in order of first write.

        Within one call sorted by key.
        """
        return _values(self._kv.list(namespace=(collection,), order="created"))

    async def aget_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """As `get_all`."""
        found = await self._aio.list(namespace=(collection,), order="created")
        return await asyncio.to_thread(_values, found)

    def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Removes a value; returns whether it existed."""
        (existed,) = self._kv.delete(_keys(key, collection))
        return existed

    async def adelete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """As `delete`."""
        (existed,) = await self._aio.delete(_keys(key, collection))
        return existed

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), name=self._name), (uri_of(self._store),)


_encode = json.JSONEncoder(ensure_ascii=False).encode


def to_data(value: Any, where: str) -> bytes:
    """JSON as bytes, which keep the order of the keys, unlike the store's JSON.

    A node's text, and its hash, depend on the order of its metadata.
    """
    try:
        return _encode(value).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"{where} is not JSON: {error}") from error


def from_data(data: bytes) -> Any:
    """The inverse of `to_data`."""
    return json.loads(data.decode("utf-8", "surrogatepass"))


def _keys(key: str, collection: str) -> list[ItemKey]:
    return [((collection,), key)]


def _items(pairs: Iterable[tuple[str, dict[str, Any]]], collection: str) -> list[Item]:
    return [_item(key, value, collection) for key, value in pairs]


def _item(key: str, value: dict[str, Any], collection: str) -> Item:
    where = f"the value of {key!r:.80}"
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{where} is {value!r:.80}: give a dict")
    return Item(namespace=(collection,), key=key, data=to_data(value, where), data_type=JSON_TYPE)


def _value(item: Item | None) -> dict[str, Any] | None:
    if item is None or item.data is None:
        return None
    value: dict[str, Any] = from_data(item.data)
    return value


def _values(items: Sequence[Item]) -> dict[str, dict[str, Any]]:
    return {one.key: value for one in items if (value := _value(one)) is not None}

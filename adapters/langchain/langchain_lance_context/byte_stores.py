"""The store's key-value items as LangChain's `ByteStore`."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from langchain_core.stores import ByteStore

from lance_context_core import InvalidRequestError, Item, KeyValues
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, listed
from lance_context_core.arguments import ItemKey
from langchain_lance_context._pairs import pairs

_PAGE = 1_000
"""Number of keys in one read."""


class LanceContextByteStore(HandleOwner, ByteStore):
    """Bytes under keys in a namespace, for `CacheBackedEmbeddings` and others.

    Each call is one read or one commit. A key that is not a text, or a value that is not bytes,
    raises InvalidRequestError, a ValueError, before anything is written. The asynchronous methods
    await the store, and block no event loop.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        namespace: Sequence[str] = (),
        name: str = "langchain_bytes",
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `namespace`: of the keys; other namespaces are neither read nor written.
        - `name`: of the store's items, which are `store.kv(name)`.
        """
        self._handle = Handle(store)
        self._namespace = tuple(namespace)
        self._aio = self._handle.aio.kv(name)
        self._kv = KeyValues(self._aio)

    def mget(self, keys: Iterable[str]) -> list[bytes | None]:
        """The values in the order of `keys`; None for a missing key."""
        return [_data(one) for one in self._kv.get(self._keys(keys))]

    async def amget(self, keys: Iterable[str]) -> list[bytes | None]:
        """As `mget`."""
        return [_data(one) for one in await self._aio.get(self._keys(keys))]

    def mset(self, key_value_pairs: Iterable[tuple[str, bytes]]) -> None:
        """Writes values, replacing existing ones; the last of two with the same key counts."""
        self._kv.put(self._items(key_value_pairs))

    async def amset(self, key_value_pairs: Iterable[tuple[str, bytes]]) -> None:
        """As `mset`."""
        await self._aio.put(self._items(key_value_pairs))

    def mdelete(self, keys: Iterable[str]) -> None:
        """Deletes values; unknown keys are ignored."""
        self._kv.delete(self._keys(keys))

    async def amdelete(self, keys: Iterable[str]) -> None:
        """As `mdelete`."""
        await self._aio.delete(self._keys(keys))

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """The keys with the prefix, or all, in order; read lazily."""
        after = None
        while True:
            page = self._kv.keys(
                namespace=self._namespace, key_prefix=prefix or "", after=after, limit=_PAGE
            )
            yield from (key for _, key in page)
            if len(page) < _PAGE:
                return
            after = page[-1][1]

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """As `yield_keys`."""
        after = None
        while True:
            page = await self._aio.keys(
                namespace=self._namespace, key_prefix=prefix or "", after=after, limit=_PAGE
            )
            for _, key in page:
                yield key
            if len(page) < _PAGE:
                return
            after = page[-1][1]

    def _keys(self, keys: Iterable[str]) -> list[ItemKey]:
        return [(self._namespace, key) for key in listed(keys, "keys")]

    def _items(self, key_value_pairs: Iterable[tuple[str, bytes]]) -> list[Item]:
        return [
            Item(namespace=self._namespace, key=key, data=_checked(value, key))
            for key, value in pairs(key_value_pairs, "key_value_pairs")
        ]


def _checked(value: object, key: str) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidRequestError(
            f"the value of {key!r:.80} is {value!r:.80}: give bytes, or delete the key"
        )
    return bytes(value)


def _data(item: Item | None) -> bytes | None:
    return None if item is None else item.data

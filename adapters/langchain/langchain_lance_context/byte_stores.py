"""The store's key-value items as LangChain's `ByteStore`."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from langchain_core.stores import ByteStore

from lance_context_core import InvalidRequestError, Item, KeyValues
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, listed
from lance_context_core.arguments import ItemKey
from langchain_lance_context._pairs import pairs

_PAGE = 1_000
"""How many keys are read at once."""


class LanceContextByteStore(HandleOwner, ByteStore):
    """Bytes under keys, in a namespace: what `CacheBackedEmbeddings` and the like keep.

    Each call is one read or one commit. A value that is not text as a key, and what is no bytes as a value,
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

        - `namespace`: where the keys are; those of others are neither seen nor touched.
        - `name`: what the store calls these items, which are `store.kv(name)`.
        """
        self._handle = Handle(store)
        self._namespace = tuple(namespace)
        self._aio = self._handle.aio.kv(name)
        self._kv = KeyValues(self._aio)

    def mget(self, keys: Iterable[str]) -> list[bytes | None]:
        """The values in the order of `keys`; None for a key that is not there."""
        return [_data(one) for one in self._kv.get(self._keys(keys))]

    async def amget(self, keys: Iterable[str]) -> list[bytes | None]:
        """As `mget`."""
        return [_data(one) for one in await self._aio.get(self._keys(keys))]

    def mset(self, key_value_pairs: Iterable[tuple[str, bytes]]) -> None:
        """Write values, replacing what is there; of two with one key the last counts."""
        self._kv.put(self._items(key_value_pairs))

    async def amset(self, key_value_pairs: Iterable[tuple[str, bytes]]) -> None:
        """As `mset`."""
        await self._aio.put(self._items(key_value_pairs))

    def mdelete(self, keys: Iterable[str]) -> None:
        """Remove values; unknown keys are no error."""
        self._kv.delete(self._keys(keys))

    async def amdelete(self, keys: Iterable[str]) -> None:
        """As `mdelete`."""
        await self._aio.delete(self._keys(keys))

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """The keys that begin so, or all, in order; read as they are asked for."""
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

"""The store's blobs as the blob store of agentscope's app, which keeps uploaded files."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO, Any

from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context._places import BLOBS
from agentscope_lance_context.agentscope2._app_framework import BlobStoreBase
from lance_context_core import InvalidRequestError, Item, NotFoundError
from lance_context_core.adapting import Handle, StoreLike, check_name
from lance_context_core.results import AsyncBlobs

_SCHEME = "lance-context://"


class NoSuchBlobError(NotFoundError, FileNotFoundError):
    """The blob does not exist: a FileNotFoundError, as AgentScope's local store raises."""

    __str__ = Exception.__str__


class LanceContextBlobStore(StoreOwner, BlobStoreBase):
    """Files by key, in pieces that are read one by one.

    Each key has its own scope, so equal bytes under two keys are independent. No reader sees a
    partial write.
    """

    def __init__(self, store: StoreLike, *, embedder: Any = None, name: str = BLOBS.name) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `embedder`: for a store at a URI and for other users of it: blobs have no vectors.
        - `name`: of the list of keys, which is `store.kv(name)`.
        """
        self._handle = Handle(store, embedder=embedder)
        self._name = name

    async def write_stream(self, key: str, stream: IO[bytes]) -> str:
        """Replaces the blob of `key` by the rest of `stream`, and returns its URI."""
        check_name(key, "key")
        blobs, known = self._blobs(key), await self._hash(key)
        blob = await blobs.put(stream)
        namespace, place = BLOBS.key(key)
        item = Item(namespace=namespace, key=place, value={"hash": blob.hash, "size": blob.size})
        await self._handle.aio.kv(self._name).put([item])
        if known not in {None, blob.hash}:
            await blobs.delete(known)
        return _SCHEME + key

    @asynccontextmanager
    async def open(self, uri: str) -> AsyncIterator["Reader"]:
        """Opens a blob for `await reader.read(n)`. Raises NoSuchBlobError if it does not exist."""
        key = _key(uri)
        if (hash := await self._hash(key)) is None:
            raise NoSuchBlobError(f"uri={uri!r:.200}: no such blob")
        yield Reader(self._blobs(key), hash)

    async def delete(self, uri: str) -> None:
        """Deletes a blob; a missing one is ignored."""
        key = _key(uri)
        if (hash := await self._hash(key)) is not None:
            await self._handle.aio.kv(self._name).delete([BLOBS.key(key)])
            await self._blobs(key).delete(hash)

    async def exists(self, uri: str) -> bool:
        """Whether a blob of that URI exists."""
        return await self.size(uri) is not None

    async def size(self, uri: str) -> int | None:
        """The number of its bytes; None if it does not exist."""
        key = _key(uri)
        if (hash := await self._hash(key)) is None:
            return None
        blob = await self._blobs(key).info(hash)
        return None if blob is None else blob.size

    # Helpers

    def _blobs(self, key: str) -> AsyncBlobs:
        return self._handle.aio.scope(agent_id=f"agentscope blob {key}").blobs

    async def _hash(self, key: str) -> str | None:
        (item,) = await self._handle.aio.kv(self._name).get([BLOBS.key(key)])
        return None if item is None else (item.value or {})["hash"]


class Reader:
    """The bytes of a blob, from the beginning to the end."""

    def __init__(self, blobs: AsyncBlobs, hash: str) -> None:
        """Nothing is read before the first `read`."""
        self._blobs = blobs
        self._hash = hash
        self._at = 0

    async def read(self, n: int = -1) -> bytes:
        """The next `n` bytes, fewer at the end and then none; all remaining ones if `n` is below 0.

        Raises NotFoundError if the blob was removed meanwhile.
        """
        length = None if n < 0 else n
        found = await self._blobs.read(self._hash, start=self._at, length=length)
        self._at += len(found)
        return found


def _key(uri: str) -> str:
    if not isinstance(uri, str) or not uri.startswith(_SCHEME):
        raise InvalidRequestError(
            f"uri={uri!r:.200} is none of this store's: give one that write_stream returned, which "
            f"begins with {_SCHEME}"
        )
    return check_name(uri.removeprefix(_SCHEME), "uri")

"""Collections of documents with vectors, from synchronous code."""

from lance_context_core.stores.vectors import AsyncVectors
from lance_context_core.sync._blocking import Blocking, blocking


class Vectors(Blocking[AsyncVectors]):
    """One collection of documents; `AsyncVectors` is the asynchronous one."""

    add = blocking(AsyncVectors.add)
    upsert = blocking(AsyncVectors.upsert)
    search = blocking(AsyncVectors.search)
    get = blocking(AsyncVectors.get)
    list = blocking(AsyncVectors.list)
    delete = blocking(AsyncVectors.delete)
    erase = blocking(AsyncVectors.erase)
    count = blocking(AsyncVectors.count)
    list_collections = blocking(AsyncVectors.list_collections)
    delete_collection = blocking(AsyncVectors.delete_collection)

    @property
    def collection(self) -> str:
        """The name of the collection."""
        return self._aio.collection

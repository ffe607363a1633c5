"""The store's key-value items as LlamaIndex's index store."""

from functools import partial
from typing import Any

from llama_index.core.storage.index_store.keyval_index_store import KVIndexStore

from lance_context_core.adapting import Handle, HandleOwner, StoreLike, uri_of
from llama_index_lance_context.kv_stores import LanceContextKVStore


class LanceContextIndexStore(HandleOwner, KVIndexStore):
    """The structs of indexes by id: `StorageContext.from_defaults(index_store=…)`.

    Each call is one read or one commit. The asynchronous methods block no event loop. With a store
    given by its URI it can be pickled.
    """

    def __init__(
        self, store: StoreLike, *, namespace: str = "index_store", name: str = "llama_index"
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `namespace`: of the indexes; other namespaces are neither read nor written.
        - `name`: of the store's items, which are `store.kv(name)`.
        """
        self._store = store
        self._name = name
        self._handle = Handle(store)
        super().__init__(LanceContextKVStore(self._handle.aio, name=name), namespace=namespace)

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(type(self), namespace=self._namespace, name=self._name)
        return made, (uri_of(self._store),)

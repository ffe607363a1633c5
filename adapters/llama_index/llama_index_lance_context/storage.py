"""A storage context for LlamaIndex indexes in one store."""

from typing import Any

from llama_index.core import StorageContext

from lance_context_core.adapting import Handle, HandleOwner, StoreLike
from llama_index_lance_context.document_stores import LanceContextDocumentStore
from llama_index_lance_context.index_stores import LanceContextIndexStore
from llama_index_lance_context.property_graph import LanceContextPropertyGraphStore
from llama_index_lance_context.vector_stores import LanceContextVectorStore


class LanceContextStorage(HandleOwner, StorageContext):
    """A `StorageContext` with all stores in one store; closing it closes them."""

    def persist(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: everything is in the store already."""


def storage_context(
    store: StoreLike, *, name: str = "default", embedder: Any = None
) -> LanceContextStorage:
    """Vectors, images, documents, indexes and a property graph, all in one store.

    `load_index_from_storage(storage_context(uri))` restores an index after a restart.

    - `store`: an open one, which stays open, or a URI, which the context's `close` closes again.
    - `name`: separates several applications in one store. It is the collection of the vectors; the
      collections of images and graph have the suffixes `_images` and `_graph`; and it is the
      namespace of everything else.
    - `embedder`: the embedder of a store at a URI; an open store has its own.
    """
    handle = Handle(store, embedder=embedder)
    context = LanceContextStorage.from_defaults(
        docstore=LanceContextDocumentStore(handle.aio, namespace=name),
        index_store=LanceContextIndexStore(handle.aio, namespace=name),
        vector_store=LanceContextVectorStore(handle.aio, collection=name),
        image_store=LanceContextVectorStore(handle.aio, collection=f"{name}_images"),
        property_graph_store=LanceContextPropertyGraphStore(handle.aio, collection=f"{name}_graph"),
    )
    assert isinstance(context, LanceContextStorage)
    context._handle = handle  # noqa: SLF001 - the base is made by a method of its own
    return context

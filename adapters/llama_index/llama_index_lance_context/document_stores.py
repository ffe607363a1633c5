"""The store's key-value items as LlamaIndex's document store: an item for each node."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from llama_index.core.schema import BaseNode
from llama_index.core.storage.docstore.types import (
    DEFAULT_PERSIST_PATH,
    BaseDocumentStore,
    RefDocInfo,
)
from llama_index.core.storage.kvstore.types import DEFAULT_BATCH_SIZE

from lance_context_core import NotFoundError
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, block_on, uri_of
from llama_index_lance_context._known_hashes import KnownHashes
from llama_index_lance_context._node_log import NodeLog, entries_of


class LanceContextDocumentStore(HandleOwner, BaseDocumentStore):
    """The nodes and documents of `StorageContext` and `IngestionPipeline`.

    A node reads back equal, with its class, its vector and the bytes of its media. Each call is one
    commit after at most two reads, also for a thousand nodes or for deleting a document with all of
    its nodes. A document's nodes are those with it as source, in the order of adding.

    Setting a hash leaves the node unchanged; it is valid until the node is written again. The
    asynchronous methods await the store, and block no event loop. With a store given by its URI it
    can be pickled.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        namespace: str = "docstore",
        name: str = "llama_index_docstore",
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `namespace`: of the nodes; other namespaces are neither read nor written.
        - `name`: of the store's items, which are `store.kv(name)`.
        """
        self._store = store
        self._namespace = namespace
        self._name = name
        self._handle = Handle(store)
        self._log = NodeLog(self._handle.aio.kv(name), namespace, KnownHashes())

    def persist(self, persist_path: str = DEFAULT_PERSIST_PATH, fs: Any = None) -> None:
        """Does nothing: every node is in the store already."""

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(type(self), namespace=self._namespace, name=self._name)
        return made, (uri_of(self._store),)

    # Nodes

    @property
    def docs(self) -> dict[str, BaseNode]:
        """All nodes by id, in the order of adding."""
        return {node.node_id: node for node in block_on(self._log.all_nodes())}

    def add_documents(
        self,
        docs: Sequence[BaseNode],
        allow_update: bool = True,  # noqa: FBT001, FBT002 - the base has it so
        batch_size: int = DEFAULT_BATCH_SIZE,
        store_text: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        """Adds nodes, or replaces those with existing ids, atomically, in one commit.

        Without `store_text` only their hashes and source documents are stored. `batch_size` is
        ignored. Raises AlreadyExistsError, a ValueError, for an existing node if `allow_update` is
        False, and InvalidRequestError for one that cannot be stored, before anything is written.
        """
        del batch_size
        entries = entries_of(docs, with_content=store_text)
        if (
            allow_update
            and entries
            and self._log.add_few(self._handle.sync.kv(self._name), entries)
        ):
            return
        block_on(self._log.add(entries, may_replace=allow_update))

    async def async_add_documents(
        self,
        docs: Sequence[BaseNode],
        allow_update: bool = True,  # noqa: FBT001, FBT002
        batch_size: int = DEFAULT_BATCH_SIZE,
        store_text: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        """As `add_documents`."""
        del batch_size
        # Thousands of nodes are serialized in a thread, off the event loop.
        entries = await asyncio.to_thread(entries_of, docs, with_content=store_text)
        await self._log.add(entries, may_replace=allow_update)

    def get_document(self, doc_id: str, raise_error: bool = True) -> BaseNode | None:  # noqa: FBT001, FBT002
        """The node with that id. For a missing one None, or a ValueError if `raise_error`."""
        (node,) = block_on(self._log.nodes([doc_id]))
        _require(doc_id, node is not None or not raise_error)
        return node

    async def aget_document(self, doc_id: str, raise_error: bool = True) -> BaseNode | None:  # noqa: FBT001, FBT002
        """As `get_document`."""
        (node,) = await self._log.nodes([doc_id])
        _require(doc_id, node is not None or not raise_error)
        return node

    def get_nodes(self, node_ids: list[str], raise_error: bool = True) -> list[BaseNode]:  # noqa: FBT001, FBT002
        """The nodes with these ids, in order, in one read.

        Unknown ones are left out, or a ValueError if `raise_error`.
        """
        return _all_found(node_ids, block_on(self._log.nodes(node_ids)), required=raise_error)

    async def aget_nodes(self, node_ids: list[str], raise_error: bool = True) -> list[BaseNode]:  # noqa: FBT001, FBT002
        """As `get_nodes`."""
        return _all_found(node_ids, await self._log.nodes(node_ids), required=raise_error)

    def document_exists(self, doc_id: str) -> bool:
        """Whether a node with that id exists."""
        return block_on(self._log.exists(doc_id))

    async def adocument_exists(self, doc_id: str) -> bool:
        """As `document_exists`."""
        return await self._log.exists(doc_id)

    def delete_document(self, doc_id: str, raise_error: bool = True) -> None:  # noqa: FBT001, FBT002
        """Deletes a node, with the last one of a document also its metadata; one commit.

        A missing node raises a ValueError if `raise_error`.
        """
        _require(doc_id, block_on(self._log.remove(doc_id)) or not raise_error)

    async def adelete_document(self, doc_id: str, raise_error: bool = True) -> None:  # noqa: FBT001, FBT002
        """As `delete_document`."""
        _require(doc_id, await self._log.remove(doc_id) or not raise_error)

    # Hashes

    def set_document_hash(self, doc_id: str, doc_hash: str) -> None:
        """Sets a hash, also for a missing node."""
        self.set_document_hashes({doc_id: doc_hash})

    async def aset_document_hash(self, doc_id: str, doc_hash: str) -> None:
        """As `set_document_hash`."""
        await self.aset_document_hashes({doc_id: doc_hash})

    def set_document_hashes(self, doc_hashes: dict[str, str]) -> None:
        """Sets hashes by id, in one commit."""
        block_on(self._log.set_hashes(doc_hashes))

    async def aset_document_hashes(self, doc_hashes: dict[str, str]) -> None:
        """As `set_document_hashes`."""
        await self._log.set_hashes(doc_hashes)

    def get_document_hash(self, doc_id: str) -> str | None:
        """The hash that was set for a node, or else its own; None for an unknown one.

        Many sequential calls, as in pipelines, soon share one read of all hashes until the next
        write to the store's document stores; a write is seen at once.
        """
        return block_on(self._log.hash(doc_id))

    async def aget_document_hash(self, doc_id: str) -> str | None:
        """As `get_document_hash`."""
        return await self._log.hash(doc_id)

    def get_all_document_hashes(self) -> dict[str, str]:
        """The ids by hash; one id for each hash, as LlamaIndex's interface requires."""
        return _by_hash(block_on(self._log.hashes()))

    async def aget_all_document_hashes(self) -> dict[str, str]:
        """As `get_all_document_hashes`."""
        return _by_hash(await self._log.hashes())

    # Documents

    def get_ref_doc_info(self, ref_doc_id: str) -> RefDocInfo | None:
        """The ids of a document's nodes, and its metadata; None if it has no nodes."""
        return block_on(self._log.documents(ref_doc_id)).get(ref_doc_id)

    async def aget_ref_doc_info(self, ref_doc_id: str) -> RefDocInfo | None:
        """As `get_ref_doc_info`."""
        return (await self._log.documents(ref_doc_id)).get(ref_doc_id)

    def get_all_ref_doc_info(self) -> dict[str, RefDocInfo] | None:
        """The nodes and metadata of all documents with nodes, by id."""
        return block_on(self._log.documents())

    async def aget_all_ref_doc_info(self) -> dict[str, RefDocInfo] | None:
        """As `get_all_ref_doc_info`."""
        return await self._log.documents()

    def ref_doc_exists(self, ref_doc_id: str) -> bool:
        """Whether a document has nodes."""
        return self.get_ref_doc_info(ref_doc_id) is not None

    async def aref_doc_exists(self, ref_doc_id: str) -> bool:
        """As `ref_doc_exists`."""
        return await self.aget_ref_doc_info(ref_doc_id) is not None

    def delete_ref_doc(self, ref_doc_id: str, raise_error: bool = True) -> None:  # noqa: FBT001, FBT002
        """Deletes a document: its nodes, itself, and its hash, in one commit.

        A document without nodes raises a ValueError if `raise_error`.
        """
        _require(ref_doc_id, block_on(self._log.remove_document(ref_doc_id)) or not raise_error)

    async def adelete_ref_doc(self, ref_doc_id: str, raise_error: bool = True) -> None:  # noqa: FBT001, FBT002
        """As `delete_ref_doc`."""
        _require(ref_doc_id, await self._log.remove_document(ref_doc_id) or not raise_error)


class NodeNotFoundError(NotFoundError, ValueError):
    """The node, or a document with nodes, does not exist; LlamaIndex expects a ValueError."""


def _require(id: str, is_there: bool) -> None:  # noqa: FBT001 - what it is about
    if not is_there:
        raise NodeNotFoundError(f"{id!r:.80} not found: pass raise_error=False if it may be absent")


def _all_found(
    ids: Iterable[str], nodes: Iterable[BaseNode | None], *, required: bool
) -> list[BaseNode]:
    found = []
    for id, node in zip(ids, nodes, strict=True):
        _require(id, node is not None or not required)
        found += [] if node is None else [node]
    return found


def _by_hash(hashes: dict[str, str]) -> dict[str, str]:
    return {hash: id for id, hash in hashes.items()}

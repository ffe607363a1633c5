"""The LlamaIndex adapter, and the store's own query for each of its queries."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore
from llama_index.core.storage.docstore.keyval_docstore import KVDocumentStore
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index_lance_context import (
    LanceContextAsyncChatStore,
    LanceContextDocumentStore,
    LanceContextKVStore,
    LanceContextVectorStore,
)

from benchmarks.sides.llama_index_small import Small
from benchmarks.sides.llama_index_vectors import Nodes
from benchmarks.sides.measuring import timed
from benchmarks.sides.protocol import serve
from lance_context_core import ContextStore

_OPEN: dict[str, ContextStore] = {}


def _make(uri: str) -> BasePydanticVectorStore:
    store = ContextStore.open(uri)
    # The first one is asked, those after it are only added to.
    _OPEN.setdefault("nodes", store)
    made: BasePydanticVectorStore = LanceContextVectorStore(store)
    return made


def _make_small(uri: str) -> tuple[BaseDocumentStore, AsyncDBChatStore]:
    store = ContextStore.open(uri)
    return LanceContextDocumentStore(store), LanceContextAsyncChatStore(store)


_SMALL = Small(_make_small)
_NODES = Nodes(_make, by_words=lambda _: {"mode": "text_search"})


def maintain() -> str:
    """Let the store build its indexes; returns what it did."""
    done = _OPEN["nodes"].maintain()
    return "; ".join(f"{', '.join(one.indexes_built)} of {one.table}" for one in done)


def store_query(*, vector: list[float], limit: int, **_: Any) -> dict[str, Any]:
    """What `query` asks the store."""
    nodes = _OPEN["nodes"].vectors()
    seconds, hits = timed(lambda: nodes.search(vector=vector, mode="vector", limit=limit))
    return {"seconds": seconds, "ids": [hit.record.id for hit in hits]}


def commits(*, uri: str, nodes: int) -> dict[str, int]:
    """How many commits it takes to delete a document that has so many nodes, by what deletes it."""
    store = ContextStore.open(uri)
    documents = LanceContextDocumentStore(store)
    theirs = KVDocumentStore(LanceContextKVStore(store))
    vectors = LanceContextVectorStore(store)
    made = [_node(number) for number in range(nodes)]
    for keep in (documents.add_documents, theirs.add_documents, vectors.add):
        keep(made)
    return {
        "document store": _count(uri, lambda: documents.delete_ref_doc("document")),
        "vector store": _count(uri, lambda: vectors.delete("document")),
        "KVDocumentStore": _count(uri, lambda: theirs.delete_ref_doc("document")),
    }


def _node(number: int) -> TextNode:
    node = TextNode(id_=f"n{number}", text=f"text {number}", embedding=[1.0, float(number)])
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="document")
    return node


def _count(uri: str, work: Callable[[], Any]) -> int:
    """By how many versions of whatever table the store grows."""
    before = _versions(uri)
    work()
    return len(_versions(uri) - before)


def _versions(uri: str) -> set[Path]:
    return set(Path(uri).rglob("_versions/*.manifest"))


if __name__ == "__main__":
    serve(
        {
            **_NODES.operations(),
            **_SMALL.operations(),
            "maintain": maintain,
            "store_query": store_query,
            "commits": commits,
        }
    )

"""The LangChain adapter, and the store's own call for each of its calls."""

from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.vectorstores import VectorStore
from langchain_lance_context import LanceContextChatMessageHistory, LanceContextVectorStore
from pyarrow import feather

from benchmarks.sides.langchain_stalls import longest_stalls
from benchmarks.sides.langchain_vectors import NUMBER, Documents, answered
from benchmarks.sides.measuring import timed, timed_async
from benchmarks.sides.opened import RUNNER
from benchmarks.sides.protocol import serve
from lance_context_core import ContextStore

_BATCH = 5_000
_SESSION = "long"
_OPEN: dict[str, ContextStore] = {}


def _make(uri: str, embeddings: Embeddings) -> VectorStore:
    _OPEN["documents"] = ContextStore.open(uri)
    return LanceContextVectorStore(_OPEN["documents"], embeddings)


_DOCUMENTS = Documents(_make)


def maintain() -> str:
    """Let the store build its indexes; returns what it did."""
    done = _OPEN["documents"].maintain()
    return "; ".join(f"{', '.join(one.indexes_built)} of {one.table}" for one in done)


def store_search(*, vector: list[float], limit: int, **_: Any) -> dict[str, Any]:
    """What `similarity_search` asks the store."""
    documents = _OPEN["documents"].vectors()
    seconds, hits = timed(lambda: documents.search(vector=vector, mode="vector", limit=limit))
    return {"seconds": seconds, "ids": [hit.record.metadata[NUMBER] for hit in hits]}


def asimilarity_search(*, text: str, vector: list[float], limit: int) -> dict[str, Any]:
    """As `similarity_search`, awaited."""
    _DOCUMENTS.known[text] = vector
    work = _DOCUMENTS.vectorstore.asimilarity_search(text, k=limit)
    return answered(*RUNNER.run(timed_async(work)))


def store_asearch(*, vector: list[float], limit: int, **_: Any) -> dict[str, Any]:
    """As `store_search`, awaited."""
    documents = _OPEN["documents"].aio.vectors()
    work = documents.search(vector=vector, mode="vector", limit=limit)
    seconds, hits = RUNNER.run(timed_async(work))
    return {"seconds": seconds, "ids": [hit.record.metadata[NUMBER] for hit in hits]}


def converse(*, uri: str, corpus: str, rows: int) -> None:
    """Write a session of `rows` messages, and let the store maintain itself."""
    _OPEN["messages"] = store = ContextStore.open(uri)
    history = LanceContextChatMessageHistory(store, _SESSION)
    texts = feather.read_table(corpus, columns=["text"]).column("text").to_pylist()
    for start in range(0, rows, _BATCH):
        history.add_messages(
            [
                AIMessage(texts[number % len(texts)])
                if number % 2
                else HumanMessage(texts[number % len(texts)])
                for number in range(start, min(start + _BATCH, rows))
            ]
        )
    store.maintain()


def last_messages(*, limit: int) -> dict[str, Any]:
    """The end of the session, as LangChain's messages."""
    history = LanceContextChatMessageHistory(_OPEN["messages"], _SESSION, limit=limit)
    seconds, found = timed(lambda: history.messages)
    return {"seconds": seconds, "found": len(found)}


def store_last(*, limit: int) -> dict[str, Any]:
    """The end of the session, as the store's messages."""
    history = _OPEN["messages"].history
    seconds, found = timed(lambda: history.get_messages("", session_id=_SESSION, last=limit))
    return {"seconds": seconds, "found": len(found)}


def stalls(*, uri: str) -> dict[str, float]:
    """The longest stall of an event loop in seconds, by what is read and written meanwhile."""
    return RUNNER.run(longest_stalls(uri))


if __name__ == "__main__":
    serve(
        {
            **_DOCUMENTS.operations(),
            "maintain": maintain,
            "store_search": store_search,
            "asimilarity_search": asimilarity_search,
            "store_asearch": store_asearch,
            "converse": converse,
            "last_messages": last_messages,
            "store_last": store_last,
            "stalls": stalls,
        },
    )

"""Moving from mem0, Zep, LangMem and Chroma: what each exports becomes records of one store.

python examples/moving.py [DIR]

The exports below are small ones in the form that each system returns. Checkpoints of LangGraph's
SqliteSaver or PostgresSaver move by `copy_checkpoints(old, new)` of `langchain_lance_context`.
"""

import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lance_context_core import ContextStore, Document, ManagedMemory

MEM0 = {
    "results": [
        {
            "id": "5e4d",
            "memory": "Prefers trains to planes",
            "user_id": "ada",
            "created_at": "2025-07-25T23:57:00-07:00",
        }
    ]
}
"""The result of mem0's `Memory.get_all`."""

ZEP = [
    {
        "uuid": "a1",
        "role": "user",
        "name": "Ada",
        "content": "I moved to Bergen.",
        "created_at": "2025-05-01T09:00:00Z",
    },
    {
        "uuid": "a2",
        "role": "assistant",
        "content": "How is the weather there?",
        "created_at": "2025-05-01T09:00:05Z",
    },
]
"""The `messages` of Zep's `thread.get`, each by `model_dump()`."""

LANGMEM = [
    {
        "namespace": ["memories", "ada"],
        "key": "m-1",
        "value": {"kind": "Memory", "content": {"content": "Ada sings in a choir."}},
    }
]
"""The result of `store.search(("memories",))` of a LangGraph store, each by `item.dict()`."""

CHROMA = {
    "ids": ["d1", "d2"],
    "documents": ["Tea is at four.", "The gate closes at ten."],
    "embeddings": [[0.1, 0.9], [0.8, 0.2]],
    "metadatas": [{"page": 1}, {"page": 2}],
}
"""The result of Chroma's `collection.get(include=["documents", "embeddings", "metadatas"])`."""


def from_mem0(store: ContextStore, exported: Mapping[str, Any]) -> int:
    """Each memory becomes a turn, and the fact that it states, with its id and its date."""
    return len(ManagedMemory(store).import_mem0(exported))


def from_zep(store: ContextStore, messages: Iterable[Mapping[str, Any]], thread_id: str) -> int:
    """The messages become turns with their ids and times; facts are extracted from them again."""
    told = [
        {
            "id": one["uuid"],
            "role": one["role"],
            "name": one.get("name"),
            "content": one["content"],
            "created_at": one["created_at"],
        }
        for one in messages
    ]
    added = ManagedMemory(store).add(told, user_id="ada", session_id=thread_id)
    return len(added.ids)


def from_langmem(store: ContextStore, items: Iterable[Mapping[str, Any]]) -> int:
    """The contents become memories of their user: the last part of the namespace."""
    moved = [
        store.memory.upsert(
            one["key"], one["value"]["content"]["content"], user_id=one["namespace"][-1]
        )
        for one in items
    ]
    return len(moved)


def from_chroma(store: ContextStore, name: str, got: Mapping[str, Any]) -> int:
    """A collection becomes one, with its ids, vectors and metadata."""
    rows = zip(got["ids"], got["documents"], got["embeddings"], got["metadatas"], strict=True)
    documents = [
        Document(id=id, text=text, embedding=[float(x) for x in vector], metadata=metadata or {})
        for id, text, vector, metadata in rows
    ]
    return len(store.vectors(name).add(documents))


def move(store: ContextStore) -> dict[str, int]:
    """Move everything; returns how many records each system had. A second call changes nothing."""
    return {
        "mem0": from_mem0(store, MEM0),
        "Zep": from_zep(store, ZEP, "thread-7"),
        "LangMem": from_langmem(store, LANGMEM),
        "Chroma": from_chroma(store, "handbook", CHROMA),
    }


def main(directory: Path) -> None:
    """Move twice, to show that nothing is doubled, and ask."""
    with ContextStore.open(directory) as store:
        for name, n in move(store).items():
            print(f"{name}: {n} moved")
        before = store.context().entries() + store.vectors("handbook").count()
        move(store)
        after = store.context().entries() + store.vectors("handbook").count()
        print(f"moved again: {after - before} new records\n")

        memory = ManagedMemory(store)
        for question in ("trains or planes?", "Where does Ada live? Bergen?"):
            hit = memory.search(question, user_id="ada", limit=1)[0]
            print(f"? {question}\n  {hit.record.text}")
        print(f"? choir\n  {store.memory.search('choir', user_id='ada')[0].record.text}")
        nearest = store.vectors("handbook").search([0.0, 1.0], limit=1)[0]
        print(f"? the nearest to a vector\n  {nearest.record.text}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))

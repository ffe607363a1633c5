"""Chroma in a directory, through its own client."""

from collections.abc import Mapping, Sequence
from typing import Any

import chromadb
from chromadb.config import Settings
from chromadb.execution.expression import K, Knn, Search

from benchmarks.sides.conversations import Conversations, Said, Wanted, operations
from benchmarks.sides.protocol import serve


class Chroma(Conversations):
    """One collection; its messages have numbers, because a collection has no order."""

    def _open(self, folder: str) -> None:
        client = chromadb.PersistentClient(folder, settings=Settings(anonymized_telemetry=False))
        self._messages: Any = client.get_or_create_collection(
            "messages", embedding_function=None, metadata={"hnsw:space": "cosine"}
        )

    def _turn(self, messages: Sequence[Said]) -> None:
        self._messages.add(
            ids=[str(one.number) for one in messages],
            documents=[one.text for one in messages],
            embeddings=[one.vector for one in messages],
            metadatas=[
                {
                    "session": one.session,
                    "role": one.role,
                    "topic": one.topic,
                    "number": one.number,
                }
                for one in messages
            ],
        )

    def _whole(self, session: str) -> list[str]:
        found = self._messages.get(where={"session": session}, include=["documents", "metadatas"])
        numbers = [one["number"] for one in found["metadatas"]]
        return [text for _, text in sorted(zip(numbers, found["documents"], strict=True))]

    def _vector(self, wanted: Wanted) -> list[str]:
        return self._nearest(wanted)

    def _words(self, wanted: Wanted) -> list[str]:
        # Its nearest thing to a search by words: whatever contains them, in no order.
        every: dict[str, Any] = {"$and": [{"$contains": word} for word in wanted.text.split()]}
        found = self._messages.get(where_document=every, limit=wanted.limit, include=["documents"])
        return list(found["documents"])

    def _hybrid(self, wanted: Wanted) -> list[str]:
        # What its documentation ranks with; a service has it.
        search = Search().rank(Knn(query=wanted.vector)).limit(wanted.limit).select(K.DOCUMENT)
        return list(self._messages.search(search)["documents"][0])

    def _filter(self, wanted: Wanted) -> list[str]:
        return self._nearest(wanted, where={"topic": wanted.topic})

    def _nearest(self, wanted: Wanted, *, where: Mapping[str, Any] | None = None) -> list[str]:
        found = self._messages.query(
            query_embeddings=[wanted.vector],
            n_results=wanted.limit,
            where=where,
            include=["documents"],
        )
        return list(found["documents"][0])


if __name__ == "__main__":
    serve(operations(Chroma, "chromadb"))

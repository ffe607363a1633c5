"""What LangChain's vector stores are asked alike; each peer says where its words differ."""

from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from benchmarks.sides.conversations import Peer, Rows, Said, Vector, Wanted


class Known(Embeddings):  # type: ignore[misc]  # the framework stands in another environment
    """Embeddings that give the vectors that texts are known by."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def embed_documents(self, texts: list[str]) -> list[Vector]:
        """What is known of each text."""
        return [self._rows.vector_of(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        """What is known of a text."""
        return self._rows.vector_of(text)


class LangChainVectors(Peer):
    """A vector store, asked through `similarity_search` and its keywords."""

    api: VectorStore

    def _turn(self, messages: Sequence[Said]) -> None:
        self.api.add_documents(
            [
                Document(
                    one.text,
                    metadata={"session": one.session, "role": one.role, "topic": one.topic},
                )
                for one in messages
            ]
        )

    def _vector(self, wanted: Wanted) -> list[str]:
        return self._found(wanted)

    def _found(self, wanted: Wanted, **more: Any) -> list[str]:
        found = self.api.similarity_search(wanted.text, wanted.limit, **more)
        return [document.page_content for document in found]

"""What the sides of LangChain's vector stores share: the documents, their vectors, the questions."""

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from pyarrow import feather

from benchmarks.sides.protocol import Handler, serve, timed

NUMBER = "external_id"
"""The metadata key of what a record is called in the corpus: not every peer gives ids back."""
_BATCH = 1_000


class KnownVectors(Embeddings):  # type: ignore[misc]  # the framework stands in another environment
    """Embeds nothing: gives the vectors that the texts were seen with, so that no model is timed."""

    def __init__(self) -> None:
        self.vectors: dict[str, list[float]] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """What is known of each text."""
        return [self.vectors[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """What is known of the text."""
        return self.vectors[text]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """As `embed_documents`; without this the framework takes a thread."""
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """As `embed_query`."""
        return self.embed_query(text)


class VectorStoreSide:
    """One vector store of LangChain, filled and asked through its synchronous methods."""

    def __init__(self, make: Callable[[str, Embeddings], VectorStore]) -> None:
        """`make` is called with a directory of its own and the embeddings."""
        self._make = make
        self.embeddings = KnownVectors()
        self.vectorstore: VectorStore

    def load(self, *, uri: str, corpus: str, rows: int) -> None:
        """Add the first `rows` records."""
        self.vectorstore = self._make(uri, self.embeddings)
        table = feather.read_table(corpus).slice(0, rows)
        for start in range(0, rows, _BATCH):
            found = table.slice(start, _BATCH).to_pylist()
            self.embeddings.vectors.update({row["text"]: row["vector"] for row in found})
            self.vectorstore.add_documents(
                [
                    Document(row["text"], metadata={NUMBER: row["external_id"], "start": start})
                    for row in found
                ]
            )

    def similarity_search(self, *, text: str, vector: list[float], limit: int) -> dict[str, Any]:
        """The nearest documents."""
        self.embeddings.vectors[text] = vector
        seconds, found = timed(lambda: self.vectorstore.similarity_search(text, k=limit))
        return answered(seconds, found)


def answered(seconds: float, found: list[Document]) -> dict[str, Any]:
    """The answer of a side that was asked for documents."""
    return {"seconds": seconds, "ids": [one.metadata[NUMBER] for one in found]}


def serve_vectorstore(side: VectorStoreSide, more: Mapping[str, Handler] | None = None) -> None:
    """Answer the questions about documents, and `more`."""
    own: dict[str, Handler] = {"load": side.load, "similarity_search": side.similarity_search}
    serve({**own, **(more or {})})

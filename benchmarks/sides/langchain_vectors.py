"""What LangChain's vector stores are asked alike: about conversations, and about documents."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from pyarrow import feather

from benchmarks.sides.conversations import Conversations, Said, Vector, Wanted
from benchmarks.sides.measuring import timed
from benchmarks.sides.protocol import Handler

NUMBER = "external_id"
"""The metadata key of what a record is called in the corpus: not every peer gives ids back."""
_BATCH = 1_000


class Known(Embeddings):  # type: ignore[misc]  # the framework stands in another environment
    """Embeds nothing: gives the vectors that texts are known by, so that no model is timed."""

    def __init__(self, vector_of: Callable[[str], Vector]) -> None:
        self._vector_of = vector_of

    def embed_documents(self, texts: list[str]) -> list[Vector]:
        """What is known of each text."""
        return [self._vector_of(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        """What is known of a text."""
        return self._vector_of(text)

    async def aembed_documents(self, texts: list[str]) -> list[Vector]:
        """As `embed_documents`; without this the framework takes a thread."""
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> Vector:
        """As `embed_query`."""
        return self.embed_query(text)


class LangChainVectors(Conversations):
    """Conversations in a vector store, asked through `similarity_search` and its keywords."""

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


class Documents:
    """The records of a corpus in a vector store, asked through its synchronous methods."""

    def __init__(self, make: Callable[[str, Embeddings], VectorStore]) -> None:
        """`make` is called with a directory of its own and the embeddings."""
        self._make = make
        self.known: dict[str, Vector] = {}
        self.vectorstore: VectorStore

    def operations(self) -> dict[str, Handler]:
        """What a side answers about them."""
        return {"load": self.load, "similarity_search": self.similarity_search}

    def load(self, *, uri: str, corpus: str, rows: int) -> None:
        """Add the first `rows` records."""
        self.vectorstore = self._make(uri, Known(self.known.__getitem__))
        table = feather.read_table(corpus).slice(0, rows)
        for start in range(0, rows, _BATCH):
            found = table.slice(start, _BATCH).to_pylist()
            self.known.update({row["text"]: row["vector"] for row in found})
            self.vectorstore.add_documents(
                [
                    Document(row["text"], metadata={NUMBER: row["external_id"], "start": start})
                    for row in found
                ]
            )

    def similarity_search(self, *, text: str, vector: Vector, limit: int) -> dict[str, Any]:
        """The nearest documents."""
        self.known[text] = vector
        seconds, found = timed(lambda: self.vectorstore.similarity_search(text, k=limit))
        return answered(seconds, found)


def answered(seconds: float, found: list[Document]) -> dict[str, Any]:
    """The answer of a side that was asked for documents."""
    return {"seconds": seconds, "ids": [one.metadata[NUMBER] for one in found]}

"""The LanceDB store of langchain-community."""

from langchain_community.vectorstores import LanceDB
from langchain_core.embeddings import Embeddings

from benchmarks.sides.conversations import Wanted, operations
from benchmarks.sides.langchain_vectors import Documents, Known, LangChainVectors
from benchmarks.sides.protocol import serve


def _make(uri: str, embeddings: Embeddings) -> LanceDB:
    # With its default, each call would put a new table in place of the one before.
    return LanceDB(uri=uri, embedding=embeddings, mode="append")


class Community(LangChainVectors):
    """In append mode."""

    def _open(self, folder: str) -> None:
        self.api = _make(folder, Known(self._rows.vector_of))

    def _words(self, wanted: Wanted) -> list[str]:
        return self._scored(wanted, query_type="fts")

    def _hybrid(self, wanted: Wanted) -> list[str]:
        return self._scored(wanted, query_type="hybrid")

    def _filter(self, wanted: Wanted) -> list[str]:
        # Metadata is a struct here, so that a key alone is no column.
        return self._found(wanted, filter={"metadata.topic": wanted.topic})

    def _scored(self, wanted: Wanted, *, query_type: str) -> list[str]:
        # Where there is no score that it knows of, it returns documents without one.
        found = self.api.similarity_search_with_score(
            wanted.text, wanted.limit, query_type=query_type
        )
        documents = [one[0] if isinstance(one, tuple) else one for one in found]
        return [document.page_content for document in documents]


if __name__ == "__main__":
    packages = ("langchain-community", "langchain-core", "lancedb")
    serve(operations(Community, *packages) | Documents(_make).operations())

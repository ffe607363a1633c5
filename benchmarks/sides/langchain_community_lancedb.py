"""The LanceDB store of langchain-community."""

from langchain_community.vectorstores import LanceDB

from benchmarks.sides.conversations import Wanted, serve_peer
from benchmarks.sides.langchain_vectors import Known, LangChainVectors


class Community(LangChainVectors):
    """In append mode: with its default, each call would put a new table in place of the old one."""

    def _open(self, folder: str) -> None:
        self.api = LanceDB(uri=folder, embedding=Known(self._rows), mode="append")

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
    serve_peer(Community, "langchain-community", "langchain-core", "lancedb")

"""This project's vector store for LangChain."""

from langchain_lance_context import LanceContextVectorStore

from benchmarks.sides.conversations import Wanted, operations
from benchmarks.sides.langchain_vectors import Known, LangChainVectors
from benchmarks.sides.protocol import serve
from lance_context_core import ContextStore


class Ours(LangChainVectors):
    """Over a store that is opened with its defaults."""

    def _open(self, folder: str) -> None:
        self._store = ContextStore.open(folder)
        self.api = LanceContextVectorStore(self._store, Known(self._rows.vector_of))

    def _settle(self) -> None:
        self._store.maintain()

    def _words(self, wanted: Wanted) -> list[str]:
        return self._found(wanted, mode="text")

    def _hybrid(self, wanted: Wanted) -> list[str]:
        return self._found(wanted, mode="hybrid")

    def _filter(self, wanted: Wanted) -> list[str]:
        return self._found(wanted, filter={"topic": wanted.topic})


if __name__ == "__main__":
    serve(operations(Ours, "langchain-lance-context", "lance-context-core", "langchain-core"))

"""This project's vector store for LlamaIndex."""

from llama_index_lance_context import LanceContextVectorStore

from benchmarks.sides.conversations import operations
from benchmarks.sides.llama_index_vectors import LlamaIndexVectors
from benchmarks.sides.protocol import serve
from lance_context_core import ContextStore


class Ours(LlamaIndexVectors):
    """Over a store that is opened with its defaults."""

    def _open(self, folder: str) -> None:
        self._store = ContextStore.open(folder)
        self.api = LanceContextVectorStore(self._store)

    def _settle(self) -> None:
        self._store.maintain()


if __name__ == "__main__":
    serve(operations(Ours, "llama-index-lance-context", "lance-context-core", "llama-index-core"))

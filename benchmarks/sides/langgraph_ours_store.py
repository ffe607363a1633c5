"""This project's store for LangGraph."""

from langchain_lance_context import LanceContextStore

from benchmarks.sides.conversations import operations
from benchmarks.sides.langgraph_items import LangGraphItems, index_of
from benchmarks.sides.protocol import serve
from lance_context_core import ContextStore


class Ours(LangGraphItems):
    """Over a store that is opened with its defaults."""

    def _open(self, folder: str) -> None:
        self._store = ContextStore.open(folder)
        self.api = LanceContextStore(self._store, index=index_of(self._rows))

    def _settle(self) -> None:
        self._store.maintain()


if __name__ == "__main__":
    serve(operations(Ours, "langchain-lance-context", "lance-context-core", "langgraph"))

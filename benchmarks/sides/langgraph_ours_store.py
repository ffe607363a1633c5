"""This project's store for LangGraph."""

from langchain_lance_context import LanceContextStore

from benchmarks.sides.conversations import serve_peer
from benchmarks.sides.langgraph_items import LangGraphItems, index_of
from lance_context_core import ContextStore


class Ours(LangGraphItems):
    """Over a store that is opened with its defaults."""

    def _open(self, folder: str) -> None:
        self._store = ContextStore.open(folder)
        self.api = LanceContextStore(self._store, index=index_of(self._rows))

    def _settle(self) -> None:
        self._store.maintain()


if __name__ == "__main__":
    serve_peer(Ours, "langchain-lance-context", "lance-context-core", "langgraph")

"""This project's checkpointer for LangGraph."""

from langchain_lance_context import LanceContextSaver

from benchmarks.sides.conversations import serve_peer
from benchmarks.sides.langgraph_threads import LangGraphThreads
from lance_context_core import ContextStore


class Ours(LangGraphThreads):
    """Over a store that is opened with its defaults."""

    def _open(self, folder: str) -> None:
        self._store = ContextStore.open(folder)
        self._compile(LanceContextSaver(self._store))

    def _settle(self) -> None:
        self._store.maintain()


if __name__ == "__main__":
    serve_peer(Ours, "langchain-lance-context", "lance-context-core", "langgraph")

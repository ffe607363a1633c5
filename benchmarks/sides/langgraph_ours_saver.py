"""This project's checkpointer for LangGraph."""

from langchain_lance_context import LanceContextSaver

from benchmarks.sides.conversations import operations
from benchmarks.sides.langgraph_threads import LangGraphThreads
from benchmarks.sides.protocol import serve
from lance_context_core import ContextStore


class Ours(LangGraphThreads):
    """Over a store that is opened with its defaults."""

    def _open(self, folder: str) -> None:
        self._store = ContextStore.open(folder)
        self._compile(LanceContextSaver(self._store))

    def _settle(self) -> None:
        self._store.maintain()


if __name__ == "__main__":
    serve(operations(Ours, "langchain-lance-context", "lance-context-core", "langgraph"))

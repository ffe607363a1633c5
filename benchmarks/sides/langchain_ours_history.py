"""This project's chat history for LangChain, and its retriever over what was said."""

from typing import Any

from langchain_lance_context import LanceContextChatMessageHistory, LanceContextRetriever

from benchmarks.sides.conversations import LackingError, Wanted, operations
from benchmarks.sides.known import Known
from benchmarks.sides.langchain_messages import LangChainHistory
from benchmarks.sides.protocol import serve
from lance_context_core import ContextStore


class Ours(LangChainHistory):
    """Over a store with an embedder, so that messages have vectors as they are added."""

    def _open(self, folder: str) -> None:
        self._store = ContextStore.open(folder, embedder=Known(self._rows))
        self._retriever = LanceContextRetriever(store=self._store, neighbours=0)

    def _settle(self) -> None:
        self._store.maintain()

    def _history(self, session: str) -> LanceContextChatMessageHistory:
        return LanceContextChatMessageHistory(self._store, session)

    def _last(self, session: str, limit: int) -> list[str]:
        history = LanceContextChatMessageHistory(self._store, session, limit=limit)
        return [str(message.content) for message in history.messages]

    def _vector(self, wanted: Wanted) -> list[str]:
        return self._found(wanted, mode="vector")

    def _words(self, wanted: Wanted) -> list[str]:
        return self._found(wanted, mode="text")

    def _hybrid(self, wanted: Wanted) -> list[str]:
        return self._found(wanted, mode="hybrid")

    def _filter(self, wanted: Wanted) -> list[str]:
        found = self._found(wanted, mode="vector", filter={"topic": wanted.topic})
        if not found:
            # A LangChain message has no place for metadata that a store could know of.
            raise LackingError("no metadata")
        return found

    def _found(self, wanted: Wanted, **more: Any) -> list[str]:
        found = self._retriever.invoke(wanted.text, k=wanted.limit, **more)
        return [document.page_content for document in found]


if __name__ == "__main__":
    serve(operations(Ours, "langchain-lance-context", "lance-context-core", "langchain-core"))

"""A collection of the store as AgentScope's retrieval service."""

from collections.abc import Mapping
from typing import Any

from agentscope_lance_context._handles import StoreService, UserHandle
from agentscope_lance_context._messages import first_text
from agentscope_lance_context._runtime import Message, RAGService
from lance_context_core import Document, InvalidRequestError
from lance_context_core.adapting import StoreLike
from lance_context_core.arguments import SearchMode


class LanceContextRAGService(StoreService, RAGService):
    """Retrieves the best texts of a collection for a question."""

    def __init__(
        self,
        store: StoreLike,
        collection: str = "default",
        *,
        embedder: Any = None,
        mode: SearchMode | None = None,
        filter: Mapping[str, Any] | None = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `stop` closes again.

        - `embedder`: of this collection, if it is not the store's.
        - `mode`: `"hybrid"`, `"vector"` or `"text"`; default: hybrid with an embedder, else text.
        - `filter`: of documents.
        """
        self._handle = UserHandle(store)
        self._collection = collection
        self._embedder = embedder
        self._mode = mode
        self._filter = filter

    async def add_docs(self, docs: Any) -> list[str]:
        """Add a document, or a list of them in one commit; returns their ids, in order.

        Each is a text, a `Document`, or LangChain's `Document`.
        """
        several = docs if isinstance(docs, list | tuple) else [docs]
        ids: list[str] = await self._documents().add([_document(one) for one in several])
        return ids

    async def retrieve(self, query: str, k: int = 1) -> list[str]:
        """The texts of the best `k` documents, best first; none for a blank query or k below 1."""
        if not (query or "").strip() or k < 1:
            return []
        hits = await self._documents().search(query, mode=self._mode, filter=self._filter, limit=k)
        return [hit.record.text for hit in hits if hit.record.text is not None]

    async def get_query_text(self, message: Message | None) -> str:
        """The query: the first text of a message; empty if it has none."""
        return first_text(message) if message else ""

    def _documents(self) -> Any:
        return self._handle.aio.vectors(self._collection, embedder=self._embedder)


def _document(given: object) -> Document:
    if isinstance(given, Document):
        return given
    if isinstance(given, str):
        return Document(text=given)
    text = getattr(given, "page_content", None)
    if not isinstance(text, str):
        raise InvalidRequestError(
            f"docs has {given!r:.80}: give a text, a Document, or one of LangChain's"
        )
    return Document(
        id=getattr(given, "id", None),
        text=text,
        metadata=getattr(given, "metadata", None) or {},
    )

"""What is promised of what is found by its meaning: documents, and the memories of users."""

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from lance_context_core.messages import Message
from lance_context_core.records import ContextRecord, Document, Page, SearchHit

SearchMode = Literal["hybrid", "vector", "text"]
"""By words and vectors at once, or by one of them."""


@runtime_checkable
class VectorStore(Protocol):
    """One collection of documents with vectors; every collection has a dimension of its own."""

    async def add(self, documents: Sequence[Document]) -> list[str]:
        """Add documents in one commit; returns their ids, in order.

        Raises AlreadyExistsError, before anything is written, if an id is taken by another text.
        """

    async def upsert(self, documents: Sequence[Document]) -> list[str]:
        """Add documents, replacing those whose ids exist, in one commit; returns their ids."""

    async def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        vector: Sequence[float] | None = None,
        mode: SearchMode | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
    ) -> list[SearchHit[Document]]:
        """The best matches, best first; as many as `limit` if as many match `filter`."""

    async def get(self, ids: Sequence[str]) -> list[Document]:
        """Documents in the order of `ids`; unknown ids are left out."""

    async def delete(
        self, ids: Sequence[str] | None = None, *, filter: Mapping[str, Any] | None = None
    ) -> int:
        """Delete by id, by filter, or by both at once; returns how many there were."""

    async def count(self, *, filter: Mapping[str, Any] | None = None) -> int:
        """How many documents match."""

    async def list_collections(self) -> list[str]:
        """The names of all collections, in alphabetical order."""

    async def delete_collection(self) -> int:
        """Remove this collection; returns how many documents it had."""


@runtime_checkable
class MemoryService(Protocol):
    """Long-term memories of users, kept by session, found across sessions."""

    async def add(
        self,
        memories: Sequence[str | Message],
        *,
        user_id: str = "",
        session_id: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> builtins.list[str]:
        """Remember texts or messages in one commit; returns their ids.

        What is remembered already, by the id of a message, is left as it is, so a retry is safe.
        Raises AlreadyExistsError, before anything is written, if it says something else.
        """

    async def search(
        self,
        query: str,
        *,
        user_id: str = "",
        session_id: str | None = None,
        mode: SearchMode | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
    ) -> builtins.list[SearchHit[ContextRecord]]:
        """What a user's memories say about `query`, best first; in one session, or in all."""

    async def list(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        page: int = 1,
        page_size: int = 10,
    ) -> Page[ContextRecord]:
        """A user's memories by session, then in the order in which they were added."""

    async def delete(
        self,
        *,
        user_id: str = "",
        session_id: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Forget a user's memories: all, those of one session, or some; returns how many."""

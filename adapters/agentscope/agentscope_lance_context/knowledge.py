"""The store's knowledge of users as AgentScope's memory service."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from agentscope_lance_context._checks import check_choice, filtered, page_of
from agentscope_lance_context._handles import StoreService, UserHandle
from agentscope_lance_context._messages import distinct, normalized, question, read, to_canonical
from agentscope_lance_context._places import TOLD
from agentscope_lance_context._runtime import MemoryService, Message
from lance_context_core import Message as CanonicalMessage
from lance_context_core import TextPart
from lance_context_core.adapting import StoreLike
from lance_context_core.knowledge import AsyncManagedMemory, Model

_DEFAULT_SESSION = "default"
_MANY = 100
"""Default number of facts."""
_ROLES = ("user", "assistant")
_FACTS = {"kind": "fact"}


class LanceContextKnowledgeService(StoreService, MemoryService):
    """Facts of a user, extracted from added messages, each with evidence; newer ones supersede.

    Searches and lists return messages with a fact each, from all that any framework stored of the
    user. Messages stay in the store, in sessions of the service's own, and `store.knowledge`
    explains, corrects and undoes.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        model: Model | None = None,
        infer: Literal["auto", "later"] = "auto",
        embedder: Any = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `stop` closes again.

        - `model`: extracts the facts, such as `language_model(chat_model)`; absent means rules.
        - `infer`: `"later"` stores messages and leaves the facts to
          `store.knowledge.jobs.run_due()`, so that no turn waits for a model.
        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        """
        self._handle = UserHandle(store, embedder=embedder)
        self._model = model
        self._infer: Literal["auto", "later"] = infer
        check_choice(infer, "infer", "auto", "later")
        self._memory(None)  # Refuses what is no model.

    async def add_memory(self, user_id: str, messages: Any, session_id: str | None = None) -> None:
        """Stores the texts of users and agents, atomically, and extracts facts from them.

        Each message counts once in a session, by its id. An empty list and None are allowed.
        Without a session, or with an empty one, it is the session `default`.
        """
        session = _session(session_id)
        said = [
            _turn(canonical, session=session, id=id)
            for id, message in distinct(normalized(messages, "messages"))
            if message.type == "message"
            for canonical in [to_canonical(message)]
            if canonical.role in _ROLES and canonical.text.strip()
        ]
        if said:
            await self._memory(user_id).add(said, session_id=session, infer=self._infer)

    async def search_memory(
        self, user_id: str, messages: Any, filters: Mapping[str, Any] | None = None
    ) -> list[Message]:
        """The facts for the first text of the last of `messages`, the best first.

        At most `filters["top_k"]`, 100 by default; superseded facts are left out. Empty without
        messages, and for a `top_k` below 1. Calls no model.
        """
        query = question(messages)
        top_k = filtered(filters, "top_k", _MANY)
        if not query.strip() or top_k < 1:
            return []
        hits = await self._memory(user_id).search(
            query, top_k=top_k, search_type="facts", filter=_FACTS
        )
        return await read([hit.record.to_message() for hit in hits])

    async def list_memory(
        self, user_id: str, filters: Mapping[str, Any] | None = None
    ) -> list[Message]:
        """A page of a user's facts, in the order of extraction.

        `filters` has the `page_num`, from 1 on, and the `page_size`, 10 by default. A page before
        the first, past the last, or of no size is empty.
        """
        page, size = page_of(filters)
        if page < 1 or size < 1:
            return []
        facts = (
            await self._handle.of(user_id)
            .context("knowledge")
            .list(size, (page - 1) * size, _FACTS, include_binary=False, include_embedding=False)
        )
        return await read([_fact(one) for one in facts])

    async def delete_memory(self, user_id: str, session_id: str | None = None) -> None:
        """Erases this service's messages of a session, or without one of a user.

        Facts without other evidence are erased too, from every file of the store and all its
        versions; without messages it does nothing.
        """
        store = self._handle.of(user_id)
        sessions = [_session(session_id)] if session_id else await self._sessions(user_id)
        turns = [
            message.id
            for session in sessions
            for message in await store.history.get_messages("", session_id=session)
            if message.id
        ]
        if turns:
            await store.erase(ids=turns, derived="rebuild")

    async def delete_user_memory(self, user_id: str) -> None:
        """Erases this service's messages of a user."""
        await self.delete_memory(user_id)

    async def get_query_text(self, message: Message | None) -> str:
        """The query: the first text of a message; empty if it has none."""
        return question([message])

    def _memory(self, user_id: str | None) -> AsyncManagedMemory:
        return AsyncManagedMemory(self._handle.of(user_id), model=self._model)

    async def _sessions(self, user_id: str) -> list[str]:
        """The messages of the user."""
        listed = await self._handle.of(user_id).sessions.list()
        return [one.id for one in listed if one.id.startswith(TOLD)]


def _session(session_id: str | None) -> str:
    """The session of the turns, separate from another service's conversation."""
    return TOLD + (session_id or _DEFAULT_SESSION)


def _turn(message: CanonicalMessage, *, session: str, id: str | None) -> CanonicalMessage:
    """The text alone, with a stable id for the same text of the same message."""
    words = json.dumps([session, id, message.role, message.name, message.text])
    named = f"told-{hashlib.sha256(words.encode()).hexdigest()[:32]}"
    return replace(message, id=named, parts=(TextPart(text=message.text),), native=None)


def _fact(fields: Mapping[str, Any]) -> CanonicalMessage:
    """The message of a fact's record."""
    return CanonicalMessage(
        role=fields["role"] or "user",
        parts=(TextPart(text=fields["text"] or ""),),
        id=fields["id"],
        name=fields["name"],
        created_at=fields["created_at"],
        metadata=fields["metadata"],
    )

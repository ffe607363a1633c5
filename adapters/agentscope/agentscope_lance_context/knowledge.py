"""What is known of users, with what proves it, as AgentScope's memory service."""

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
"""How many facts are found where no one says how many to find."""
_ROLES = ("user", "assistant")
_FACTS = {"kind": "fact"}


class LanceContextKnowledgeService(StoreService, MemoryService):
    """Facts of a user, made of what is added: each proves itself, and the newer one counts.

    What is found and listed are messages with a fact each, of all that is known of the user, whoever
    was told it. What was said stays in the store, in sessions of the service's own, and
    `store.knowledge` explains, corrects and undoes.
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

        - `model`: what finds the facts, such as `language_model(chat_model)`; absent means rules.
        - `infer`: `"later"` keeps what is added, and leaves the facts to
          `store.knowledge.jobs.run_due()`, so that no turn waits for a model.
        - `embedder`: for a URI, what makes the vectors; see `AsyncContextStore.open`.
        """
        self._handle = UserHandle(store, embedder=embedder)
        self._model = model
        self._infer: Literal["auto", "later"] = infer
        check_choice(infer, "infer", "auto", "later")
        self._memory(None)  # Refuses what is no model.

    async def add_memory(self, user_id: str, messages: Any, session_id: str | None = None) -> None:
        """Keep what users and agents said in words, all or none of it, and make facts of it.

        Each message counts once in a session, by its id. No messages, and None, are no error.
        Without a session, or with an empty one, it is that of the name `default`.
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
        """What is known of a user about the first text of the last of `messages`, the best first.

        So many facts as `filters["top_k"]` says, 100 where it says nothing; what is superseded is not
        among them. Nothing for no messages, and for a `top_k` below 1. No model is called.
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
        """A page of what is known of a user, in the order in which it became known.

        `filters` has the `page_num`, from 1 on, and the `page_size`, which is 10 by default. A page
        before the first, past the last, or of no size is empty.
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
        """Erase what this service was told in a session, or without one by a user.

        With it go the facts that nothing else supports, out of every file of the store and all its
        versions; nothing is no error.
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
        """Erase what this service was told by a user."""
        await self.delete_memory(user_id)

    async def get_query_text(self, message: Message | None) -> str:
        """What is searched for: the first text of a message; empty if it has none."""
        return question([message])

    def _memory(self, user_id: str | None) -> AsyncManagedMemory:
        return AsyncManagedMemory(self._handle.of(user_id), model=self._model)

    async def _sessions(self, user_id: str) -> list[str]:
        """Those in which the user told something."""
        listed = await self._handle.of(user_id).sessions.list()
        return [one.id for one in listed if one.id.startswith(TOLD)]


def _session(session_id: str | None) -> str:
    """Where the turns are: beside the conversation, which another service may keep too."""
    return TOLD + (session_id or _DEFAULT_SESSION)


def _turn(message: CanonicalMessage, *, session: str, id: str | None) -> CanonicalMessage:
    """The words alone, with an id that the same words of the same message have again."""
    words = json.dumps([session, id, message.role, message.name, message.text])
    named = f"told-{hashlib.sha256(words.encode()).hexdigest()[:32]}"
    return replace(message, id=named, parts=(TextPart(text=message.text),), native=None)


def _fact(fields: Mapping[str, Any]) -> CanonicalMessage:
    """A fact, as a record of it becomes a message."""
    return CanonicalMessage(
        role=fields["role"] or "user",
        parts=(TextPart(text=fields["text"] or ""),),
        id=fields["id"],
        name=fields["name"],
        created_at=fields["created_at"],
        metadata=fields["metadata"],
    )

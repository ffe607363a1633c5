"""Long-term memories of an agent: stored once, found in other sessions."""

import asyncio
import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from agentscope_lance_context._handles import UserHandle
from lance_context_core import AsyncContextStore, ContextRecord, Field, InvalidRequestError, Message
from lance_context_core.adapting import content_of, encodable
from lance_context_core.arguments import SearchMode

Search = Literal["words", "hybrid", "vector"]
"""By words, in the order of writing; or by relevance."""

MODES: dict[str, SearchMode] = {"words": "text", "hybrid": "hybrid", "vector": "vector"}
"""The store's name of the mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories:
    """The memories of one user, or of one agent and user."""

    handle: UserHandle
    user_id: str
    agent_id: str | None = None
    search: str = "words"
    ttl: timedelta | None = None

    async def record(self, messages: Iterable[Message], *, session_id: str) -> None:
        """Stores messages in one commit, each once in a session, by its id."""
        # The times keep the order of messages of one commit.
        now = self.handle.now()
        distinct: dict[str | None, Message] = {}
        for number, message in enumerate(messages):
            dated = replace(message, created_at=now + timedelta(microseconds=number))
            distinct.setdefault(message.id, dated)
        memories = [*distinct.values()]
        if memories:
            expires_at = None if self.ttl is None else now + self.ttl
            memory = self._store(self.agent_id).memory
            await memory.add(
                memories, session_id=session_id, expires_at=expires_at, keep_existing=True
            )

    async def note(self, facts: Iterable[str]) -> int:
        """Stores texts without a session, each once; returns the number of given texts.

        Blank ones are skipped.
        """
        messages = [
            Message.user(encodable(fact), id=_id_of(fact)) for fact in facts if fact.strip()
        ]
        await self.record(messages, session_id="")
        return len(messages)

    async def recall(
        self,
        queries: Iterable[str],
        *,
        limit: int,
        without: Collection[str] = (),
        of_all_agents: bool = False,
    ) -> list[ContextRecord]:
        """The memories for each of `queries`, at most `limit` for each, without duplicates.

        By words in the order of writing, by relevance the best first. Searches all sessions, but
        not the messages with these ids. A limit below 1 and a blank query find nothing.
        """
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise InvalidRequestError(f"limit={limit!r:.80}: give a whole number")
        asked = [encodable(query) for query in queries if query.strip()]
        if limit < 1 or not asked:
            return []
        memory = self._store(None if of_all_agents else self.agent_id).memory
        filter = Field("id").not_in([*without]) if without else None
        mode = MODES[self.search]
        found = await asyncio.gather(
            *(memory.search(one, mode=mode, filter=filter, limit=limit) for one in asked)
        )
        records = {
            (hit.record.session_id, hit.record.id): hit.record for hits in found for hit in hits
        }
        if self.search == "words":
            return sorted(records.values(), key=lambda record: record.created_at)
        return [*records.values()]

    def _store(self, agent_id: str | None) -> AsyncContextStore:
        store = self.handle.of(self.user_id)
        return store if agent_id is None else store.scope(agent_id=agent_id)


def as_lines(records: Sequence[ContextRecord]) -> list[str]:
    """The text of each memory, with its speaker if known."""
    told = [(record.name, content_of(record)) for record in records]
    return [f"{name}: {content}" if name else content for name, content in told if content]


def _id_of(fact: str) -> str:
    """A stable id for a text."""
    return f"note-{hashlib.sha256(fact.encode(errors='surrogatepass')).hexdigest()[:32]}"

"""Conversations, from synchronous code."""

from collections.abc import Sequence
from dataclasses import dataclass

from lance_context_core._bridge import bridge
from lance_context_core.filters import FilterLike
from lance_context_core.messages import Message
from lance_context_core.protocols import SearchMode
from lance_context_core.records import ContextRecord, SearchHit
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.searching import SearchOptions


@dataclass(frozen=True, slots=True)
class History:
    """The history of conversations; the twin of `AsyncHistory`."""

    _twin: AsyncHistory

    def append(self, agent_id: str, message: Message, *, session_id: str, run_id: str = "") -> str:
        """Add one message at the end of a session; returns its id. See `AsyncHistory.append`."""
        return bridge.run(
            self._twin.append(agent_id, message, session_id=session_id, run_id=run_id)
        )

    def append_many(
        self, agent_id: str, messages: Sequence[Message], *, session_id: str, run_id: str = ""
    ) -> list[str]:
        """Add messages in one commit; returns their ids. See `AsyncHistory.append_many`."""
        return bridge.run(
            self._twin.append_many(agent_id, messages, session_id=session_id, run_id=run_id)
        )

    def get_messages(
        self,
        agent_id: str,
        *,
        session_id: str,
        limit: int | None = None,
        offset: int = 0,
        last: int | None = None,
    ) -> list[Message]:
        """Messages in order: the first ones, or the `last`. See `AsyncHistory.get_messages`."""
        return bridge.run(
            self._twin.get_messages(
                agent_id, session_id=session_id, limit=limit, offset=offset, last=last
            )
        )

    def count(self, agent_id: str, *, session_id: str) -> int:
        """How many messages a session has; 0 if it is unknown. See `AsyncHistory.count`."""
        return bridge.run(self._twin.count(agent_id, session_id=session_id))

    def clear(self, agent_id: str, *, session_id: str) -> int:
        """Forget a session's messages; returns how many. See `AsyncHistory.clear`."""
        return bridge.run(self._twin.clear(agent_id, session_id=session_id))

    def clear_run(self, agent_id: str, *, session_id: str, run_id: str) -> int:
        """Forget the messages of one run; returns how many. See `AsyncHistory.clear_run`."""
        return bridge.run(self._twin.clear_run(agent_id, session_id=session_id, run_id=run_id))

    def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        vector: Sequence[float] | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        mode: SearchMode | None = None,
        filter: FilterLike | None = None,
        limit: int = 10,
        options: SearchOptions | None = None,
    ) -> list[SearchHit[ContextRecord]]:
        """The messages that answer `query` best, best first. See `AsyncHistory.search`."""
        return bridge.run(
            self._twin.search(
                query,
                vector=vector,
                agent_id=agent_id,
                session_id=session_id,
                mode=mode,
                filter=filter,
                limit=limit,
                options=options,
            )
        )

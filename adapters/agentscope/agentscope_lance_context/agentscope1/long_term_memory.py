"""Long-term memory for agents of agentscope 1.x."""

from collections.abc import Iterable, Sequence
from typing import Any

from agentscope_lance_context._checks import check_choice, check_seconds
from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._remembering import MODES, Memories, Search, as_lines
from agentscope_lance_context.agentscope1._recording import DEFAULT_SESSION, Recording
from lance_context_core import Message
from lance_context_core.adapting import StoreLike


class LanceContextLongTermMemory(Recording):
    """Long-term memory: messages of a user and agents, found in all sessions of the user.

    `record` and `retrieve` are called before and after each reply (static control);
    `record_to_memory` and `retrieve_from_memory` are the agent's tools.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        search: Search = "words",
        ttl_seconds: float | None = None,
        embedder: Any = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `session_id`: of recorded messages; default: the session `default`.
        - `search`: `"words"`: the best matches by words, in the order of writing; or the most
          relevant, by meaning (`"vector"`) or by both (`"hybrid"`).
        - `ttl_seconds`: lifetime of a message; absent means for ever.
        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        """
        super().__init__()
        self._handle = UserHandle(store, embedder=embedder)
        self._session_id = session_id or DEFAULT_SESSION
        self._memories = Memories(
            handle=self._handle,
            user_id=user_id or "",
            search=check_choice(search, "search", *MODES),
            ttl=check_seconds(ttl_seconds, "ttl_seconds"),
        )

    async def _keep(self, said: Sequence[Message]) -> None:
        await self._memories.record(said, session_id=self._session_id)

    async def _note(self, facts: Sequence[str]) -> int:
        return await self._memories.note(facts)

    async def _lines(self, queries: Iterable[str], limit: int) -> str:
        return "\n".join(as_lines(await self._memories.recall(queries, limit=limit)))

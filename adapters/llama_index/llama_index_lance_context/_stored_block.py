"""Shared by the store's blocks for LlamaIndex's `Memory`."""

from abc import abstractmethod
from collections.abc import Sequence

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import ConfigDict, Field
from llama_index.core.memory.memory import BaseMemoryBlock

from lance_context_core.adapting import HandleOwner, encodable

SESSION = "session_id"
"""The key that LlamaIndex's own blocks write into shared messages."""


class StoredBlock(HandleOwner, BaseMemoryBlock[str]):
    """A block that stores messages that leave the conversation, by session."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    context_window: int = Field(default=1, ge=1)
    """Number of the last messages that form its query."""

    async def aput(
        self,
        messages: list[ChatMessage],
        from_short_term_memory: bool = False,  # noqa: FBT001, FBT002 - the base has it so
        session_id: str | None = None,
    ) -> None:
        """Stores messages, each once; empty ones are skipped."""
        if from_short_term_memory and not self.accept_short_term_memory:
            return
        await self._keep(messages, session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        sessions = [one.additional_kwargs.get(SESSION) for one in messages]
        for session_id in dict.fromkeys(sessions):
            given = zip(messages, sessions, strict=True)
            await self._keep([one for one, of in given if of == session_id], session_id)

    @abstractmethod
    async def _keep(self, messages: Sequence[ChatMessage], session_id: str | None) -> None: ...

    def _asked(self, messages: Sequence[ChatMessage] | None) -> str:
        """The query of the last messages; empty without text."""
        recent = [one.content or "" for one in messages or []]
        return str(encodable("\n".join(recent[-self.context_window :]).strip()))

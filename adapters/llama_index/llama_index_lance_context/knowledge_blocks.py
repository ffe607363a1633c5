"""What is known of a user, with what proves it, as a block of LlamaIndex's `Memory`."""

from typing import Any, Literal

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr
from llama_index.core.memory.memory import BaseMemoryBlock

from lance_context_core import InvalidRequestError
from lance_context_core.adapting import Handle, HandleOwner, StoreLike
from lance_context_core.knowledge import KnowledgeHit
from llama_index_lance_context._messages import to_canonical

_SESSION = "session_id"


class LanceContextKnowledgeBlock(HandleOwner, BaseMemoryBlock[str]):
    """Makes facts of what leaves the conversation, and tells those that matter for the last messages.

    As LlamaIndex's `FactExtractionMemoryBlock`, it keeps facts; but each has the turn that says so,
    one that is no longer true gives way to the newer one, and none is lost when another is condensed.
    They are told as `- fact (said on 2024-05-01)`, best first, and no model is called for that.

    - `model`: what finds the facts, such as `language_model(llm)`; absent means rules, in English.
    - `infer="later"`: messages are kept, and the job is owed, until somebody calls
      `store.knowledge.jobs.run_due()`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = "known"
    priority: int = 1
    """Blocks with the lowest are cut first; 0 never is."""
    store: Any = Field(description="An open store, or the URI of one.")
    user_id: str = ""
    """Whose knowledge it is, in all sessions."""
    model: Any = Field(default=None, exclude=True)
    infer: Literal["auto", "later"] = "auto"
    limit: int = Field(default=5, ge=1)
    """How many facts it tells at most."""
    context_window: int = Field(default=1, ge=1)
    """How many of the last messages it looks for answers to."""

    _handle: Handle = PrivateAttr()
    _knowledge: Any = PrivateAttr()

    def __init__(self, store: StoreLike, **fields: Any) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again."""
        super().__init__(**{"store": store, **fields})
        if not self.user_id:
            raise InvalidRequestError("user_id is empty: say whose knowledge it is")
        self._handle = Handle(store)
        own = self._handle.aio.scope(user_id=self.user_id)
        self._knowledge = own.knowledge.using(model=self.model)

    async def aput(
        self,
        messages: list[ChatMessage],
        from_short_term_memory: bool = False,  # noqa: FBT001, FBT002 - the base has it so
        session_id: str | None = None,
    ) -> None:
        """Keep messages, and make facts of them; empty ones are no messages."""
        if from_short_term_memory and not self.accept_short_term_memory:
            return
        await self._keep(messages, session_id)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        for session_id in dict.fromkeys(one.additional_kwargs.get(_SESSION) for one in messages):
            given = [one for one in messages if one.additional_kwargs.get(_SESSION) == session_id]
            await self._keep(given, session_id)

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        """What is known about the last messages; empty if nothing is, or they say nothing."""
        recent = [one.content or "" for one in messages or []]
        query = "\n".join(recent[-self.context_window :]).strip()
        if not query:
            return ""
        hits = await self._knowledge.search(
            query,
            top_k=self.limit,
            search_type="facts",
            filter={"kind": "fact"},
            evidence=True,
        )
        return "\n".join(map(_line, hits))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The first facts, those that matter most, without the last ones; None if none is left."""
        lines = content.splitlines()
        n_characters = 4 * tokens_to_truncate
        while lines and n_characters > 0:
            n_characters -= len(lines.pop()) + 1
        return "\n".join(lines) or None

    async def _keep(self, messages: list[ChatMessage], session_id: str | None) -> None:
        given = [to_canonical(one) for one in messages if (one.content or "").strip()]
        if given:
            await self._knowledge.add(given, session_id=session_id or None, infer=self.infer)


def _line(hit: KnowledgeHit) -> str:
    days = [f"{one.said_at:%Y-%m-%d}" for one in hit.evidence if one.said_at]
    return f"- {hit.record.text} (said on {', '.join(days)})" if days else f"- {hit.record.text}"

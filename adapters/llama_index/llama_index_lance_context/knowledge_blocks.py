"""What is known of a user, with what proves it, as a block of LlamaIndex's `Memory`."""

from collections.abc import Sequence
from typing import Any, Literal

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr

from lance_context_core import InvalidRequestError
from lance_context_core.adapting import Handle, StoreLike
from lance_context_core.knowledge import KnowledgeHit
from llama_index_lance_context._messages import to_canonical
from llama_index_lance_context._stored_block import StoredBlock


class LanceContextKnowledgeBlock(StoredBlock):
    """Makes facts of what leaves the conversation, and tells those that matter for the last messages.

    As LlamaIndex's `FactExtractionMemoryBlock`, it keeps facts; but each has the turn that says so,
    one that is no longer true gives way to the newer one, and none is lost when another is condensed.
    They are told as `- fact (said on 2024-05-01)`, best first, and no model is called for that.

    - `model`: what finds the facts, such as `language_model(llm)`; absent means rules, in English.
    - `infer="later"`: messages are kept, and the job is owed, until someone calls
      `store.knowledge.jobs.run_due()`.
    """

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

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        """What is known about the last messages; empty if nothing is, or they say nothing."""
        if not (query := self._asked(messages)):
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
        lines = content.split("\n")
        n_characters = 4 * tokens_to_truncate
        while lines and n_characters > 0:
            n_characters -= len(lines.pop()) + 1
        return "\n".join(lines) or None

    async def _keep(self, messages: Sequence[ChatMessage], session_id: str | None) -> None:
        given = [to_canonical(one) for one in messages if (one.content or "").strip()]
        if given:
            await self._knowledge.add(given, session_id=session_id or None, infer=self.infer)


def _line(hit: KnowledgeHit) -> str:
    days = [f"{one.said_at:%Y-%m-%d}" for one in hit.evidence if one.said_at]
    return f"- {hit.record.text} (said on {', '.join(days)})" if days else f"- {hit.record.text}"

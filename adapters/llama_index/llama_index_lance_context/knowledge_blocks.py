"""The store's knowledge of a user as a block of LlamaIndex's `Memory`."""

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
    """Extracts facts from messages that leave the conversation, and recalls the relevant ones.

    Like LlamaIndex's `FactExtractionMemoryBlock`, but each fact has its evidence, a newer fact
    supersedes an older one, and no fact is lost when others are condensed. Facts are recalled as `-
    fact (said on 2024-05-01)`, best first, without a call of a model.

    - `model`: extracts the facts, such as `language_model(llm)`; absent means rules, in English.
    - `infer="later"`: stores messages with a job, which `store.knowledge.jobs.run_due()` runs.
    """

    name: str = "known"
    priority: int = 1
    """Blocks with the lowest are cut first; 0 is never cut."""
    store: Any = Field(description="An open store, or the URI of one.")
    user_id: str = ""
    """The owner of the knowledge, in all sessions."""
    model: Any = Field(default=None, exclude=True)
    infer: Literal["auto", "later"] = "auto"
    limit: int = Field(default=5, ge=1)
    """Maximum number of recalled facts."""

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
        """The facts for the last messages; empty if none matches, or they have no text."""
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
        """The most relevant facts, without the last ones; None if none is left."""
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

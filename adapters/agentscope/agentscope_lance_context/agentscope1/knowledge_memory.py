"""What is known of a user, with what proves it, as the long-term memory of agents of agentscope 1.x."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from agentscope_lance_context._checks import check_choice
from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context.agentscope1._framework import (
    LongTermMemoryBase,
    Msg,
    ToolResponse,
)
from agentscope_lance_context.agentscope1._messages import messages_of, to_canonical
from agentscope_lance_context.agentscope1.long_term_memory import (
    DEFAULT_SESSION,
    is_said,
    listed,
    response,
)
from lance_context_core import AsyncKnowledge
from lance_context_core.adapting import StoreLike
from lance_context_core.knowledge import Model, NoteExtractor

_NOTES = "notes of the agent"


class LanceContextKnowledgeMemory(StoreOwner, LongTermMemoryBase):
    """Facts of a user, made of what is recorded: each proves itself, and the newer one counts.

    Both of AgentScope's ways: `record` and `retrieve`, which an agent calls before and after each
    reply (static control), and `record_to_memory` and `retrieve_from_memory`, which are its tools.
    What was said stays in the store, and `store.knowledge` explains, corrects and undoes.
    """

    _handle: UserHandle

    def __init__(
        self,
        store: StoreLike,
        *,
        user_id: str,
        session_id: str | None = None,
        model: Model | None = None,
        infer: Literal["auto", "later"] = "auto",
        embedder: Any = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `session_id`: that in which is recorded; that of the name `default` if it is absent.
        - `model`: what finds the facts, such as `language_model(chat_model)`; absent means rules.
        - `infer`: `"later"` keeps what is recorded, and leaves the facts to
          `store.knowledge.jobs.run_due()`, so that no reply waits for a model.
        - `embedder`: for a URI, what makes the vectors; see `AsyncContextStore.open`.
        """
        super().__init__()
        self._handle = UserHandle(store, embedder=embedder)
        self._session_id = session_id or DEFAULT_SESSION
        self._user_id = user_id
        self._model = model
        check_choice(infer, "infer", "auto", "later")
        self._infer = infer
        self._knowledge.using(model=model)

    @property
    def _knowledge(self) -> AsyncKnowledge:
        return self._handle.of(self._user_id).knowledge

    async def record(self, msgs: Msg | Sequence[Msg | None] | None, **_: Any) -> None:
        """Keep messages, each once in the session, and make facts of them; None is no message."""
        given = messages_of(msgs, "msgs")
        # In a thread, since an image takes its time.
        said = await asyncio.to_thread(lambda: [to_canonical(one) for one in given if is_said(one)])
        if said:
            knowledge = self._knowledge.using(model=self._model)
            await knowledge.add(said, session_id=self._session_id, infer=self._infer)

    async def retrieve(
        self, msg: Msg | Sequence[Msg | None] | None, limit: int = 5, **_: Any
    ) -> str:
        """The facts about messages, a line for each, `limit` at most for a message."""
        asked = [one.get_text_content() or "" for one in messages_of(msg, "msg")]
        return await self._lines(asked, limit)

    async def record_to_memory(self, thinking: str, content: list[str], **_: Any) -> ToolResponse:
        """Remember facts about the user that matter beyond this conversation.

        Args:
            thinking (`str`):
                Why they are worth remembering; this itself is not remembered.
            content (`list[str]`):
                The facts, each a whole sentence that is understood by itself: who, what, when,
                where.
        """
        del thinking
        facts = [one for one in listed(content) if one.strip()]
        if not facts:
            return response("Nothing to remember.")
        noting = self._knowledge.using(extractor=NoteExtractor())
        await noting.add(facts, session_id=_NOTES)
        return response(f"Remembered {len(facts)} facts.")

    async def retrieve_from_memory(
        self, keywords: list[str], limit: int = 5, **_: Any
    ) -> ToolResponse:
        """Find what is known of the user, from this conversation and earlier ones.

        Args:
            keywords (`list[str]`):
                What to look for, short and specific: a name, a date, a place, a topic. Each of them
                is looked for by itself.
            limit (`int`, optional):
                How many facts are found at most for each of the keywords.
        """
        return response(await self._lines(listed(keywords), limit) or "No memories found.")

    async def _lines(self, queries: Iterable[str], limit: int) -> str:
        """What is known about each of these, each fact once; a limit below 1 finds nothing."""
        asked = [one for one in queries if one.strip()] if limit > 0 else []
        only_facts: dict[str, Any] = {"search_type": "facts", "filter": {"kind": "fact"}}
        found = await asyncio.gather(
            *(self._knowledge.search(one, top_k=limit, **only_facts) for one in asked)
        )
        texts = {hit.record.id: hit.record.text or "" for hits in found for hit in hits}
        return "\n".join(texts.values())

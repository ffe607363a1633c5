"""Facts of a user with their evidence, as long-term memory for agents of agentscope 1.x."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from agentscope_lance_context._checks import check_choice
from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context.agentscope1._recording import DEFAULT_SESSION, Recording
from lance_context_core import AsyncKnowledge, Message
from lance_context_core.adapting import StoreLike, encodable
from lance_context_core.knowledge import Model, NoteExtractor

_NOTES = "notes of the agent"


class LanceContextKnowledgeMemory(Recording):
    """Facts of a user, extracted from recorded messages, each with evidence; newer ones supersede.

    `record` and `retrieve` are called before and after each reply (static control);
    `record_to_memory` and `retrieve_from_memory` are the agent's tools. Messages stay in the store,
    and `store.knowledge` explains, corrects and undoes.
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

        - `session_id`: of recorded messages; default: the session `default`.
        - `model`: extracts the facts, such as `language_model(chat_model)`; absent means rules.
        - `infer`: `"later"` stores messages and leaves the facts to
          `store.knowledge.jobs.run_due()`, so that no reply waits for a model.
        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        """
        super().__init__()
        self._handle = UserHandle(store, embedder=embedder)
        self._session_id = session_id or DEFAULT_SESSION
        self._user_id = user_id
        self._model = model
        check_choice(infer, "infer", "auto", "later")
        self._infer = infer
        self._knowledge.using(model=model)  # Refuses what is no model.

    @property
    def _knowledge(self) -> AsyncKnowledge:
        return self._handle.of(self._user_id).knowledge

    async def _keep(self, said: Sequence[Message]) -> None:
        knowledge = self._knowledge.using(model=self._model)
        await knowledge.add(said, session_id=self._session_id, infer=self._infer)

    async def _note(self, facts: Sequence[str]) -> int:
        stated = [encodable(one) for one in facts if one.strip()]
        if stated:
            noting = self._knowledge.using(extractor=NoteExtractor())
            await noting.add(stated, session_id=_NOTES)
        return len(stated)

    async def _lines(self, queries: Iterable[str], limit: int) -> str:
        """The facts for each of these, without duplicates; a limit below 1 finds nothing."""
        asked = [encodable(one) for one in queries if one.strip()] if limit > 0 else []
        only_facts: dict[str, Any] = {"search_type": "facts", "filter": {"kind": "fact"}}
        found = await asyncio.gather(
            *(self._knowledge.search(one, top_k=limit, **only_facts) for one in asked)
        )
        texts = {hit.record.id: hit.record.text or "" for hits in found for hit in hits}
        return "\n".join(texts.values())

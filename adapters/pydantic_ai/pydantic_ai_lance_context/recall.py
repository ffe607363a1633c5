"""A capability: tools by which an agent recalls and remembers, over all conversations of a user."""

import logging
from collections.abc import Callable
from typing import Any

from pydantic_ai import RunContext, Tool
from pydantic_ai.capabilities import Capability
from pydantic_ai.exceptions import UserError
from pydantic_ai.tools import AgentDepsT

from lance_context_core import AsyncContextStore, ContextRecord
from lance_context_core.adapting import (
    Handle,
    HandleOwner,
    OnError,
    StoreLike,
    check_on_error,
    content_of,
    going_on,
    remember_once,
)
from lance_context_core.arguments import FilterLike, SearchMode
from lance_context_core.results import SearchHit
from pydantic_ai_lance_context._errors import of_user, user_errors

Whose = str | Callable[[RunContext[Any]], str]
"""A user's name, or a function of the run, such as `lambda ctx: ctx.deps.user_id`."""

_LOG = logging.getLogger(__name__)
_PROBLEM = "the memory does not answer: the agent goes on without it"
_KEPT: FilterLike = {
    "$or": [
        {"kind": "memory"},
        {"kind": "message", "role": {"$in": ["user", "assistant"]}},
    ]
}
"""What is recalled: no results of tools, no system prompts, no documents."""

_INSTRUCTIONS = """\
You have a memory of the user beyond this conversation. Call `recall` before you answer a question that \
may depend on earlier conversations."""
_MAY_REMEMBER = "Call `remember` when the user states something that will matter later."
_RECALL = "Search what the user said in earlier conversations, and what is remembered of them."
_REMEMBER = "Remember one fact about the user for later conversations, as a whole sentence."


class LanceRecall(HandleOwner, Capability[AgentDepsT]):
    """The tools `recall` and `remember` over a store, and instructions that say when to use them.

    `recall` searches messages of all conversations of the user, in any framework, but for the
    one that the run belongs to, and long-term memories; `remember` adds a memory, each text once.
    A model cannot choose the user: no tool has an argument for it.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        user_id: Whose | None = None,
        limit: int = 5,
        mode: SearchMode | None = None,
        filter: FilterLike | None = None,
        can_remember: bool = True,
        instructions: str | None = None,
        on_error: OnError = "log",
        embedder: Any = None,
        id: str | None = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `aclose` closes again.

        - `user_id`: whose memory, a name or a function of the run; absent means the user of the
          scope that `store` is, or all of it.
        - `limit`, `mode`, `filter`: how many are found at most, how, and among which records.
        - `can_remember`: whether there is the tool `remember`.
        - `instructions`: in place of those that say when to call the tools.
        - `on_error`: what a store does that fails in a run: `"log"` and answer the model that the
          memory is not available, or `"raise"`.
        - `embedder`: for a URI, what makes the vectors of questions and memories.
        - `id`: the id of the capability.
        """
        with user_errors():
            if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
                raise UserError(f"limit={limit!r:.80}: give a whole number, 1 or more")
            self._handle = Handle(store, embedder=embedder)
            self._on_error = check_on_error(on_error)
        if isinstance(user_id, str):
            of_user(self._handle, user_id)
        self._user_id = user_id
        self._how: dict[str, Any] = {"limit": limit, "mode": mode}
        self._filter = filter
        tools = [Tool(self._recall, takes_ctx=True, name="recall", description=_RECALL)]
        if can_remember:
            tools.append(
                Tool(self._remember, takes_ctx=True, name="remember", description=_REMEMBER)
            )
        usual = f"{_INSTRUCTIONS} {_MAY_REMEMBER}" if can_remember else _INSTRUCTIONS
        super().__init__(
            tools=tools, instructions=usual if instructions is None else instructions, id=id
        )

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: a store cannot be written into an agent's spec."""
        return None

    async def search(
        self, query: str, *, ctx: RunContext[Any] | None = None
    ) -> list[SearchHit[ContextRecord]]:
        """What `recall` finds, best first, as the store's own hits.

        `ctx` is the run, whose conversation is left out; needed if `user_id` is a function.
        """
        filters = [_KEPT] if self._filter is None else [_KEPT, self._filter]
        if ctx is not None and ctx.conversation_id is not None:
            filters.append({"session_id": {"$ne": ctx.conversation_id}})
        with user_errors():
            return await self._of(ctx).search(query, filter={"$and": filters}, **self._how)

    # The tools

    async def _recall(self, ctx: RunContext[AgentDepsT], query: str) -> list[dict[str, str]] | str:
        with going_on(self._on_error, _PROBLEM, _LOG):
            hits = await self.search(query, ctx=ctx)
            return [_told(hit.record) for hit in hits] or "Nothing is remembered about that."
        return "The memory is not available now."

    async def _remember(self, ctx: RunContext[AgentDepsT], fact: str) -> str:
        with user_errors(), going_on(self._on_error, _PROBLEM, _LOG):
            kept = await remember_once(self._of(ctx), fact)
            return "It is remembered." if kept.is_new else "It was remembered already."
        return "The memory is not available now: nothing was remembered."

    def _of(self, ctx: RunContext[Any] | None) -> AsyncContextStore:
        whose = self._user_id
        if callable(whose):
            if ctx is None:
                raise UserError("user_id is a function of the run: give ctx=")
            whose = whose(ctx)
            if not isinstance(whose, str) or not whose:
                raise UserError(f"user_id gives {whose!r:.80}: whose memory is this?")
        return of_user(self._handle, whose)


def _told(record: ContextRecord) -> dict[str, str]:
    """The text of a record for the model."""
    told = {"text": content_of(record), "on": record.created_at.date().isoformat()}
    return {**told, "by": "memory" if record.kind == "memory" else record.role or "user"}

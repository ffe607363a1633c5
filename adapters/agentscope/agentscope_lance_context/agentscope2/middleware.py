"""Long-term memories of the store as a middleware of agents of agentscope 2.x."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Literal

from agentscope_lance_context._checks import check_choice, check_seconds
from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context._remembering import MODES, Memories, Search, as_lines
from agentscope_lance_context.agentscope2._framework import (
    AgentState,
    AssistantMsg,
    HintBlock,
    MiddlewareBase,
    Msg,
    ReplyStartEvent,
    RequireExternalExecutionEvent,
    RequireUserConfirmEvent,
    ToolBase,
)
from agentscope_lance_context.agentscope2._messages import said
from agentscope_lance_context.agentscope2._tools import AddMemoryTool, SearchMemoryTool
from lance_context_core import ContextRecord, InvalidRequestError
from lance_context_core.adapting import OnError, StoreLike, check_on_error, going_on

logger = logging.getLogger(__name__)

Mode = Literal["static_control", "agent_control", "both"]
"""Whether memories are recorded and recalled with every reply, by the agent's tools, or both."""

_RECALLED = "lance_context_memories"
"""The metadata key of the ids of memories in a message."""
_INTRODUCTION = "What is remembered of earlier conversations with the user, which may help:"
_INSTRUCTIONS = """# Memory

You have a memory of the user that lasts beyond this conversation. Use `search_memory` when the user
refers to something that is not in this conversation, and `add_memory` when you learn something that
will matter later."""


class LanceContextMemoryMiddleware(StoreOwner, MiddlewareBase):
    """Long-term memory: messages of a user and an agent, found in all sessions of the user.

    With static control each reply begins with the memories for the user's messages, as a hint that
    repeats no memory while it is in the context. The user's messages and the answer are stored
    before the answer is returned, each message once. With agent control the agent has the tools of
    `list_tools`; add them to its toolkit.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        user_id: str,
        mode: Mode = "both",
        agent_id: str | None = None,
        scope_search_by_agent: bool = True,
        top_k: int = 5,
        search: Search = "words",
        ttl_seconds: float | None = None,
        on_error: OnError = "log",
        embedder: Any = None,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `agent_id`: the agent of the memories; absent means that all agents share the user's.
        - `scope_search_by_agent`: whether an agent recalls only its own memories, or those of all
          agents of the user.
        - `top_k`: number of recalled memories; below 1, none.
        - `search`: `"words"`: the best matches by words, in the order of writing; or the most
          relevant, by meaning (`"vector"`) or by both (`"hybrid"`).
        - `ttl_seconds`: lifetime of a message; absent means for ever.
        - `on_error`: for a store that is unavailable: `"log"` continues the reply without memories,
          and `"raise"` fails it. Invalid arguments and a closed store always fail it.
        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        """
        if not isinstance(user_id, str) or not user_id.strip():
            raise InvalidRequestError(f"user_id={user_id!r:.80}: say whose memories they are")
        if isinstance(top_k, bool) or not isinstance(top_k, int):
            raise InvalidRequestError(f"top_k={top_k!r:.80}: give a whole number")
        self._mode = check_choice(mode, "mode", "static_control", "agent_control", "both")
        self._on_error = check_on_error(on_error)
        self._top_k = top_k
        self._of_all_agents = not scope_search_by_agent
        self._handle = UserHandle(store, embedder=embedder)
        self._memories = Memories(
            handle=self._handle,
            user_id=user_id,
            agent_id=agent_id,
            search=check_choice(search, "search", *MODES),
            ttl=check_seconds(ttl_seconds, "ttl_seconds"),
        )

    async def on_reply(
        self,
        agent: Any,
        input_kwargs: dict[str, Any],
        next_handler: Callable[..., AsyncGenerator[Any, None]],
    ) -> AsyncGenerator[Any, None]:
        """Recalls before a reply, and records after it, unless the agent controls its memory.

        If the store fails, see `on_error`. A reply that waits for an external event is recorded
        when it ends.
        """
        if self._mode == "agent_control":
            async for item in next_handler(**input_kwargs):
                yield item
            return
        told = _of_user(input_kwargs.get("inputs"))
        recalled = await self._recalled(agent.state, told)
        is_waiting = False
        async for item in next_handler(**input_kwargs):
            if recalled and isinstance(item, ReplyStartEvent):
                # From here on the user's messages are in the context.
                agent.state.context.append(_as_hint(recalled))
                recalled = []
            waits = isinstance(item, RequireUserConfirmEvent | RequireExternalExecutionEvent)
            is_waiting = is_waiting or waits
            if isinstance(item, Msg):
                is_answer = not is_waiting and _is_complete(item)
                await self._record(agent.state, [*told, item] if is_answer else told)
            yield item

    async def on_system_prompt(self, agent: Any, current_prompt: str) -> str:
        """The prompt, with instructions for the tools if the agent has them."""
        del agent
        if self._mode == "static_control":
            return current_prompt
        return f"{current_prompt}\n\n{_INSTRUCTIONS}"

    async def list_tools(self) -> list[ToolBase]:
        """`search_memory` and `add_memory`; none with static control alone."""
        if self._mode == "static_control":
            return []
        return [
            kind(self._memories, of_all_agents=self._of_all_agents, limit=self._top_k)
            for kind in (SearchMemoryTool, AddMemoryTool)
        ]

    async def _recalled(self, state: AgentState, told: Sequence[Msg]) -> list[ContextRecord]:
        """The memories for messages that are not in the context already."""
        known = {message.id for message in state.context}
        for message in state.context:
            known.update(message.metadata.get(_RECALLED, ()))
        query = "\n".join(message.get_text_content() or "" for message in told)
        with going_on(self._on_error, "memories could not be searched", logger):
            return await self._memories.recall(
                [query], limit=self._top_k, without=known, of_all_agents=self._of_all_agents
            )
        return []

    async def _record(self, state: AgentState, messages: Sequence[Msg]) -> None:
        with going_on(self._on_error, "a reply could not be remembered", logger):
            found = await asyncio.to_thread(lambda: [said(message) for message in messages])
            told = [one for one in found if one is not None]
            await self._memories.record(told, session_id=state.session_id)


def _of_user(inputs: object) -> list[Msg]:
    """The user's messages in an agent's input, which may be an event."""
    several = inputs if isinstance(inputs, list) else [inputs]
    return [one for one in several if isinstance(one, Msg) and one.role == "user"]


def _is_complete(answer: Msg) -> bool:
    """Whether a reply was finished, instead of stopped by a limit."""
    # The first releases do not report it.
    return getattr(answer, "finished_reason", None) in {None, "completed"}


def _as_hint(recalled: Sequence[ContextRecord]) -> Msg:
    lines = "\n".join(f"- {line}" for line in as_lines(recalled))
    return AssistantMsg(
        name="memory",
        content=[HintBlock(hint=f"{_INTRODUCTION}\n{lines}")],
        metadata={_RECALLED: [record.id for record in recalled]},
    )

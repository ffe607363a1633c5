"""The context of one agent: its history, its pipeline, and its retention."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from enum import StrEnum
from functools import partial

from lance_context_core._util.checks import check_names
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message
from lance_context_core.protocols import HistoryProvider
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.window.compaction.plans import CompactionStrategy, Plan, Summariser, whole
from lance_context_core.window.compaction.strategies import (
    CompactionPipeline,
    SelectiveToolCallCompactionStrategy,
    SlidingWindowCompaction,
    SummarizationCompaction,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    check_ratio,
)

_INSTRUCTIONS = {"role": {"$in": ["system", "developer"]}}


class HistoryRetention(StrEnum):
    """How long messages of a run are stored."""

    NONE = "none"
    """Nothing is written."""
    RUN = "run"
    """Until the run ends, in any way."""
    PERMANENT = "permanent"
    """Permanently."""


@frozen
class ContextConfig:
    """The configuration of an agent's context."""

    history: HistoryProvider
    pipeline: CompactionStrategy | None = None
    """Selects the shown part of the history; absent, its last hundred messages."""
    retention: HistoryRetention = field(default=HistoryRetention.PERMANENT, kw_only=True)


class AgentContext:
    """The messages of an agent, and the part that a model receives."""

    def __init__(
        self,
        agent_id: str,
        history: HistoryProvider,
        pipeline: CompactionStrategy | None = None,
        *,
        retention: HistoryRetention | str = HistoryRetention.PERMANENT,
    ) -> None:
        """See `ContextConfig`."""
        self._agent_id = agent_id
        self._history = history
        default = CompactionPipeline([SlidingWindowCompaction(100)])
        self._pipeline: CompactionStrategy = default if pipeline is None else pipeline
        self._retention = HistoryRetention(retention)

    @classmethod
    def of(cls, agent_id: str, config: ContextConfig) -> "AgentContext":
        """Return the context of an agent with this configuration."""
        return cls(agent_id, config.history, config.pipeline, retention=config.retention)

    @property
    def agent_id(self) -> str:
        """The agent."""
        return self._agent_id

    async def get_prompt_window(
        self, session_id: str, *, pinned: Sequence[str] = ()
    ) -> list[Message]:
        """Return the messages of a session for a model; writes nothing.

        Of a long session only the end and the instructions are read, if the pipeline begins with a
        `SlidingWindowCompaction` of messages and `history` is a store's.
        """
        messages = await self._in_reach(session_id, pinned)
        return (await self._pipeline.plan(Plan.of(messages, pinned=pinned))).messages

    async def plan(self, session_id: str, *, pinned: Sequence[str] = ()) -> Plan:
        """As `get_prompt_window`, with the outcome of every message, and the reason."""
        messages = await self._history.get_messages(self._agent_id, session_id=session_id)
        return await self._pipeline.plan(Plan.of(messages, pinned=pinned))

    async def _in_reach(
        self, session_id: str, pinned: Sequence[str], said: Sequence[Message] = ()
    ) -> list[Message]:
        """Return the messages that the pipeline may show, with those `said` in the run."""
        ids = {*check_names(pinned, "pinned")}
        history = self._history
        get = partial(history.get_messages, self._agent_id, session_id=session_id)
        reach = getattr(self._pipeline, "reach", None)
        if isinstance(reach, int) and isinstance(history, AsyncHistory):
            # The first message of the window may be in one group with earlier ones.
            last = await get(last=2 * reach)
            there = [*last, *said]
            if len(last) < 2 * reach:
                return there
            # Other protected messages may be anywhere.
            known = {one.id for one in there}
            if ids <= known and any(one.role == "user" for one in there):
                told = await history.get_messages(
                    self._agent_id, session_id=session_id, filter=_INSTRUCTIONS
                )
                return [*(one for one in told if one.id not in known), *there]
        return [*await get(), *said]

    @asynccontextmanager
    async def run(self, session_id: str, *, run_id: str | None = None) -> AsyncIterator["AgentRun"]:
        """Start a run, whose retention also applies if it fails or is cancelled."""
        run = AgentRun(self, session_id, run_id or uuid.uuid4().hex)
        try:
            yield run
        finally:
            if self._retention is HistoryRetention.RUN:
                # A cancelled run is cleared completely, too.
                await asyncio.shield(
                    self._history.clear_run(
                        self._agent_id, session_id=session_id, run_id=run.run_id
                    )
                )


class AgentRun:
    """One run of an agent in a session."""

    def __init__(self, context: AgentContext, session_id: str, run_id: str) -> None:
        """Use `AgentContext.run`."""
        self._context = context
        self._session_id = session_id
        self._said: list[Message] = []
        self.run_id = run_id

    async def append(self, *messages: Message) -> None:
        """Add messages; they are written, unless the retention is none."""
        context = self._context
        if context._retention is HistoryRetention.NONE:  # noqa: SLF001 - a part of it
            self._said += messages
            return
        await context._history.append_many(  # noqa: SLF001
            context.agent_id, messages, session_id=self._session_id, run_id=self.run_id
        )

    async def get_prompt_window(self, *, pinned: Sequence[str] = ()) -> list[Message]:
        """Return the messages of the session for a model, including this run's."""
        context = self._context
        messages = await context._in_reach(self._session_id, pinned, self._said)  # noqa: SLF001
        plan = Plan.of(messages, pinned=pinned)
        return (await context._pipeline.plan(plan)).messages  # noqa: SLF001


# Default pipelines by a model's context size and the share that a conversation may fill.


def for_context_window(
    context_window: int,
    *,
    reserve_output: int = 0,
    trigger: float = 0.8,
    target: float = 0.6,
    summariser: Summariser | None = None,
) -> TokenBudgetComposedStrategy:
    """Cut old results, drop old calls, then summarise the rest, with a summariser.

    It acts if a conversation exceeds `trigger` of the model's context without the answer, and
    continues down to `target` of it. Raises InvalidRequestError for numbers that leave no room.
    """
    room = whole(context_window, "context_window", least=1) - whole(
        reserve_output, "reserve_output"
    )
    if room < 1:
        raise InvalidRequestError(
            f"context_window={context_window} leaves no room: reserve_output={reserve_output} "
            "takes it all"
        )
    check_ratio(trigger, "trigger")
    check_ratio(target, "target")
    strategies: list[CompactionStrategy] = [
        ToolResultCompactionStrategy(1_500),
        SelectiveToolCallCompactionStrategy(5),
    ]
    if summariser is not None:
        recent = int(room * target / 2)
        strategies.append(SummarizationCompaction(summariser, recent_token_budget=recent))
    return TokenBudgetComposedStrategy(
        strategies, max(1, int(room * trigger)), target_ratio=min(1.0, target / trigger)
    )

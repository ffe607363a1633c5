"""Checkpoints of agents, from synchronous code."""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lance_context_core._loop import block_on
from lance_context_core.coordination.checkpoints import AsyncCheckpoints, Checkpoint


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of all agents; `AsyncCheckpoints` is the asynchronous one."""

    _aio: AsyncCheckpoints

    def save(
        self,
        agent_id: str,
        state: Mapping[str, Any],
        *,
        status: str = "",
        iteration: int = 0,
        task_id: str | None = None,
        session_id: str | None = None,
    ) -> Checkpoint:
        """Note where an agent stands. See `AsyncCheckpoints.save`."""
        return block_on(
            self._aio.save(
                agent_id,
                state,
                status=status,
                iteration=iteration,
                task_id=task_id,
                session_id=session_id,
            )
        )

    def last(self, agent_id: str, *, at: datetime | None = None) -> Checkpoint | None:
        """The last checkpoint of an agent. See `AsyncCheckpoints.last`."""
        return block_on(self._aio.last(agent_id, at=at))

    def list(self, agent_id: str, *, limit: int | None = None) -> builtins.list[Checkpoint]:
        """The checkpoints of an agent, the latest first. See `AsyncCheckpoints.list`."""
        return block_on(self._aio.list(agent_id, limit=limit))

    def agents(self) -> builtins.list[str]:
        """The agents that have checkpoints. See `AsyncCheckpoints.agents`."""
        return block_on(self._aio.agents())

    def delete(self, agent_id: str, *, keep: int = 0) -> int:
        """Forget the checkpoints of an agent. See `AsyncCheckpoints.delete`."""
        return block_on(self._aio.delete(agent_id, keep=keep))

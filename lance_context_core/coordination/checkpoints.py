"""Where each agent stood, so that another process can go on from there."""

import builtins
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lance_context_core._handle import handle
from lance_context_core._resources import Resources
from lance_context_core._util.checks import (
    check_count,
    check_json_object,
    check_name,
    check_span,
    check_text,
    check_time,
    shown,
)
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.retry import retried
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError
from lance_context_core.scope import Scope
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item

NAME = "lance_context.checkpoints"
"""What the items are called in which checkpoints are kept."""


@frozen_by_name
class Checkpoint:
    """Where an agent stood at a moment."""

    agent_id: str
    number: int
    """From 1, one more than that of the checkpoint before."""
    at: datetime
    state: Mapping[str, Any]
    """JSON by key: what the agent needs to go on."""
    status: str
    """In words of the caller's own, such as `running`."""
    iteration: int
    task_id: str | None
    session_id: str | None


@handle
class AsyncCheckpoints:
    """The checkpoints of all agents of a store; none is ever changed."""

    _resources: Resources
    _scope: Scope

    async def save(
        self,
        agent_id: str,
        state: Mapping[str, Any],
        *,
        status: str = "",
        iteration: int = 0,
        task_id: str | None = None,
        session_id: str | None = None,
    ) -> Checkpoint:
        """Note where an agent stands. Of several processes that do so at once, each has its number."""
        agent_id = check_name(agent_id, "agent_id")
        if type(iteration) is not int or iteration < 0:
            raise InvalidRequestError(
                f"iteration={shown(iteration)}: give a whole number, 0 or more"
            )
        value = {
            "at": self._resources.clock.now().isoformat(),
            "state": check_json_object(state, "state"),
            "status": check_text(status, "status"),
            "iteration": iteration,
            "task_id": None if task_id is None else check_name(task_id, "task_id"),
            "session_id": None if session_id is None else check_name(session_id, "session_id"),
        }

        async def save() -> Checkpoint:
            last = await self.last(agent_id)
            number = 1 if last is None else last.number + 1
            item = Item(namespace=(agent_id,), key=f"{number:012d}", value=value)
            await self._items.write(adds=[item])
            return _checkpoint(item)

        # Whoever is slower than another one takes the number after his.
        return await retried(save, on=AlreadyExistsError, attempts=100)

    async def last(self, agent_id: str, *, at: datetime | None = None) -> Checkpoint | None:
        """The last checkpoint of an agent, or the last one that there was `at` a moment; None if none."""
        agent_id = check_name(agent_id, "agent_id")
        if at is None:
            found = await self.list(agent_id, limit=1)
            return found[0] if found else None
        moment = check_time(at, "at")
        return next((one for one in await self.list(agent_id) if one.at <= moment), None)

    async def list(self, agent_id: str, *, limit: int | None = None) -> builtins.list[Checkpoint]:
        """The checkpoints of an agent, the latest first."""
        check_span(offset=0, limit=limit, last=None)
        namespace = (check_name(agent_id, "agent_id"),)
        rows = await self._items.list(namespace=namespace, reverse=True, limit=limit)
        return [_checkpoint(one) for one in rows]

    async def latest(
        self,
        *,
        session_id: str | None = None,
        task_id: str | None = None,
        status: str | None = None,
    ) -> builtins.list[Checkpoint]:
        """Where each agent stands, by agent: all, or those at a session or a task, or of a status."""
        last = [await self.last(one) for one in await self.agents()]
        return [
            one
            for one in last
            if one is not None
            and session_id in (None, one.session_id)
            and task_id in (None, one.task_id)
            and status in (None, one.status)
        ]

    async def agents(self) -> builtins.list[str]:
        """The agents that have checkpoints, in order."""
        return [one[0] for one in await self._items.namespaces()]

    async def delete(self, agent_id: str, *, keep: int = 0) -> int:
        """Forget the checkpoints of an agent but the latest `keep`; returns how many."""
        check_count(keep, "keep", least=0)
        namespace = (check_name(agent_id, "agent_id"),)
        keys = await self._items.keys(namespace=namespace, reverse=True)
        return sum(await self._items.delete(keys[keep:]))

    @property
    def _items(self) -> AsyncKeyValues:
        return AsyncKeyValues(NAME, self._resources, self._scope)


def _checkpoint(item: Item) -> Checkpoint:
    value = dict(item.value or {})
    value["at"] = datetime.fromisoformat(value["at"])
    return Checkpoint(agent_id=item.namespace[0], number=int(item.key), **value)

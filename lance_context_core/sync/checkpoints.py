"""Checkpoints of agents, from synchronous code."""

from lance_context_core.coordination.checkpoints import AsyncCheckpoints
from lance_context_core.sync._blocking import Blocking, blocking


class Checkpoints(Blocking[AsyncCheckpoints]):
    """The checkpoints of all agents; `AsyncCheckpoints` is the asynchronous one."""

    save = blocking(AsyncCheckpoints.save)
    last = blocking(AsyncCheckpoints.last)
    list = blocking(AsyncCheckpoints.list)
    latest = blocking(AsyncCheckpoints.latest)
    agents = blocking(AsyncCheckpoints.agents)
    delete = blocking(AsyncCheckpoints.delete)

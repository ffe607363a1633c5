"""Which conversation, and which agent of it, the code that runs at this moment belongs to.

It is known to the current task or thread, and to what it starts: a tool deep inside a call need not
be handed it. Where nobody said, nothing is assumed.
"""

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakKeyDictionary

from lance_context_core._util.checks import check_name, check_text
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError


@frozen_by_name
class Conversation:
    """Where the code that runs at this moment belongs."""

    session_id: str
    agent_id: str | None = None
    """None is the agent that the conversation is with: its board is that of the conversation."""
    label: str = ""
    """What the agent is called where people see it."""
    parent_agent_id: str | None = None
    """Which agent has this one work for it."""

    @property
    def board(self) -> str:
        """The name of its board of tasks: each agent of a conversation has one of its own."""
        parts = [self.session_id, *([] if self.agent_id is None else [self.agent_id])]
        return "/".join(one.replace("%", "%25").replace("/", "%2F") for one in parts)


_current: ContextVar[Conversation | None] = ContextVar("_current", default=None)


@contextmanager
def conversation(
    session_id: str,
    *,
    agent_id: str | None = None,
    label: str = "",
    parent_agent_id: str | None = None,
) -> Iterator[Conversation]:
    """A block of code that belongs to a conversation, and to an agent of it.

    Tasks and executors that are started inside it belong there too; a thread that is started by hand
    does not, unless it is given `contextvars.copy_context()`. Blocks may stand in each other. Set it
    where the agent runs, not where a server hands it work: what another task sets is not seen.
    """
    entered = Conversation(
        session_id=check_name(session_id, "session_id"),
        agent_id=None if agent_id is None else check_name(agent_id, "agent_id"),
        label=check_text(label, "label"),
        parent_agent_id=(
            None if parent_agent_id is None else check_name(parent_agent_id, "parent_agent_id")
        ),
    )
    token = _current.set(entered)
    try:
        yield entered
    finally:
        _current.reset(token)


def current_conversation() -> Conversation:
    """The conversation that this code belongs to. Raises InvalidRequestError outside any."""
    if (current := _current.get()) is None:
        raise InvalidRequestError(
            "no conversation is set here: run this inside `with conversation(session_id):`, in the "
            "task or thread of the agent itself"
        )
    return current


# Who asks for a lock, where no name is given.

_names = itertools.count(1)
_of_tasks: "WeakKeyDictionary[object, str]" = WeakKeyDictionary()
_of_threads = threading.local()


def current_owner() -> str:
    """A name for the task that asks, or for the thread where there is none; for as long as it lives."""
    try:
        task: object | None = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        if not hasattr(_of_threads, "owner"):
            _of_threads.owner = f"thread {next(_names)}"
        return str(_of_threads.owner)
    if task not in _of_tasks:
        _of_tasks[task] = f"task {next(_names)}"
    return _of_tasks[task]

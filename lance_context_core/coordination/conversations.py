"""The current conversation and agent of the running code.

It is known to the current task or thread, and to the tasks that it starts: a tool deep inside a
call needs no argument for it. Without a `conversation` block there is no default.
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
    """The conversation and agent of the running code."""

    session_id: str
    agent_id: str | None = None
    """None is the main agent: its board is that of the conversation."""
    label: str = ""
    """The display name of the agent."""
    parent_agent_id: str | None = None
    """The agent that started this one."""

    @property
    def board(self) -> str:
        """The name of its task board: each agent of a conversation has its own."""
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
    """Set the conversation, and its agent, of a block of code.

    Tasks and executors that are started inside it inherit it; a thread started manually does not,
    unless it runs in `contextvars.copy_context()`. Blocks may be nested. Set it where the agent
    runs, not where a server passes it work: other tasks do not see it.
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
    """Return the current conversation. Raises InvalidRequestError outside any."""
    if (current := _current.get()) is None:
        raise InvalidRequestError(
            "no conversation is set here: run this inside `with conversation(session_id):`, in the "
            "task or thread of the agent itself"
        )
    return current


# The default owner of a lock.

_names = itertools.count(1)
_of_tasks: "WeakKeyDictionary[object, str]" = WeakKeyDictionary()
_of_threads = threading.local()


def current_owner() -> str:
    """Return a name for the current task, or else thread, valid for its lifetime."""
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

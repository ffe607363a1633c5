"""What is promised of conversations: their messages, and what is known about them."""

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from lance_context_core.messages import Message
from lance_context_core.records import Session


@runtime_checkable
class HistoryProvider(Protocol):
    """Conversations, each known by an agent and a session.

    `agent_id` may be empty: the session then belongs to no agent in particular. Order is the order
    in which appends were acknowledged; the messages of one call stay together.
    """

    async def append(
        self, agent_id: str, message: Message, *, session_id: str, run_id: str = ""
    ) -> str:
        """Add one message at the end; returns its id."""

    async def append_many(
        self, agent_id: str, messages: Sequence[Message], *, session_id: str, run_id: str = ""
    ) -> list[str]:
        """Add messages at the end, all or none of them, in one commit; returns their ids.

        A message that the session has already, by its id, is left as it is, so a retry is safe.
        Raises AlreadyExistsError, before anything is written, if it says something else by now.
        """

    async def get_messages(
        self,
        agent_id: str,
        *,
        session_id: str,
        limit: int | None = None,
        offset: int = 0,
        last: int | None = None,
    ) -> list[Message]:
        """Messages in order: the first `limit` after `offset`, or the `last` ones.

        With `last`, `offset` counts from the end. An unknown session has no messages.
        """

    async def clear(self, agent_id: str, *, session_id: str) -> int:
        """Forget a session's messages; returns how many there were."""

    async def clear_run(self, agent_id: str, *, session_id: str, run_id: str) -> int:
        """Forget the messages of one run in a session; returns how many there were."""

    async def count(self, agent_id: str, *, session_id: str) -> int:
        """How many messages a session has; 0 if it is unknown."""


@runtime_checkable
class SessionStore(Protocol):
    """What is known about conversations, beside their messages."""

    async def create(
        self,
        session_id: str | None = None,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """Describe a session; an absent id is generated.

        A session that exists is returned as it is: creating never loses anything.
        """

    async def get(self, session_id: str) -> Session | None:
        """A session that was created or has messages; else None."""

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        ended_at: datetime | None = None,
    ) -> Session:
        """Change what is given, keep the rest. Raises NotFoundError for an unknown session."""

    async def list(self, *, limit: int | None = None, offset: int = 0) -> builtins.list[Session]:
        """Sessions, the most recently active first."""

    async def delete(self, session_id: str) -> bool:
        """Forget a session and its messages; returns whether there was anything to forget."""

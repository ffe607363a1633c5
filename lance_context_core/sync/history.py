"""Conversations, from synchronous code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from lance_context_core._loop import block_on
from lance_context_core._options import takes
from lance_context_core.filters import FilterLike
from lance_context_core.messages import Message
from lance_context_core.records import ContextRecord, SearchHit
from lance_context_core.search import query as searching
from lance_context_core.search.options import SearchArguments
from lance_context_core.stores.history import AsyncHistory


@dataclass(frozen=True, slots=True)
class History:
    """The history of conversations; `AsyncHistory` is the asynchronous one."""

    _aio: AsyncHistory

    def append(
        self,
        agent_id: str,
        message: Message,
        *,
        session_id: str,
        run_id: str = "",
        keep_existing: bool = False,
        expires_at: datetime | None = None,
    ) -> str:
        """Add one message at the end of a session; returns its id. See `AsyncHistory.append`."""
        return block_on(
            self._aio.append(
                agent_id,
                message,
                session_id=session_id,
                run_id=run_id,
                keep_existing=keep_existing,
                expires_at=expires_at,
            )
        )

    def append_many(
        self,
        agent_id: str,
        messages: Sequence[Message],
        *,
        session_id: str,
        run_id: str = "",
        keep_existing: bool = False,
        expires_at: datetime | None = None,
    ) -> list[str]:
        """Add messages in one commit; returns their ids. See `AsyncHistory.append_many`."""
        return block_on(
            self._aio.append_many(
                agent_id,
                messages,
                session_id=session_id,
                run_id=run_id,
                keep_existing=keep_existing,
                expires_at=expires_at,
            )
        )

    def replace(
        self,
        agent_id: str,
        messages: Sequence[Message],
        *,
        session_id: str,
        run_id: str = "",
        filter: FilterLike | None = None,
        keep_existing: bool = False,
    ) -> list[str]:
        """Put messages in the place of a session's, or of some. See `AsyncHistory.replace`."""
        return block_on(
            self._aio.replace(
                agent_id,
                messages,
                session_id=session_id,
                run_id=run_id,
                filter=filter,
                keep_existing=keep_existing,
            )
        )

    def pop(
        self, agent_id: str, *, session_id: str, expected_id: str | None = None
    ) -> Message | None:
        """Forget the last message of a session, and return it. See `AsyncHistory.pop`."""
        return block_on(self._aio.pop(agent_id, session_id=session_id, expected_id=expected_id))

    def replace_tail(
        self,
        agent_id: str,
        messages: Sequence[Message],
        *,
        session_id: str,
        after: str | None,
        expected_tail: Sequence[str] | None = None,
        run_id: str = "",
    ) -> list[str]:
        """Put messages in the place of all after one. See `AsyncHistory.replace_tail`."""
        return block_on(
            self._aio.replace_tail(
                agent_id,
                messages,
                session_id=session_id,
                after=after,
                expected_tail=expected_tail,
                run_id=run_id,
            )
        )

    def rewrite(
        self,
        agent_id: str,
        message: Message,
        *,
        session_id: str,
        expected: Message | None = None,
    ) -> None:
        """Let a message say something else, at its place. See `AsyncHistory.rewrite`."""
        return block_on(
            self._aio.rewrite(agent_id, message, session_id=session_id, expected=expected)
        )

    def annotate(
        self,
        agent_id: str,
        metadata: Mapping[str, Any],
        *,
        session_id: str,
        filter: FilterLike | None = None,
    ) -> list[str]:
        """Add to the metadata of messages; returns their ids. See `AsyncHistory.annotate`."""
        return block_on(
            self._aio.annotate(agent_id, metadata, session_id=session_id, filter=filter)
        )

    def get_messages(
        self,
        agent_id: str,
        *,
        session_id: str,
        limit: int | None = None,
        offset: int = 0,
        last: int | None = None,
        filter: FilterLike | None = None,
    ) -> list[Message]:
        """Messages in order: the first ones, or the `last`. See `AsyncHistory.get_messages`."""
        return block_on(
            self._aio.get_messages(
                agent_id,
                session_id=session_id,
                limit=limit,
                offset=offset,
                last=last,
                filter=filter,
            )
        )

    def count(self, agent_id: str, *, session_id: str, filter: FilterLike | None = None) -> int:
        """How many messages a session has; 0 if it is unknown. See `AsyncHistory.count`."""
        return block_on(self._aio.count(agent_id, session_id=session_id, filter=filter))

    def session_ids(self, agent_id: str) -> list[str]:
        """The sessions in which an agent has messages. See `AsyncHistory.session_ids`."""
        return block_on(self._aio.session_ids(agent_id))

    def clear(self, agent_id: str, *, session_id: str, filter: FilterLike | None = None) -> int:
        """Forget a session's messages, or some; returns how many. See `AsyncHistory.clear`."""
        return block_on(self._aio.clear(agent_id, session_id=session_id, filter=filter))

    def clear_run(self, agent_id: str, *, session_id: str, run_id: str) -> int:
        """Forget the messages of one run; returns how many. See `AsyncHistory.clear_run`."""
        return block_on(self._aio.clear_run(agent_id, session_id=session_id, run_id=run_id))

    def touch(self, agent_id: str, *, session_id: str, expires_at: datetime | None) -> int:
        """Let all messages of a session expire at another moment, or never. See `AsyncHistory.touch`."""
        return block_on(self._aio.touch(agent_id, session_id=session_id, expires_at=expires_at))

    def sweep(self) -> int:
        """Forget the messages that have expired. See `AsyncHistory.sweep`."""
        return block_on(self._aio.sweep())

    @takes(SearchArguments, searching.DEFAULTS)
    def search(
        self,
        query: str | Sequence[float] | None = None,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        **arguments: Unpack[SearchArguments],
    ) -> list[SearchHit[ContextRecord]]:
        """The messages that answer `query` best, best first. See `AsyncHistory.search`."""
        return block_on(
            self._aio.search(query, agent_id=agent_id, session_id=session_id, **arguments)
        )

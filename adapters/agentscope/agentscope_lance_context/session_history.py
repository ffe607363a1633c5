"""Conversations of the store as AgentScope's session history service."""

import logging
import uuid
from collections.abc import Sequence
from typing import Any, Literal

from agentscope_lance_context._checks import check_choice, check_count, check_seconds
from agentscope_lance_context._handles import StoreService, UserHandle
from agentscope_lance_context._messages import (
    distinct,
    normalized,
    read,
    to_canonical,
)
from agentscope_lance_context._places import SESSIONS, TOLD
from agentscope_lance_context._runtime import Message, Session, SessionHistoryService
from lance_context_core import AsyncContextStore, Item
from lance_context_core import Session as Talk
from lance_context_core.adapting import StoreLike

logger = logging.getLogger(__name__)

_OPEN = {"state": "open"}
_DELETED = {"state": "deleted"}


class LanceContextSessionHistoryService(StoreService, SessionHistoryService):
    """Sessions by user, each with its messages in the order of acknowledgement.

    The messages of one call are one commit. They read back equal, duplicates included. Messages
    that other frameworks write in a user's scope of the store are read here, too, and the reverse.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        embedder: Any = None,
        on_missing: Literal["create", "none"] = "create",
        on_existing: Literal["replace", "keep"] = "replace",
        after_delete: Literal["none", "create"] = "none",
        ttl_seconds: float | None = None,
        max_messages_per_session: int | None = None,
        deduplicate: bool = False,
        name: str = SESSIONS.name,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `stop` closes again.

        - `embedder`: for a store at a URI; see `AsyncContextStore.open`.
        - `on_missing`: the result of `get_session` for a session that never existed: `"create"`
          creates it, as releases before 1.0 do, which then append to no other; `"none"` returns
          None and lets `append_message` create it, as the Redis service does from 1.0.3 on.
        - `on_existing`: whether `create_session` restarts an existing session, as AgentScope's
          services do, or keeps its messages.
        - `after_delete`: the result of `get_session` for a deleted session.
        - `ttl_seconds`: lifetime of a session after its last use, here or in another framework;
          absent means for ever.
        - `max_messages_per_session`: number of the last messages that are read; the store keeps
          all.
        - `deduplicate`: skip a message with an id that the session contains.
        - `name`: of the list of sessions, which is `store.kv(name)`.
        """
        self._handle = UserHandle(store, embedder=embedder)
        self._creates_missing = check_choice(on_missing, "on_missing", "create", "none") == "create"
        self._keeps_existing = check_choice(on_existing, "on_existing", "keep", "replace") == "keep"
        self._creates_deleted = (
            check_choice(after_delete, "after_delete", "create", "none") == "create"
        )
        self._ttl = check_seconds(ttl_seconds, "ttl_seconds")
        self._last = check_count(max_messages_per_session, "max_messages_per_session")
        self._deduplicates = deduplicate
        self._name = name

    async def create_session(self, user_id: str, session_id: str | None = None) -> Session:
        """Creates a session; a blank or absent id is generated.

        An existing one starts again: its messages are deleted, unless `on_existing` keeps them.
        """
        session_id = (session_id or "").strip() or _new_id()
        store = self._handle.of(user_id)
        if not self._keeps_existing:
            await store.history.clear("", session_id=session_id)
        await self._mark(store, session_id, _OPEN)
        messages = await self._read(store, session_id) if self._keeps_existing else []
        return _session(session_id, user_id, messages)

    async def get_session(self, user_id: str, session_id: str) -> Session | None:
        """A session with its messages, as a copy.

        See `on_missing` and `after_delete` for missing sessions. A blank id creates a new session.
        """
        if not (session_id or "").strip():
            return await self.create_session(user_id)
        store = self._handle.of(user_id)
        if self._ttl is not None:
            await self._use(store, session_id)
        messages = await self._read(store, session_id)
        if not messages and not await self._may_begin(store, session_id):
            return None
        return _session(session_id, user_id, messages)

    async def delete_session(self, user_id: str, session_id: str) -> None:
        """Deletes a session and its messages; a missing one is ignored."""
        if not session_id:
            return
        store = self._handle.of(user_id)
        n_messages = await store.history.clear("", session_id=session_id)
        if n_messages or await self._state(store, session_id) is not None:
            # Last, so that an interrupted deletion can be repeated.
            await self._mark(store, session_id, _DELETED)

    async def delete_user_sessions(self, user_id: str) -> None:
        """Deletes all sessions of a user."""
        for session in await self.list_sessions(user_id):
            await self.delete_session(user_id, session.id)

    async def list_sessions(self, user_id: str) -> list[Session]:
        """A user's sessions without their messages, in the order of their beginning."""
        store = self._handle.of(user_id)
        known = await store.kv(self._name).list(namespace=SESSIONS.namespace(), order="created")
        talks = {one.id: one for one in await store.sessions.list()}
        mine = {item.key for item in known}
        ids = [item.key for item in known if self._is_listed(item, talks.get(item.key))]
        # Sessions of other frameworks, which keep no list.
        others = sorted(
            (one for one in talks.values() if one.id not in mine and not one.id.startswith(TOLD)),
            key=lambda one: one.created_at,
        )
        return [_session(one, user_id, []) for one in [*ids, *(other.id for other in others)]]

    async def append_message(self, session: Session, message: Any) -> None:
        """Appends one message, or several, to a session and to `session.messages`.

        Each is a `Message` or a dict; None is skipped. Atomic; raises InvalidRequestError for an
        invalid message. A missing session gets nothing, unless `on_missing` is `"none"`; that is
        logged.
        """
        messages = normalized(message, "message")
        named = distinct(messages) if self._deduplicates else [(None, one) for one in messages]
        canonical = [to_canonical(one, id=id) for id, one in named]
        if canonical:
            store = self._handle.of(session.user_id)
            if await self._takes(store, session.id):
                await store.history.append_many(
                    "", canonical, session_id=session.id, keep_existing=True
                )
            else:
                logger.warning(
                    "session %r of user %r does not exist: %d messages are not stored",
                    *(session.id, session.user_id, len(canonical)),
                )
        session.messages.extend(messages)
        if self._last is not None:
            del session.messages[: max(len(session.messages) - self._last, 0)]

    # Helpers

    async def _read(self, store: AsyncContextStore, session_id: str) -> list[Message]:
        stored = await store.history.get_messages("", session_id=session_id, last=self._last)
        messages = await read(stored)
        return messages if self._last is None else messages[-self._last :]

    async def _may_begin(self, store: AsyncContextStore, session_id: str) -> bool:
        """Whether a session without messages exists; creates it if allowed."""
        state = await self._state(store, session_id)
        if state == _OPEN:
            return True
        if not self._creates_missing:
            return False
        if state is None:
            # Another writer may create or delete it at the same moment: the stored state counts.
            (is_mine,) = await store.kv(self._name).add([_item(session_id, _OPEN)])
            return is_mine or await self._state(store, session_id) == _OPEN
        if self._creates_deleted:
            await self._mark(store, session_id, _OPEN)
        return self._creates_deleted

    async def _takes(self, store: AsyncContextStore, session_id: str) -> bool:
        """Whether messages may be appended to a session; creates it if allowed."""
        if self._ttl is not None:
            await self._use(store, session_id)
        # A session that began here is known without reading its messages.
        if await self._state(store, session_id) == _OPEN:
            return True
        if await store.history.count("", session_id=session_id):
            return True
        if not self._creates_missing:
            await self._mark(store, session_id, _OPEN)
        return not self._creates_missing

    async def _use(self, store: AsyncContextStore, session_id: str) -> None:
        """Renews the lifetime of a session, or ends an expired one."""
        (item,) = await store.kv(self._name).get([SESSIONS.key(session_id)])
        if item is None:
            return
        if self._is_over(item, None) and self._is_over(item, await store.sessions.get(session_id)):
            await store.history.clear("", session_id=session_id)
            await store.kv(self._name).delete([SESSIONS.key(session_id)])
        else:
            await store.kv(self._name).put([item])

    def _is_over(self, item: Item, talk: Talk | None) -> bool:
        """Whether a session expired without use here or in another framework."""
        assert item.updated_at is not None
        used_at = max(item.updated_at, talk.updated_at) if talk else item.updated_at
        return self._ttl is not None and used_at + self._ttl <= self._handle.now()

    def _is_listed(self, item: Item, talk: Talk | None) -> bool:
        if self._is_over(item, talk):
            return False
        return item.value == _OPEN or talk is not None

    async def _state(self, store: AsyncContextStore, session_id: str) -> Any:
        (item,) = await store.kv(self._name).get([SESSIONS.key(session_id)])
        return None if item is None else item.value

    async def _mark(self, store: AsyncContextStore, session_id: str, state: dict[str, str]) -> None:
        await store.kv(self._name).put([_item(session_id, state)])


def _session(session_id: str, user_id: str | None, messages: Sequence[Message]) -> Session:
    return Session(id=session_id, user_id=user_id or "", messages=list(messages))


def _item(session_id: str, state: dict[str, str]) -> Item:
    namespace, key = SESSIONS.key(session_id)
    return Item(namespace=namespace, key=key, value=state)


def _new_id() -> str:
    return str(uuid.uuid4())

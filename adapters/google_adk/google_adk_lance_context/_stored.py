"""One session in the store: its last write, its states and its events, read and written together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar
from uuid import uuid4

from google.adk.sessions.session import Session

from google_adk_lance_context import _states as states
from google_adk_lance_context._scopes import name_of
from google_adk_lance_context._states import Delta, state_item, state_of
from lance_context_core import AsyncContextStore, Item, Message
from lance_context_core.adapting import one_at_a_time, transaction_or_store

T = TypeVar("T")

_ROW_BYTES = 4_096
_COPIES = 4
"""An upper bound of what an event takes as items and message, over its JSON."""
_BEFORE_ALL = -1e300
"""The latest time of no events, as JSON has no infinity."""
_ROUNDING_SECONDS = 1e-6
"""What a time loses on its way through a `datetime`."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What is stored of a session, apart from its events."""

    head: Item | None
    own: Item | None
    user: Item | None
    app: Item | None

    @property
    def exists(self) -> bool:
        """Whether ADK has written it, and not another framework alone."""
        return self.head is not None

    @cached_property
    def told(self) -> dict[str, Any]:
        """What the last write said of itself; empty if there was none."""
        return {} if self.head is None else {**(self.head.value or {})}

    @cached_property
    def state(self) -> dict[str, Any]:
        """The state as an agent sees it."""
        return states.merged(state_of(self.own), state_of(self.user), state_of(self.app))

    @property
    def event_id(self) -> str | None:
        """The id of the last event; None without one."""
        told: str | None = self.told.get("event")
        return told

    @property
    def owed(self) -> Message | None:
        """An event that may not be among the others yet: see `StoredSession.write`."""
        data = None if self.head is None else self.head.data
        return Message.from_json(data.decode()) if data else None

    def may_have(self, timestamp: float) -> bool:
        """Whether an event of that time may be stored already, or one is owed."""
        newest = self.told.get("newest")
        return newest is None or timestamp <= newest or self.owed is not None

    def is_newer_than(self, session: Session) -> bool:
        """Whether others have written since the session was read."""
        marker = marker_of(session)
        if marker is not None or not self.exists:
            return self.exists and marker != self.told["marker"]
        # Made by hand, or from JSON, which has no marker. Times may have lost digits on their way.
        if session.events:
            return bool(session.events[-1].id != self.event_id)
        return bool(self.told["updated"] > session.last_update_time + _ROUNDING_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """Where a session is; `store` has the rows of all users, `user` those of its own."""

    store: AsyncContextStore
    user: AsyncContextStore
    agent_id: str
    app_name: str
    user_id: str
    session_id: str

    async def read(self) -> Snapshot:
        """What is stored of it now."""
        head, own, user = await self.user.kv(states.NAME).get(
            [
                states.head_key(self.app_name, self.session_id),
                states.own_key(self.app_name, self.session_id),
                states.user_key(self.app_name),
            ]
        )
        (app,) = await self.store.kv(states.NAME).get([states.app_key(self.app_name)])
        return Snapshot(head=head, own=own, user=user, app=app)

    async def messages(self, snapshot: Snapshot, **part: Any) -> list[Message]:
        """Its events as messages, or a part of them: see `history.get_messages`."""
        history = self.user.history
        found = await history.get_messages(self.agent_id, session_id=self.session_id, **part)
        owed = snapshot.owed
        if owed is None or any(one.id == owed.id for one in found):
            return found
        await self._say(self.user, owed)
        return await history.get_messages(self.agent_id, session_id=self.session_id, **part)

    async def has_messages(self) -> bool:
        """Whether it has any, of whatever framework."""
        history = self.user.history
        return bool(await history.get_messages(self.agent_id, session_id=self.session_id, last=1))

    async def write(
        self,
        there: Snapshot,
        delta: Delta,
        *,
        updated: float,
        message: Message | None = None,
        event_id: str | None = None,
    ) -> tuple[str, Snapshot]:
        """Apply changes, and append an event; one commit where the place allows it.

        Raises ConflictError, and writes nothing, if others have changed one of the items since
        `there`. Without a write-ahead log the state of the app is a commit of its own, the first
        one: it stays changed if the session was written to at the same moment. The session owes
        its event until it is appended: a process that is killed in between leaves it to the next
        reader or writer.
        """
        marker = uuid4().hex
        now = replace(
            there,
            own=self._changed(states.own_key(self.app_name, self.session_id), there.own, delta.own),
            user=self._changed(states.user_key(self.app_name), there.user, delta.user),
            app=self._changed(states.app_key(self.app_name), there.app, delta.app),
        )
        items = [one for one in (now.own, now.user, now.app) if one is not None]
        n_bytes = sum(len(one.data or b"") for one in items) + _size_of(message)
        async with transaction_or_store(
            self.store, n_rows=6, n_bytes=_COPIES * n_bytes + 6 * _ROW_BYTES
        ) as at:
            user = at.scope(user_id=name_of(self.user_id))
            if now.app is not there.app and now.app is not None:
                await at.kv(states.NAME).write(
                    puts=[now.app], expected={_key(now.app): _revision(there.app)}
                )
            is_later = at is self.store
            told = {
                "marker": marker,
                "before": there.told.get("marker"),
                "event": event_id,
                "updated": updated,
                "newest": _newest(there, updated, is_event=message is not None),
            }
            head = self._head(told, owed=message if is_later else None)
            puts, expected = [head], {_key(head): _revision(there.head)}
            if now.own is not there.own and now.own is not None:
                puts.append(now.own)  # changes with the head alone
            if now.user is not there.user and now.user is not None:
                puts.append(now.user)
                expected[_key(now.user)] = _revision(there.user)
            await user.kv(states.NAME).write(puts=puts, expected=expected)
            if message is not None:
                await self._say(user, message)
        return marker, now

    @asynccontextmanager
    async def turn(self, delta: Delta) -> AsyncIterator[None]:
        """Waits for the other writers of a shared state in this process, so that none is in vain."""
        whose = (self.app_name,) if delta.app else (self.app_name, self.user_id)
        if not delta.app and not delta.user:
            yield
            return
        async with one_at_a_time(states.NAME, self.store.uri, *whose):
            yield

    async def delete(self) -> None:
        """Delete it with its events, and leave the states of its user and its app."""
        async with transaction_or_store(self.store, n_rows=6, n_bytes=6 * _ROW_BYTES) as at:
            user = at.scope(user_id=name_of(self.user_id))
            await user.kv(states.NAME).delete(
                [
                    states.head_key(self.app_name, self.session_id),
                    states.own_key(self.app_name, self.session_id),
                ]
            )
            await user.history.clear(self.agent_id, session_id=self.session_id)

    # Helpers

    async def _say(self, user: Any, message: Message) -> None:
        await user.history.append(self.agent_id, message, session_id=self.session_id)

    def _changed(self, key: Any, there: Item | None, delta: Any) -> Item | None:
        return state_item(key, there, delta) if delta else there

    def _head(self, told: dict[str, Any], *, owed: Message | None) -> Item:
        namespace, key = states.head_key(self.app_name, self.session_id)
        data = None if owed is None else owed.to_json().encode()
        return Item(namespace=namespace, key=key, value=told, data=data)


def marker_of(session: Session) -> str | None:
    """Which write a session was read after; None for one that says nothing of it."""
    return session._storage_update_marker  # noqa: SLF001 - the place that ADK has for it


def mark(session: Session, marker: str | None) -> Session:
    """The session, which says which write it was read after."""
    session._storage_update_marker = marker  # noqa: SLF001 - as above
    return session


def _key(item: Item) -> Any:
    return item.namespace, item.key


def _revision(item: Item | None) -> int | None:
    return None if item is None else item.revision


def _newest(there: Snapshot, updated: float, *, is_event: bool) -> float | None:
    """The latest time of all events; None if there may be some that ADK has not written."""
    if not is_event:
        return _BEFORE_ALL
    newest = there.told.get("newest")
    return None if newest is None else max(newest, updated)


def _size_of(message: Message | None) -> int:
    native = None if message is None else message.native
    return len(native["event"]) if native else 0

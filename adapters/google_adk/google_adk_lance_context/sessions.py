"""ADK's session service over the store: events are its history, states its key-value items."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from uuid import uuid4

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session

from google_adk_lance_context import _states as states
from google_adk_lance_context._events import event_json, fingerprint, to_events, to_message
from google_adk_lance_context._scopes import Users, handle_of, refusing, text_of, user_of
from google_adk_lance_context._states import Delta, state_of
from google_adk_lance_context._stored import Snapshot, StoredSession, mark, marker_of
from lance_context_core import AlreadyExistsError as TakenError
from lance_context_core import ConflictError, Item, Message
from lance_context_core.adapting import HandleOwner, StoreLike, retried

Stale = Literal["raise", "append"]
"""What `append_event` does with a session that others have written to since it was read."""


class LanceSessionService(HandleOwner, BaseSessionService):
    """Sessions of ADK in a store: `Runner(…, session_service=LanceSessionService("memory"))`.

    - An event and its changes of the states of the session, the user and the app are one commit.
      They are stored when `append_event` returns, also if the process is killed after it.
    - Processes, threads and event loops may share a store. All of them read one order of events.
    - Sessions of two users never meet, also if they have one id.
    - Other frameworks read events as messages: tool calls and their results are parts there. What
      they write in a session comes back as events.

    Bad arguments raise ADK's InputValidationError before anything is written.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        stale: Stale = "raise",
        agent_id: str | None = None,
        tenant: str | None = None,
        embedder: Any = None,
    ) -> None:
        """Wraps `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `stale`: whether `append_event` raises StaleSessionError if others have written to the
          session since it was read, or appends the event at the end.
        - `agent_id`: the agent of the sessions in other frameworks, such as `""` for LangChain;
          absent means the name of the app.
        - `tenant`: the owner of all of it.
        - `embedder`: for a store that is opened here, such as "local"; finds events by meaning.
        """
        if stale not in get_args(Stale):
            raise InputValidationError(f'stale={stale!r:.80}: give "raise" or "append"')
        self._handle = handle_of(store, embedder)
        self._users = Users(self._handle, agent_id=agent_id, tenant=tenant)
        self._stale = stale

    # Sessions

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Creates a session, with a new id unless one is given; returns it.

        Raises AlreadyExistsError if the user has a session with that id in the app.
        """
        given = "" if session_id is None else text_of(session_id, "session_id").strip()
        place = self._place(app_name, user_id, given or str(uuid4()))
        delta, now = Delta.of(state), time.time()

        async def attempt() -> tuple[str, Snapshot]:
            there = await place.read()
            if there.exists or (given and await place.has_messages()):
                raise AlreadyExistsError(f"Session with id {given} already exists.")
            return await place.write(there, delta, updated=now)

        with refusing():
            async with place.turn(delta):
                marker, stored = await retried(attempt, on=ConflictError)
        return mark(_session(place, stored, updated=now), marker)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Returns a session with its events, in the order in which they were stored; None if absent.

        `config.num_recent_events` returns the last ones, 0 none of them; `config.after_timestamp`
        those of that time or later.
        """
        session_id = text_of(session_id, "session_id").strip()
        if not session_id:
            return None
        place = self._place(app_name, user_id, session_id)
        with refusing():
            stored = await place.read()
            messages = await _messages(place, stored, config)
            if not messages and not stored.exists and not await place.has_messages():
                return None
        events = await to_events(messages, app_name)
        updated = stored.told.get("updated", events[-1].timestamp if events else 0.0)
        session = _session(place, stored, updated=updated)
        session.events = events
        return mark(session, stored.told.get("marker"))

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Returns the sessions of a user, or of all users for None, without events.

        The one that was updated last is the last. Sessions that other frameworks alone have
        written are not among them.
        """
        text_of(app_name, "app_name")
        part = self._users.all if user_id is None else self._users.of(user_id)
        with refusing():
            items = await part.kv(states.NAME).list(prefix=(app_name,))
            (app,) = await self._users.all.kv(states.NAME).get([states.app_key(app_name)])
        own = {(one.user_id, *_place_of(one)): one for one in items}
        sessions = []
        for head in items:
            if head.namespace != (app_name, states.SESSIONS):
                continue
            stored = Snapshot(
                head=head,
                own=own.get((head.user_id, (app_name, states.STATES), head.key)),
                user=own.get((head.user_id, *states.user_key(app_name))),
                app=app,
            )
            place = self._place(app_name, user_of(head.user_id), head.key)
            sessions.append(_session(place, stored, updated=stored.told["updated"]))
            mark(sessions[-1], stored.told["marker"])
        sessions.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes a session with its events and its state, if it exists; older versions keep it.

        The states of the user and of the app stay, and so do memories and artifacts.
        """
        session_id = text_of(session_id, "session_id").strip()
        if session_id:
            place = self._place(app_name, user_id, session_id)
            with refusing():
                await retried(place.delete, on=ConflictError)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Returns the state of a user in an app, without prefixes; empty if there is none."""
        text_of(app_name, "app_name")
        with refusing():
            kv = self._users.of(user_id).kv(states.NAME)
            (item,) = await kv.get([states.user_key(app_name)])
        return state_of(item)

    # Events

    async def append_event(self, session: Session, event: Event) -> Event:
        """Stores an event with its changes of the states, and applies them to `session`.

        - A partial event is returned, and not stored. `temp:` keys are applied to `session` alone.
        - An equal event again, with the same id, changes nothing.
        - Raises SessionNotFoundError if the session does not exist, and, unless `stale="append"`,
          StaleSessionError if others have written to it since `session` was read.
        """
        if not isinstance(session, Session) or not isinstance(event, Event):
            wrong = session if isinstance(event, Event) else event
            raise InputValidationError(
                f"{type(wrong).__name__} {wrong!r:.80}: give a Session and an Event"
            )
        if event.partial:
            return event
        place = self._place(session.app_name, session.user_id, session.id)
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        message, delta = to_message(event), Delta.of(event.actions.state_delta)
        # Another event may have the id already: then this one has its content in its name, too.
        other = replace(message, id=f"{event.id} {fingerprint(message)}")

        tried: list[bool] = []  # whether it may have found something else by now

        async def attempt() -> str | None:
            there = await place.read()
            if not there.exists and not await place.has_messages():
                raise SessionNotFoundError(f"Session {session.id} not found.")
            twins: list[Message] = []
            if tried or there.may_have(event.timestamp):
                ids = [message.id, other.id]
                twins = await place.messages(there, filter={"id": {"$in": ids}})
            tried.append(True)
            if any(event_json(one) == event_json(message) for one in twins):
                return _marker_of_repeat(session, event, there)
            if self._stale == "raise" and there.is_newer_than(session):
                raise StaleSessionError(
                    f"Session {session.id} has been modified in storage since it was read. Get it "
                    'again, or pass stale="append" to the service.'
                )
            new = other if twins else message
            marker, _ = await place.write(
                there, delta, updated=event.timestamp, message=new, event_id=event.id
            )
            return marker

        try:
            with refusing():
                async with place.turn(delta):
                    marker = await retried(attempt, on=(ConflictError, TakenError))
        except (ConflictError, TakenError) as error:
            raise StaleSessionError(
                f"Session {session.id}: others kept changing the same states. Append the event again"
            ) from error
        if marker is not None:
            self._commit_event_to_session(session, event)
            session.last_update_time = event.timestamp
            mark(session, marker)
        return event

    # Helpers

    def _place(self, app_name: str, user_id: str, session_id: str) -> StoredSession:
        return StoredSession(
            store=self._users.all,
            user=self._users.of(user_id),
            agent_id=self._users.agent(app_name),
            app_name=app_name,
            user_id=user_id,
            session_id=session_id,
        )


async def _messages(
    place: StoredSession, stored: Snapshot, config: GetSessionConfig | None
) -> list[Message]:
    last = None if config is None else config.num_recent_events
    after = None if config is None else config.after_timestamp
    if last == 0:
        return []
    if after is None:
        return await place.messages(stored, last=last)
    # A stored time has microseconds, and a timestamp more digits.
    since = datetime.fromtimestamp(int(after), UTC)
    found = await place.messages(stored, filter={"created_at": {"$gte": since}})
    found = [one for one in found if _timestamp(one) >= after]
    return found if last is None else found[-last:]


def _timestamp(message: Message) -> float:
    made = event_json(message)
    if made is not None:
        return Event.model_validate_json(made).timestamp
    return message.created_at.timestamp() if message.created_at else 0.0


def _marker_of_repeat(session: Session, event: Event, there: Snapshot) -> str | None:
    """The marker of a write whose outcome the caller does not know; None if it is known."""
    before = there.told.get("before")
    if there.event_id == event.id and before is not None and before == marker_of(session):
        return str(there.told["marker"])
    return None


def _session(place: StoredSession, stored: Snapshot, *, updated: float) -> Session:
    return Session(
        app_name=place.app_name,
        user_id=place.user_id,
        id=place.session_id,
        state=stored.state,
        last_update_time=updated,
    )


def _place_of(item: Item) -> tuple[tuple[str, ...], str]:
    return item.namespace, item.key

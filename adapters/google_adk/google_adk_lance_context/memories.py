"""ADK's memory service over the store: what was said in an app's sessions, and searches in it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from google_adk_lance_context._events import FRAMEWORK, USER, parts_of
from google_adk_lance_context._parts import gemini_parts
from google_adk_lance_context._scopes import Users, handle_of, refusing, text_of
from google_adk_lance_context._states import NAME
from lance_context_core import (
    AsyncContextStore,
    ConflictError,
    ContextRecord,
    InvalidRequestError,
    Item,
    Message,
)
from lance_context_core.adapting import (
    HandleOwner,
    StoreLike,
    content_of,
    retried,
    says_something,
    transaction_or_store,
)
from lance_context_core.arguments import FilterLike, SearchMode

_ROW_BYTES = 8_192
"""An upper bound of what a memory takes, over its JSON."""


class LanceMemoryService(HandleOwner, BaseMemoryService):
    """Memories of ADK in a store: `Runner(…, memory_service=LanceMemoryService("memory"))`.

    - Memories belong to a user in an app; a search finds those of all sessions.
    - An event is one memory, however often its session is added. A deleted one stays deleted.
    - Memories of other frameworks are found if the service is for no app: `agent_id=""`.

    Bad arguments raise ADK's InputValidationError before anything is written.
    """

    def __init__(
        self,
        store: StoreLike,
        *,
        limit: int = 10,
        mode: SearchMode | None = None,
        filter: FilterLike | None = None,
        agent_id: str | None = None,
        tenant: str | None = None,
        embedder: Any = None,
    ) -> None:
        """Wraps `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `limit`, `mode`, `filter`: how many memories a search finds at most, how, and among which.
        - `agent_id`: whose memories these are; absent means the app's, and `""` those of the user
          in all apps and frameworks.
        - `tenant`: the owner of all of it.
        - `embedder`: for a store that is opened here, such as "local"; finds memories by meaning.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InputValidationError(f"limit={limit!r:.80}: give a whole number, 1 or more")
        self._handle = handle_of(store, embedder)
        self._users = Users(self._handle, agent_id=agent_id, tenant=tenant)
        self._how: dict[str, Any] = {"limit": limit, "mode": mode, "filter": filter}

    async def add_session_to_memory(self, session: Session) -> None:
        """Adds what was said in a session, without what was added or deleted before."""
        if not isinstance(session, Session):
            raise InputValidationError(f"session={session!r:.80}: give a Session")
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Adds what was said in events, in one commit; `custom_metadata` is that of each memory.

        Events without words are left out, and so are tool calls, their results and thoughts.
        """
        said = [_event_memory(one) for one in events if one.content and one.content.parts]
        memories = _once(one for one in said if says_something(one.parts) and one.text.strip())
        if not memories:
            return
        keys = [_forgotten(app_name, one.id or "") for one in memories]

        async def attempt() -> None:
            user = self._users.of(user_id)
            gone = {one.key for one in await user.kv(NAME).get(keys) if one is not None}
            new = [one for one in memories if one.id not in gone]
            await self._add(user, app_name, new, session_id=session_id, metadata=custom_metadata)

        with refusing():
            await retried(attempt, on=ConflictError)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Adds memories, in one commit; those without an id get one.

        One whose id exists is left as it is. `custom_metadata` is added to that of each memory.
        """
        with refusing():
            made = _once(_entry_memory(one, custom_metadata or {}) for one in memories)
            if any(not one.text.strip() for one in made):
                raise InputValidationError("a memory has no text: give each content a text part")
            user = self._users.of(user_id)
            memory = self._of_app(user, app_name).memory
            await memory.add(made, keep_existing=True, duplicates="keep")

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Finds memories of a user in an app, best first; none for a query without words."""
        text_of(query, "query")
        user = self._users.of(user_id)
        agent = self._users.agent(app_name)
        if not query.strip():
            return SearchMemoryResponse()
        with refusing():
            memory = (user.scope(agent_id=agent) if agent else user).memory
            hits = await memory.search(query, **self._how)
        return SearchMemoryResponse(memories=[_entry(hit.record) for hit in hits])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Deletes a memory, if it exists; adding its event again does not bring it back."""
        if not memory_id:
            return
        namespace, key = _forgotten(app_name, text_of(memory_id, "memory_id"))
        user = self._users.of(user_id)
        with refusing():
            async with transaction_or_store(user, n_rows=2, n_bytes=2 * _ROW_BYTES) as at:
                if await self._of_app(at, app_name).memory.delete(ids=[memory_id]):
                    await at.kv(NAME).put([Item(namespace=namespace, key=key)])

    # Helpers

    def _of_app(self, user: Any, app_name: str) -> Any:
        agent = self._users.agent(app_name)
        return user.scope(agent_id=agent) if agent else user

    async def _add(
        self,
        user: AsyncContextStore,
        app_name: str,
        memories: Sequence[Message],
        *,
        session_id: str | None,
        metadata: Mapping[str, object] | None,
    ) -> None:
        """Add them, unless one was deleted at the same moment. Raises ConflictError then."""
        n_bytes = sum(len(str(one.native)) + _ROW_BYTES for one in memories)
        async with transaction_or_store(user, n_rows=2 * len(memories), n_bytes=n_bytes) as at:
            expected = {_forgotten(app_name, one.id or ""): None for one in memories}
            await at.kv(NAME).write(expected=expected)
            await self._of_app(at, app_name).memory.add(
                memories,
                session_id=session_id or "",
                metadata=metadata,
                keep_existing=True,
                duplicates="keep",
            )


# Events and entries as messages, and memories as entries


def _once(memories: Iterable[Message]) -> list[Message]:
    """The memories, the first one of each id."""
    first: dict[str | None, Message] = {}
    for one in memories:
        first.setdefault(one.id, one)
    return list(first.values())


def _event_memory(event: Event) -> Message:
    return _memory(
        event.id,
        event.content,
        author=event.author,
        at=datetime.fromtimestamp(event.timestamp, UTC),
    )


def _entry_memory(entry: MemoryEntry, more: Mapping[str, object]) -> Message:
    try:
        at = None if entry.timestamp is None else datetime.fromisoformat(entry.timestamp)
    except ValueError as error:
        raise InputValidationError(
            f"timestamp={entry.timestamp!r:.80}: give a time by ISO 8601"
        ) from error
    return _memory(
        entry.id or str(uuid4()),
        entry.content,
        author=entry.author,
        at=at if at is None or at.tzinfo is not None else at.astimezone(),
        metadata={**entry.custom_metadata, **more},
    )


def _memory(
    id: str,
    content: types.Content | None,
    *,
    author: str | None,
    at: datetime | None,
    metadata: Mapping[str, Any] | None = None,
) -> Message:
    try:
        made = "" if content is None else content.model_dump_json(exclude_none=True)
        return Message(
            role=USER if not author or author == USER else "assistant",
            parts=parts_of(content),
            id=id,
            name=author or None,
            created_at=at,
            metadata=metadata or {},
            native={"framework": FRAMEWORK, "content": made},
        )
    except (InvalidRequestError, ValueError) as error:
        raise InputValidationError(f"memory {id!r:.80} cannot be stored: {error}") from error


def _entry(record: ContextRecord) -> MemoryEntry:
    native = record.native or {}
    if native.get("framework") == FRAMEWORK and native.get("content"):
        content = types.Content.model_validate_json(native["content"])
    else:
        parts = list(gemini_parts(record.parts, {})) or [types.Part(text=content_of(record))]
        content = types.Content(role=USER if record.role in (USER, None) else "model", parts=parts)
    return MemoryEntry(
        id=record.id,
        content=content,
        author=record.name or record.role,
        timestamp=record.created_at.isoformat(),
        custom_metadata=json.loads(json.dumps({**record.metadata})),
    )


def _forgotten(app_name: str, memory_id: str) -> tuple[tuple[str, ...], str]:
    """Where it is noted that a memory was deleted."""
    return (app_name, "forgotten"), memory_id

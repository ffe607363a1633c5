"""The framework's session store over key-value items."""

import json
from typing import Any

from agent_framework import AgentSession, SessionStore

from agent_framework_lance_context._errors import as_integration_errors, scoped
from lance_context_core import Item
from lance_context_core.adapting import Handle, HandleOwner, StoreLike, check_name
from lance_context_core.protocols import ItemKey

NAME = "agent-framework"
"""The set of key-value items of this adapter."""


class LanceSessionStore(HandleOwner, SessionStore):
    """Snapshots of sessions, which any process reads again; the last one that is stored counts.

    Custom types in `session.state` need `agent_framework.register_state_type`. NaN, infinities and
    lone surrogates come back as they were.
    """

    def __init__(
        self, store: StoreLike, *, user_id: str | None = None, tenant: str | None = None
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `aclose` closes again.

        `user_id`, `tenant`: the owner of the sessions; another owner's do not exist for it.
        """
        super().__init__()
        with as_integration_errors():
            self._handle = Handle(store)
        self._store = scoped(self._handle, tenant=tenant, user_id=user_id)

    async def get(self, session_id: str) -> AgentSession | None:
        """Returns a copy of the stored session; None if there is none."""
        key = self._key(session_id)
        with as_integration_errors():
            (item,) = await self._store.kv(NAME).get([key])
        return None if item is None else AgentSession.from_dict(json.loads(item.data or b""))

    async def set(self, session_id: str, session: AgentSession) -> None:
        """Stores a copy of the session, in place of the one that is stored under this id.

        Raises TypeError for a subclass of AgentSession, and for a state that holds objects of types
        that are not registered; ValueError for one that holds itself. Nothing is written then.
        """
        namespace, key = self._key(session_id)
        data = _dumped(session)
        item = Item(
            namespace=namespace,
            key=key,
            value={"session_id": key},
            data=data,
            data_type="application/json",
        )
        with as_integration_errors():
            await self._store.kv(NAME).put([item])

    async def delete(self, session_id: str) -> None:
        """Removes the session, if it is stored. Messages of a history provider stay."""
        key = self._key(session_id)
        with as_integration_errors():
            await self._store.kv(NAME).delete([key])

    def _key(self, session_id: str) -> ItemKey:
        self.validate_session_id(session_id)
        with as_integration_errors():
            return ("sessions",), check_name(session_id, "session_id")


def _dumped(session: Any) -> bytes:
    if type(session) is not AgentSession:
        raise TypeError(
            f"session={session!r:.80}: give an AgentSession; a subclass needs a store of its own"
        )
    try:
        return json.dumps(session.to_dict()).encode()
    except TypeError as error:
        raise TypeError(
            f"the state of session {session.session_id!r:.80} cannot be stored: {error}. Call "
            "register_state_type for its type"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"the state of session {session.session_id!r:.80} cannot be stored: {error}"
        ) from error

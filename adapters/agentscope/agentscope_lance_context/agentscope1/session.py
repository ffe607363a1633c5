"""Key-value items of the store as AgentScope's session: the states of agents, by user and session."""

import asyncio
import json
from typing import Any

from agentscope_lance_context._checks import check_seconds
from agentscope_lance_context._handles import UserHandle
from agentscope_lance_context._owning import StoreOwner
from agentscope_lance_context._places import SESSION_STATES
from agentscope_lance_context.agentscope1._framework import SessionBase, StateModule
from lance_context_core import InvalidRequestError, Item
from lance_context_core.adapting import StoreLike
from lance_context_core.arguments import ItemKey


class LanceContextSession(StoreOwner, SessionBase):
    """Saved states of agents and other modules of AgentScope.

    A `LanceContextMemory` stores its messages itself: they are not part of the state.
    """

    _handle: UserHandle

    def __init__(
        self,
        store: StoreLike,
        *,
        ttl_seconds: float | None = None,
        embedder: Any = None,
        name: str = SESSION_STATES.name,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `close` closes again.

        - `ttl_seconds`: lifetime of a session after its last save or load; absent means for ever.
        - `embedder`: for a store at a URI; states need none.
        - `name`: of the states, which are `store.kv(name)`.
        """
        self._handle = UserHandle(store, embedder=embedder)
        self._ttl = check_seconds(ttl_seconds, "ttl_seconds")
        self._name = name

    async def save_session_state(
        self, session_id: str, user_id: str = "", **state_modules_mapping: StateModule
    ) -> None:
        """Stores the states of these modules, replacing all states of the session.

        Raises InvalidRequestError, before anything is written, for a state that is not JSON.
        """
        states = {name: module.state_dict() for name, module in state_modules_mapping.items()}
        data = await asyncio.to_thread(_encoded, states)
        namespace, key = _key(session_id)
        item = Item(
            namespace=namespace,
            key=key,
            data=data,
            data_type="application/json",
            expires_at=None if self._ttl is None else self._handle.now() + self._ttl,
        )
        await self._handle.of(user_id).kv(self._name).put([item])

    async def load_session_state(
        self,
        session_id: str,
        user_id: str = "",
        allow_not_exist: bool = True,  # noqa: FBT001, FBT002 - as AgentScope has it
        **state_modules_mapping: StateModule,
    ) -> None:
        """Loads the saved states into the modules by name; others stay unchanged.

        A session without a saved state changes nothing, or raises InvalidRequestError, a
        ValueError.
        """
        states = self._handle.of(user_id).kv(self._name)
        key = _key(session_id)
        (item,) = await states.get([key])
        if item is None or item.data is None:
            if not allow_not_exist:
                raise InvalidRequestError(
                    f"session_id={session_id!r:.80}: nothing was saved under it, "
                    f"by user_id={user_id!r:.80}"
                )
            return
        if self._ttl is not None:
            await states.touch([key], expires_at=self._handle.now() + self._ttl)
        saved = await asyncio.to_thread(json.loads, item.data)
        for name, module in state_modules_mapping.items():
            if name in saved:
                module.load_state_dict(saved[name])

    async def delete_session_state(self, session_id: str, user_id: str = "") -> bool:
        """Delete the saved state of a session; returns whether it existed."""
        key = _key(session_id)
        (existed,) = await self._handle.of(user_id).kv(self._name).delete([key])
        return existed


def _key(session_id: str) -> ItemKey:
    if not isinstance(session_id, str) or not session_id:
        raise InvalidRequestError(f"session_id={session_id!r:.80}: give it a name")
    return SESSION_STATES.key(session_id)


def _encoded(states: dict[str, Any]) -> bytes:
    try:
        return json.dumps(states).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"a state holds something that JSON cannot: {error}") from error

"""Key-value items of the store as AgentScope's state service."""

import json
from dataclasses import replace
from typing import Any

from agentscope_lance_context._checks import check_seconds
from agentscope_lance_context._handles import StoreService, UserHandle
from agentscope_lance_context._places import STATES
from agentscope_lance_context._runtime import StateService
from lance_context_core import AsyncKeyValues, InvalidRequestError, Item
from lance_context_core.adapting import StoreLike

_DEFAULT_SESSION = "default"
_MAX_ROUND = 2**63 - 1
_DIGITS = 20


class LanceContextStateService(StoreService, StateService):
    """The states of agents by user, session and round; rounds may have gaps."""

    def __init__(
        self,
        store: StoreLike,
        *,
        embedder: Any = None,
        ttl_seconds: float | None = None,
        name: str = STATES.name,
    ) -> None:
        """Over `store`: an open one, which stays open, or a URI, which `stop` closes again.

        - `embedder`: for a store at a URI; states need none.
        - `ttl_seconds`: lifetime of a session's states after the last save or export; absent means
          for ever.
        - `name`: of the states, which are `store.kv(name)`.
        """
        self._handle = UserHandle(store, embedder=embedder)
        self._ttl = check_seconds(ttl_seconds, "ttl_seconds")
        self._name = name

    async def save_state(
        self,
        user_id: str,
        state: dict[str, Any],
        session_id: str | None = None,
        round_id: int | None = None,
    ) -> int:
        """Saves the state of a round, replacing an existing one; returns the round.

        The default round is the one after the last, beginning with 1; no two calls get the same.
        Raises InvalidRequestError, before anything is written, for a state that is not a JSON
        object.
        """
        data = _encoded(state)
        items = self._handle.of(user_id).kv(self._name)
        session = STATES.namespace(session_id or _DEFAULT_SESSION)
        item = Item(
            namespace=session,
            key=_key(1 if round_id is None else round_id),
            data=data,
            data_type="application/json",
            expires_at=None if self._ttl is None else self._handle.now() + self._ttl,
        )
        if round_id is None:
            round_id = await _added(items, item)
        else:
            await items.put([item])
        await self._use(items, session)
        return round_id

    async def export_state(
        self, user_id: str, session_id: str | None = None, round_id: int | None = None
    ) -> dict[str, Any] | None:
        """The state of a round, by default the last; None if it does not exist."""
        items = self._handle.of(user_id).kv(self._name)
        session = STATES.namespace(session_id or _DEFAULT_SESSION)
        if round_id is None:
            latest = await items.list(namespace=session, reverse=True, limit=1)
            found = latest[0] if latest else None
        else:
            (found,) = await items.get([(session, _key(round_id))])
        if found is None or found.data is None:
            return None
        await self._use(items, session)
        state: dict[str, Any] = json.loads(found.data)
        return state

    async def _use(self, items: AsyncKeyValues, session: tuple[str, ...]) -> None:
        """Renews the lifetime of all states of a session."""
        if self._ttl is not None:
            keys = await items.keys(namespace=session)
            await items.touch(keys, expires_at=self._handle.now() + self._ttl)


async def _added(items: AsyncKeyValues, item: Item) -> int:
    """The round after the last of a session, with the current item."""
    while True:
        latest = await items.keys(namespace=item.namespace, reverse=True, limit=1)
        free = _round(latest[0][1]) + 1 if latest else 1
        # Another writer may take it at the same moment.
        (is_mine,) = await items.add([replace(item, key=_key(free))])
        if is_mine:
            return free


def _key(round_id: int) -> str:
    """A text that sorts by number."""
    is_number = isinstance(round_id, int) and not isinstance(round_id, bool)
    if not is_number or abs(round_id) > _MAX_ROUND:
        raise InvalidRequestError(f"round_id={round_id!r:.80}: give a whole number of 64 bits")
    return f"{round_id + _MAX_ROUND:0{_DIGITS}d}"


def _round(key: str) -> int:
    return int(key) - _MAX_ROUND


def _encoded(state: object) -> bytes:
    if not isinstance(state, dict):
        raise InvalidRequestError(f"state is {state!r:.80}: give a dict")
    try:
        return json.dumps(state).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"state holds something that JSON cannot: {error}") from error

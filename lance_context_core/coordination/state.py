"""Short-term state of sessions: JSON objects, changed by patches."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lance_context_core._handle import handle
from lance_context_core._resources import Resources
from lance_context_core._util.checks import check_json_object, check_name, shown
from lance_context_core.coordination.changes import Written, changed
from lance_context_core.errors import InvalidRequestError
from lance_context_core.scope import Scope
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item

NAME = "lance_context.state"
"""The name of the key-value store of session state."""

_KEY = "state"


@handle
class AsyncShortTermState:
    """The state of each session."""

    _resources: Resources
    _scope: Scope

    async def get(self, session_id: str) -> dict[str, Any]:
        """Return the state of a session; empty if absent."""
        (item,) = await self._items.get([_key(session_id)])
        return {} if item is None else dict(item.value or {})

    async def set(
        self, session_id: str, state: Mapping[str, Any], *, lifetime: timedelta | None = None
    ) -> None:
        """Replace the state; it expires after `lifetime`, None means never."""
        await self._items.put([self._item(session_id, check_json_object(state, "state"), lifetime)])

    async def patch(
        self, session_id: str, patch: Mapping[str, Any], *, lifetime: timedelta | None = None
    ) -> dict[str, Any]:
        """Apply a JSON Merge Patch (RFC 7396) to the state, and return it.

        Objects are merged key by key, None removes a key, any other value replaces the old one.
        Concurrent patches of one session do not undo each other. The lifetime restarts, with the
        given value.
        """
        checked = check_json_object(patch, "patch")

        async def decide(before: Mapping[str, Any] | None) -> tuple[Written, dict[str, Any]]:
            after = merged(before or {}, checked)
            return Written(puts=[self._item(session_id, after, lifetime)]), after

        return await changed(
            self._items, _key(session_id), decide, what=f"the state of session {session_id!r}"
        )

    async def clear(self, session_id: str) -> bool:
        """Delete the state of a session; returns whether it existed."""
        return any(await self._items.delete([_key(session_id)]))

    # Helpers

    def _item(self, session_id: str, state: Mapping[str, Any], lifetime: timedelta | None) -> Item:
        namespace, key = _key(session_id)
        if lifetime is None:
            return Item(namespace=tuple(namespace), key=key, value=state)
        if not isinstance(lifetime, timedelta) or lifetime <= timedelta(0):
            raise InvalidRequestError(
                f"lifetime={shown(lifetime)}: give a timedelta above 0, or None for ever"
            )
        until = self._resources.clock.now() + lifetime
        return Item(namespace=tuple(namespace), key=key, value=state, expires_at=until)

    @property
    def _items(self) -> AsyncKeyValues:
        return AsyncKeyValues(NAME, self._resources, self._scope)


def merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a merge patch to an object."""
    after = dict(before)
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        elif isinstance(value, Mapping):
            inner = after.get(key)
            after[key] = merged(inner if isinstance(inner, Mapping) else {}, value)
        else:
            after[key] = value
    return after


def _key(session_id: str) -> tuple[tuple[str, ...], str]:
    return (check_name(session_id, "session_id"),), _KEY

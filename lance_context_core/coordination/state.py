"""What an agent keeps in mind during one session: a JSON object, changed by patches."""

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
"""What the items are called in which the state of sessions is kept."""

_KEY = "state"


@handle
class AsyncShortTermState:
    """The state of each session."""

    _resources: Resources
    _scope: Scope

    async def get(self, session_id: str) -> dict[str, Any]:
        """What is kept of a session; empty if nothing is."""
        (item,) = await self._items.get([_key(session_id)])
        return {} if item is None else dict(item.value or {})

    async def set(
        self, session_id: str, state: Mapping[str, Any], *, lifetime: timedelta | None = None
    ) -> None:
        """Keep this in place of whatever there was; after `lifetime` it is gone, None means never."""
        await self._items.put([self._item(session_id, check_json_object(state, "state"), lifetime)])

    async def patch(
        self, session_id: str, patch: Mapping[str, Any], *, lifetime: timedelta | None = None
    ) -> dict[str, Any]:
        """Change what is kept, and return it: as JSON Merge Patch says (RFC 7396).

        Objects are merged key by key, None removes a key, everything else takes the place of what
        there was. Of those who patch one session at once, none undoes what another did. The lifetime
        begins anew: it is the one given here.
        """
        checked = check_json_object(patch, "patch")

        async def decide(before: Mapping[str, Any] | None) -> tuple[Written, dict[str, Any]]:
            after = merged(before or {}, checked)
            return Written(puts=[self._item(session_id, after, lifetime)]), after

        return await changed(
            self._items, _key(session_id), decide, what=f"the state of session {session_id!r}"
        )

    async def clear(self, session_id: str) -> bool:
        """Forget what is kept of a session; returns whether there was anything."""
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
    """What a merge patch makes of an object."""
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

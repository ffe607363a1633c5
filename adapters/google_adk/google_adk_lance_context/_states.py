"""States by their prefixes, as key-value items.

| namespace | key | item | whose |
|---|---|---|---|
| `(app, "sessions")` | the session | its last write: `marker`, `before`, `event`, `updated`, `newest` | the user's |
| `(app, "states")` | the session | its state as JSON | the user's |
| `(app, "user")` | `"state"` | the state of the user as JSON | the user's |
| `(app, "app")` | `"state"` | the state of the app as JSON | no one's |
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.adk.errors.input_validation_error import InputValidationError
from google.adk.sessions.state import State
from pydantic_core import PydanticSerializationError, to_jsonable_python

from lance_context_core import Item
from lance_context_core.protocols import ItemKey

NAME = "google-adk"
"""The set of key-value items."""

SESSIONS, STATES = "sessions", "states"
_KEY = "state"
_LOG = logging.getLogger(__name__)


def head_key(app_name: str, session_id: str) -> ItemKey:
    """Where the last write of a session is described."""
    return (app_name, SESSIONS), session_id


def own_key(app_name: str, session_id: str) -> ItemKey:
    """Where the state of a session is."""
    return (app_name, STATES), session_id


def user_key(app_name: str) -> ItemKey:
    """Where the state of a user is."""
    return (app_name, "user"), _KEY


def app_key(app_name: str) -> ItemKey:
    """Where the state of an app is."""
    return (app_name, "app"), _KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Changes of the three states that are stored, without prefixes, as JSON."""

    own: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)
    app: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, state: Any) -> "Delta":
        """The changes that a dictionary with prefixes means; `temp:` keys are left out.

        What is no JSON becomes a text, with a warning.
        """
        if not state:
            return cls()
        if not isinstance(state, Mapping):
            raise InputValidationError(f"state={state!r:.80}: give a dictionary, or None")
        parts: dict[str, dict[str, Any]] = {State.APP_PREFIX: {}, State.USER_PREFIX: {}, "": {}}
        for key, value in _jsonable(state).items():
            if key.startswith(State.TEMP_PREFIX):
                continue
            prefix = next(one for one in parts if key.startswith(one))
            parts[prefix][key.removeprefix(prefix)] = value
        return cls(app=parts[State.APP_PREFIX], user=parts[State.USER_PREFIX], own=parts[""])


def merged(
    own: Mapping[str, Any], user: Mapping[str, Any], app: Mapping[str, Any]
) -> dict[str, Any]:
    """The state of a session as an agent sees it."""
    return {
        **own,
        **{State.APP_PREFIX + key: value for key, value in app.items()},
        **{State.USER_PREFIX + key: value for key, value in user.items()},
    }


def state_of(item: Item | None) -> dict[str, Any]:
    """The state of an item, a new dictionary each time; empty for None."""
    if item is None or item.data is None:
        return {}
    state: dict[str, Any] = json.loads(item.data)
    return state


def state_item(key: ItemKey, there: Item | None, delta: Mapping[str, Any]) -> Item:
    """The item with the changes applied to what it was."""
    namespace, name = key
    data = json.dumps({**state_of(there), **delta}, separators=(",", ":")).encode()
    return Item(namespace=namespace, key=name, data=data, data_type="application/json")


def _jsonable(state: Mapping[str, Any]) -> dict[str, Any]:
    try:
        same: dict[str, Any] = to_jsonable_python(state)
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        _LOG.warning("values of the state are no JSON, and stored as text: %s", error)
        same = to_jsonable_python(state, serialize_unknown=True)
    except (ValueError, RecursionError) as error:
        raise InputValidationError(f"the state cannot be stored as JSON: {error}") from error
    return same

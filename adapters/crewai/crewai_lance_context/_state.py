"""The state of a flow as JSON, equal to what CrewAI's own SQLite persistence gives back."""

import json
from datetime import date
from typing import Any

from pydantic import BaseModel


def dumped(state: Any) -> bytes:
    """The JSON of a state. Raises ValueError for what is no dictionary and no model."""
    return _json(_as_dict(state))


def dumped_pending(context: dict[str, Any], state: Any) -> bytes:
    """The JSON of a context of feedback and the state that it belongs to."""
    return _json({"context": context, "state": _as_dict(state)})


def loaded(data: bytes | None) -> Any:
    """The value of a JSON text, NaN and infinities included."""
    return json.loads(data or b"null")


def _as_dict(state: Any) -> dict[str, Any]:
    if isinstance(state, BaseModel):
        try:
            return state.model_dump(mode="json")
        except Exception:  # noqa: BLE001 - a field that Pydantic cannot write: `_plain` can
            return state.model_dump(mode="python")
    if isinstance(state, dict):
        return state
    raise ValueError(f"state_data={state!r:.80}: give a dictionary or a Pydantic model")


def _json(value: Any) -> bytes:
    return json.dumps(value, default=_plain).encode()


def _plain(value: Any) -> Any:
    """What JSON has no word for: a list for a set, a text for anything else."""
    if isinstance(value, BaseModel):
        return _as_dict(value)
    if isinstance(value, set):
        return list(value)
    return value.isoformat() if isinstance(value, date) else str(value)

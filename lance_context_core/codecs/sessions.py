"""Descriptions of sessions to rows and back."""

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from lance_context_core._util.checks import (
    check_json_object,
    check_name,
    check_text,
    check_time,
    dumps,
    loads,
)
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage.lance.schema import KEY, SESSIONS
from lance_context_core.storage.names import new_revision
from lance_context_core.types import Session

COLUMNS = tuple(SESSIONS.schema.names)
"""What a session is read from, without what its messages tell."""

DESCRIBING = ("title", "status", "ended_at", "expires_at", "metadata")
"""The columns that its users may change."""


def checked(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Values of fields that describe a session, by name, in plain types.

    Raises InvalidRequestError for what could not be kept faithfully.
    """
    return {
        name: None
        if value is None and name not in _REQUIRED
        else _CHECKS[name](value, f"{where}{name}")
        for name, value in values.items()
    }


def to_row(session: Session, *, key: str) -> dict[str, Any]:
    """The row of a session whose values are checked."""
    names = ("id", *SCOPE_PARTS, "created_at", "updated_at", "author", *DESCRIBING)
    row = {name: getattr(session, name) for name in names}
    return row | {KEY: key, "revision": new_revision(), "metadata": dumps(session.metadata)}


def from_row(row: Mapping[str, Any]) -> Session:
    """The session of a row."""
    # Arrow has a UTC of its own.
    # And what a release before this one has written lacks some.
    times: dict[str, Any] = {
        name: row.get(name) and row[name].replace(tzinfo=UTC) for name in _TIMES
    }
    texts: dict[str, Any] = {
        name: row.get(name) for name in ("id", "title", "status", "author", *SCOPE_PARTS)
    }
    metadata = loads(row["metadata"], "metadata") if row["metadata"] else {}
    return Session(**texts, **times, metadata=metadata)


_REQUIRED = {"status", "metadata"}
_TIMES = ("created_at", "updated_at", "ended_at", "expires_at")
_CHECKS: Mapping[str, Callable[[Any, str], Any]] = {
    "title": check_text,
    "status": check_name,
    "ended_at": check_time,
    "expires_at": check_time,
    "metadata": check_json_object,
}

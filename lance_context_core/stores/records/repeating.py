"""What tells a write that is repeated from another one under the same id."""

from collections.abc import Mapping
from typing import Any

from lance_context_core.errors import AlreadyExistsError
from lance_context_core.messages import TextPart, parts_to_json

CONTENT = (
    "session_id", "role", "name", "content_type", "text", "parts", "blob", "payload_uri",
)  # fmt: skip
"""What is read of a row to tell what it says. Its data, such as metadata, may change meanwhile."""


def refuse_other_content(
    new: Mapping[str, Any], there: Mapping[str, Any], identity: tuple[str, str] | None
) -> None:
    """Raise AlreadyExistsError unless the row that is there, under one identity, says the same."""
    if identity and _content(new) != _content(there):
        column, value = identity
        raise AlreadyExistsError(
            f"{column}={value!r} is taken by a {new['kind']} with another content: choose another "
            "one, or replace what is there, as upsert() of the record API does"
        )


def _content(row: Mapping[str, Any]) -> list[Any]:
    values = {name: row[name] for name in CONTENT}
    if values["parts"] is None and values["text"] is not None:
        # One message, whether it came in by its text or by its parts.
        values["parts"] = parts_to_json([TextPart(text=values["text"])])
    return list(values.values())

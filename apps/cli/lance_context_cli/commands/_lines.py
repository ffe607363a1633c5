"""Records, sessions and versions as lines."""

from collections.abc import Mapping
from typing import Any

from lance_context_cli.output import Line

RECORD = ("id", "created", "kind", "session", "who", "text")
_NOT_FOR_READING = ("binary", "embedding", "content", "bot_id", "native", "blob")
"""Fields of a record that are large, or that stand under another name, too."""


def record_line(record: Any, *first: object) -> Line:
    """A record's line, behind the cells `first`."""
    value = fields_of(record)
    who = value["name"] or value["role"] or value["user_id"] or value["agent_id"]
    place = (value["id"], value["created_at"], value["kind"], value["session_id"])
    return Line((*first, *place, who, text_of(value)), value)


def fields_of(record: Any) -> dict[str, Any]:
    """The fields of a record, or of a mapping of the record API, that a person reads."""
    value = record if isinstance(record, Mapping) else _vars(record)
    return {name: one for name, one in value.items() if name not in _NOT_FOR_READING}


def text_of(record: Mapping[str, Any]) -> str:
    """What a record says, or in brackets what it is."""
    return record["text"] or f"[{record['content_type']}]"


def _vars(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}

"""Records as columns of Arrow, for those who read them with other tools."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_context_core._util.checks import dumps
from lance_context_core.messages import parts_to_json

_TEXTS = pa.list_(pa.string())
_TIME = pa.timestamp("us", tz="UTC")
_RELATIONSHIPS = pa.list_(
    pa.struct([("target_id", pa.string()), ("relation", pa.string()), ("weight", pa.float64())])
)

_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("id", "external_id", "context", "kind", "layer"), pa.string()),
    "source_ids": _TEXTS,
    **dict.fromkeys(
        ("tenant", "user_id", "agent_id", "session_id", "run_id", "author"), pa.string()
    ),
    **dict.fromkeys(("role", "name", "content_type", "text"), pa.string()),
    **dict.fromkeys(("parts", "native"), pa.string()),
    "blob": pa.large_binary(),
    "payload_uri": pa.string(),
    "payload_size": pa.int64(),
    **dict.fromkeys(("payload_checksum", "source"), pa.string()),
    "embedding": pa.list_(pa.float32()),
    **dict.fromkeys(("metadata", "state_metadata"), pa.string()),
    "relationships": _RELATIONSHIPS,
    "tags": _TEXTS,
    "lifecycle_status": pa.string(),
    **dict.fromkeys(("created_at", "updated_at", "expires_at", "retired_at"), _TIME),
    **dict.fromkeys(("retention_policy", "retired_reason"), pa.string()),
    **dict.fromkeys(("supersedes_id", "superseded_by_id"), pa.string()),
}
"""The fields of a record, those first by which it is known."""


def record_columns(records: Sequence[Any]) -> dict[str, pa.Array]:
    """A column for each field of a `ContextRecord`, by its name; JSON is text there."""
    return {
        name: pa.array([_plain(name, getattr(one, name)) for one in records], type_)
        for name, type_ in _TYPES.items()
    }


def _plain(name: str, value: Any) -> Any:
    return _AS_PLAIN[name](value) if value is not None and name in _AS_PLAIN else value


_AS_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "parts": lambda parts: parts_to_json(parts) if parts else None,
    **dict.fromkeys(("native", "metadata", "state_metadata"), dumps),
    "relationships": lambda edges: [
        {"target_id": one.target_id, "relation": one.relation, "weight": one.weight}
        for one in edges
    ],
}

"""What a document is found by: the compositions of the store, which are made for records."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lance_context_core.records import ContextRecord


def as_record(
    *, id: str, text: str | None, metadata: Mapping[str, Any], created_at: datetime
) -> ContextRecord:
    """A document as a `Composer` is shown it: a record of the kind `document`."""
    return ContextRecord(
        id=id,
        kind="document",
        content_type="text/plain",
        created_at=created_at,
        updated_at=created_at,
        text=text,
        metadata=metadata,
    )

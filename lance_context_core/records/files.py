"""What is known of the bytes that are kept."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.records.owned import Owned


@own_first
@frozen_by_name
class Bytes(Owned):
    """Bytes, which are known by their hash."""

    hash: str
    """SHA-256 of the bytes, in hexadecimal digits."""
    size: int
    """In bytes."""
    created_at: datetime
    """When they were put here first: aware, UTC."""


@own_first
@frozen_by_name
class File(Bytes):
    """Bytes that somebody may say more about."""

    updated_at: datetime
    """When its content, or what is said of it, was last replaced."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key, the caller's own; filters look into it."""

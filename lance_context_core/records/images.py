"""Pictures, recordings and films that are kept, as their users see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lance_context_core.records.owned import Owned, own_first


@own_first
@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecord(Owned):
    """A picture, a recording or a film; its bytes are a blob, and are not in here."""

    id: str
    """That of the record which it is: made from the scope, the session and the content."""
    kind: str
    """`image`, `audio` or `video`."""
    content_type: str
    """As its first bytes say, such as `image/png`."""
    format: str
    """`png`, `jpeg`, `mp4`."""
    hash: str
    """SHA-256 of the bytes, in hexadecimal digits."""
    size: int
    """In bytes."""
    created_at: datetime
    updated_at: datetime
    name: str | None = None
    """The name of the file, without its folders."""
    width: int | None = None
    """In pixels, as it is to be seen; absent for sound and films, and for what does not say."""
    height: int | None = None
    caption: str | None = None
    """What it shows."""
    text: str | None = None
    """What is to be read or heard in it."""
    tags: tuple[str, ...] = ()
    session_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON by key, the caller's own; filters look into it."""
    uri: str | None = None
    """The blob that its bytes are; where it was, if they are not kept."""

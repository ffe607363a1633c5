"""Bytes that are kept by their hash: what is known of them."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.types.records import Owned

# What is known of the bytes that are kept.


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


@own_first
@frozen_by_name
class Blob(Bytes):
    """Bytes that the store keeps: a file, a picture, whatever is no text; they are not in here."""

    content_type: str
    """The media type, as the first `put` named it."""
    expires_at: datetime | None = None
    """From then on it is not there, unless it is pinned or something names it; absent means never."""
    is_pinned: bool = False
    """Whether it stays though nothing names it."""

    @property
    def uri(self) -> str:
        """`blob:sha256:…`, which names it in its store: the `payload_uri` of a record, say."""
        return uri_of(self.hash)


def uri_of(hash: str) -> str:
    """The URI of the bytes of that hash."""
    return f"{SCHEME}{hash}"


SCHEME = "blob:sha256:"
"""What the URIs of blobs begin with."""


# Pictures, recordings and films that are kept, as their users see them.


@own_first
@frozen_by_name
class ImageRecord(File):
    """A picture, a recording or a film; its bytes are a blob, and are not in here."""

    id: str
    """That of the record which it is: made from the scope, the session and the content."""
    kind: str
    """`image`, `audio` or `video`."""
    session_id: str | None = None
    uri: str | None = None
    """The blob that its bytes are; where it was, if they are not kept."""
    name: str | None = None
    """The name of the file, without its folders."""
    content_type: str
    """As its first bytes say, such as `image/png`."""
    format: str
    """`png`, `jpeg`, `mp4`."""
    width: int | None = None
    """In pixels, as it is to be seen; absent for sound and films, and for what does not say."""
    height: int | None = None
    tags: tuple[str, ...] = ()
    caption: str | None = None
    """What it shows."""
    text: str | None = None
    """What is to be read or heard in it."""

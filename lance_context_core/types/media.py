"""Blobs and media, identified by the hash of their bytes."""

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
    """Bytes identified by their hash."""

    hash: str
    """SHA-256 of the bytes, in hexadecimal digits."""
    size: int
    """In bytes."""
    created_at: datetime
    """The time of the first `put`: aware, UTC."""


@own_first
@frozen_by_name
class File(Bytes):
    """Bytes with metadata."""

    updated_at: datetime
    """The last change of content or metadata."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The caller's metadata, JSON by key; filters can use it."""


@own_first
@frozen_by_name
class Blob(Bytes):
    """Metadata of a stored blob, such as a file or a picture; without its bytes."""

    content_type: str
    """The media type, as the first `put` named it."""
    expires_at: datetime | None = None
    """The expiry, unless the blob is pinned or referenced; absent means never."""
    is_pinned: bool = False
    """Whether it stays without references."""

    @property
    def uri(self) -> str:
        """`blob:sha256:…`, which names it in its store, for example as a record's `payload_uri`."""
        return uri_of(self.hash)


def uri_of(hash: str) -> str:
    """The URI of the bytes of that hash."""
    return f"{SCHEME}{hash}"


SCHEME = "blob:sha256:"
"""The prefix of blob URIs."""


# Pictures, recordings and films that are kept, as their users see them.


@own_first
@frozen_by_name
class ImageRecord(File):
    """Metadata of a picture, a recording or a film; its bytes are a blob."""

    id: str
    """The id of its record, derived from scope, session and content."""
    kind: str
    """`image`, `audio` or `video`."""
    session_id: str | None = None
    uri: str | None = None
    """The blob with its bytes; the original location, if they are not stored."""
    name: str | None = None
    """The name of the file, without its folders."""
    content_type: str
    """Detected from the first bytes, such as `image/png`."""
    format: str
    """`png`, `jpeg`, `mp4`."""
    width: int | None = None
    """In pixels, after rotation; absent for audio, video, and files without it."""
    height: int | None = None
    tags: tuple[str, ...] = ()
    caption: str | None = None
    """A description of the content."""
    text: str | None = None
    """The text in the picture, or the transcript."""

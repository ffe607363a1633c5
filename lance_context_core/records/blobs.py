"""Bytes that are kept by their hash: what is known of them."""

from datetime import datetime

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.records.files import Bytes


@own_first
@frozen_by_name
class Blob(Bytes):
    """Bytes that the store keeps: a file, a picture, whatever is no text; they are not in here."""

    content_type: str
    """The media type, as whoever put it first called it."""
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

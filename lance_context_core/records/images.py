"""Pictures, recordings and films that are kept, as their users see them."""

from lance_context_core._util.frozen import frozen_by_name, own_first
from lance_context_core.records.files import File


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

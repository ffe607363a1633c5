"""What a file of pictures, sound or film is, by what it begins with: names and claims are not believed."""

from typing import Literal

from lance_context_core.errors import UnreadableDocumentError

MediaKind = Literal["image", "audio", "video"]

_MARKS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
    b"ID3": "audio/mpeg",
    b"fLaC": "audio/flac",
    b"OggS": "audio/ogg",
    b"\x1aE\xdf\xa3": "video/webm",
}
_FORMS = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
"""Of what begins with `RIFF`."""
_FRAMES = {b"\xff\xfb", b"\xff\xf3", b"\xff\xf2"}
"""What an MP3 without a tag begins with."""


def type_of(content: bytes, name: str) -> str:
    """The media type of a file. Raises UnreadableDocumentError for what is none of these."""
    head = content[:1024]
    for mark, type in _MARKS.items():
        if head.startswith(mark):
            return type
    if head.startswith(b"RIFF") and (type := _FORMS.get(head[8:12], "")):
        return type
    if head[4:8] == b"ftyp":
        return "audio/mp4" if head[8:11] == b"M4A" else "video/mp4"
    if head[:2] in _FRAMES:
        return "audio/mpeg"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<svg") or (start.startswith((b"<?xml", b"<!")) and b"<svg" in start):
        return "image/svg+xml"
    if not content:
        raise UnreadableDocumentError(f"{name!r} is empty: it has no byte")
    raise UnreadableDocumentError(
        f"{name!r} is no picture, sound or film that is known here: put it into store.blobs"
    )


def kind_of(content_type: str) -> str:
    """`image`, `audio` or `video`."""
    return content_type.partition("/")[0]

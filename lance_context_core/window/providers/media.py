"""Pictures, sounds, films and files: their types, and the location of their bytes."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import FilePart, MediaPart, Message, Part, ToolResultPart
from lance_context_core.messages.parts import iter_parts

Place = Literal["system", "user", "assistant", "result", "failed"]
"""The place of a part: a turn, a tool result, or a failed one."""

PDF = "application/pdf"

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""Picture types that OpenAI and Anthropic accept."""

_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

_SAME = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "application/x-pdf": PDF,
}
"""Aliases of these types."""

_ENDINGS = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": PDF,
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "txt": "text/plain",
}
"""By file extension; a table of the system would differ between machines."""


@dataclass(frozen=True, slots=True)
class Source:
    """The location of a part's bytes: exactly one of `data`, `url` and `file_id` is set."""

    media_type: str | None
    """In lower case without parameters; detected from the bytes, else as declared."""
    data: bytes | None = None
    url: str | None = None
    file_id: str | None = None

    @property
    def base64(self) -> str:
        """The bytes in base64."""
        return base64.b64encode(self.data or b"").decode()

    @property
    def data_url(self) -> str:
        """The bytes as a `data:` URL."""
        return f"data:{self.media_type};base64,{self.base64}"

    def is_at(self, *schemes: str) -> bool:
        """Whether it has a URL of one of these schemes, such as `https`."""
        url = self.url or ""
        scheme, colon, rest = url.partition("://")
        is_whole = bool(colon and rest.strip("/")) and not any(one.isspace() for one in url)
        return is_whole and scheme.lower() in schemes

    def is_file_of(self, *beginnings: str) -> bool:
        """Whether it is an uploaded file of a provider, by the prefix of its id."""
        return (self.file_id or "").startswith(beginnings)


def source_of(part: MediaPart) -> Source:
    """Return the location of a part's bytes; a `data:` URL is decoded."""
    data, url = part.data, part.url
    declared = part.media_type
    if url is not None and url[:5].lower() == "data:":
        try:
            read = FilePart.from_url(url)
        except InvalidRequestError:
            return Source(None, data=b"")
        data, url, declared = read.data, None, declared or read.media_type
    return Source(_type(data, declared, part.name or url), data, url, part.file_id)


def _type(data: bytes | None, declared: str | None, name: str | None) -> str | None:
    if data:
        if data[:4] == b"RIFF" and (found := _RIFF.get(data[8:12])):
            return found
        for beginning, kind in _BEGINNINGS:
            if data.startswith(beginning):
                return kind
    if declared:
        plain = declared.partition(";")[0].strip().lower()
        return _SAME.get(plain, plain)
    path = (name or "").partition("?")[0].partition("#")[0]
    return _ENDINGS.get(path.rpartition(".")[2].lower())


def placed(message: Message, turn: Place) -> Iterator[tuple[Part, Place]]:
    """Yield the parts of a message, including those in results, with their places."""
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            place: Place = "failed" if part.is_error else "result"
            yield from ((one, place) for one in iter_parts(part.content))
        else:
            yield part, turn

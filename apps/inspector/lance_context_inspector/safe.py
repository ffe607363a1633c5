"""What was remembered must not drive a page: what cannot be seen, or turns lines around, is a mark."""

import re

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_WEB = re.compile(r"https?://[\x21-\x7e]{1,2000}", re.IGNORECASE)
_DELETE, _SPACE, _CONTROL_PICTURES = 0x7F, 0x20, 0x2400
LONGEST = 20_000
"""So many characters of a text are shown; the rest is one click away."""


def marked(text: str) -> str:
    """The text with each control character and change of direction as a visible mark."""
    return _HIDDEN.sub(_mark, text.replace("\r\n", "\n"))


def cut(text: str, longest: int = LONGEST) -> str:
    """Its beginning, and how much is left out."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest:,} more characters)"


def brief(text: str, longest: int = 240) -> str:
    """Its beginning on one line."""
    line = " ".join(text[: 4 * longest].split())
    return line if len(line) <= longest else f"{line[:longest].rstrip()}…"


def is_web(url: str) -> bool:
    """Whether it may be a link: one of the web, in which nothing is hidden."""
    return _WEB.fullmatch(url) is not None


def picture_type(data: bytes) -> str | None:
    """The media type of a raster image, by its bytes alone; None for all else, SVG among it."""
    for begin, media_type in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
    ):
        if data.startswith(begin):
            return media_type
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _mark(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code == _DELETE:
        return "␡"
    return chr(_CONTROL_PICTURES + code) if code < _SPACE else f"<U+{code:04X}>"

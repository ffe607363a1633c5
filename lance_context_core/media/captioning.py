"""Inspects files: their size in pixels, a thumbnail, and the output of an analyzer."""

import hashlib
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from lance_context_core._util.checks import check_text, listed, shown
from lance_context_core._util.extras import require
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.codecs.records import MEDIA_PREFIX
from lance_context_core.errors import (
    InvalidRequestError,
    MissingExtraError,
    UnreadableDocumentError,
)
from lance_context_core.types import ContextRecord, ImageRecord

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
"""The formats that Pillow may open: fewer formats mean less attack surface."""
_THUMBNAIL = (256, 256)
_ORIENTATION, _TURNED = 0x0112, range(5, 9)
_BY_ARITHMETIC = (b"\xff\xc9", b"\xff\xca")
"""The markers of such a JPEG."""
_LENGTH = r"\s*=\s*[\"']\s*([\d.]{1,12})\s*(?:px)?\s*[\"']"


@frozen_by_name
class ImageAnalysis:
    """The description of an image, a recording or a film, by a person or model."""

    caption: str | None = None
    """A caption of the content."""
    text: str | None = None
    """The text in the image, or the speech in it."""
    tags: tuple[str, ...] = ()
    vector: Sequence[float] | None = field(default=None, repr=False)
    """Its vector in a space of images: see `AsyncImages.similar`."""


@runtime_checkable
class ImageAnalyzer(Protocol):
    """Analyses images: a vision model, or OCR; called in worker threads."""

    def analyze(self, content: bytes, *, content_type: str) -> ImageAnalysis:
        """Returns the analysis of a file of that media type."""


@frozen_by_name
class Seen:
    """The properties read from a file."""

    format: str
    width: int | None = None
    height: int | None = None
    thumbnail: bytes | None = field(default=None, repr=False)


def look(content: bytes, content_type: str, *, name: str, max_pixels: int) -> Seen:
    """Inspects a file. Raises UnreadableDocumentError for a broken or too large image.

    The whole image is decoded once, so that its header is not trusted: of its size
    only up to `max_pixels`.
    """
    format = content_type.partition("/")[2].removeprefix("x-").partition("+")[0]
    if content_type == "image/svg+xml":
        # An SVG is a program, which is never run: its size is read from its start.
        width, height = (_length(content, one) for one in ("width", "height"))
        return Seen(format=format, width=width, height=height)
    if not content_type.startswith("image/"):
        return Seen(format=format)
    try:
        import PIL.Image
    except ImportError as error:
        raise MissingExtraError(
            'looking at pictures needs Pillow: pip install "lance-context-core[images]"'
        ) from error
    if content_type == "image/heic":
        require("pillow_heif", extra="images", by="looking at pictures of HEIC")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)
            if content_type == "image/heic":
                opened = _opened_heic(content)
            else:
                opened = PIL.Image.open(io.BytesIO(content), formats=_FORMATS)
        with opened as image:
            _check_size(image.size, max_pixels, name)
            if image.format == "JPEG":
                _check_bits(image.size, content)
            width, height = image.size
            if image.getexif().get(_ORIENTATION) in _TURNED:
                width, height = height, width
            return Seen(format=format, width=width, height=height, thumbnail=_thumbnail(image))
    except InvalidRequestError:
        raise
    except PIL.Image.DecompressionBombError as error:
        raise _too_large(name, max_pixels) from error
    # A broken file makes Pillow raise any error.
    except Exception as error:
        raise UnreadableDocumentError(
            f"{name!r} cannot be read as {content_type}, it is broken or not all there: {error}"
        ) from error


def _opened_heic(content: bytes) -> Any:
    import pillow_heif

    heif: Any = pillow_heif  # some of its calls are typed
    return heif.HeifImageFile(io.BytesIO(content))


def analyzed(analyzer: ImageAnalyzer | None, content: bytes, content_type: str) -> ImageAnalysis:
    """Returns the analyzer's output, checked; empty without one."""
    if analyzer is None:
        return ImageAnalysis()
    said = analyzer.analyze(content, content_type=content_type)
    if not isinstance(said, ImageAnalysis):
        raise InvalidRequestError(f"the analyzer returned {shown(said)}: give an ImageAnalysis")
    return said


def check_analyzer(analyzer: object) -> ImageAnalyzer | None:
    """Returns the analyzer. Raises InvalidRequestError for anything else."""
    if analyzer is None or (isinstance(analyzer, ImageAnalyzer) and not isinstance(analyzer, type)):
        return analyzer
    raise InvalidRequestError(
        f"analyzer={shown(analyzer)}: give an object with the method analyze(content, *, content_type)"
    )


def check_tags(tags: object) -> tuple[str, ...]:
    """Returns the tags without duplicates, in order."""
    return tuple(dict.fromkeys(check_text(one, "tags") for one in listed(tags, "tags")))


def _thumbnail(image: Any) -> bytes:
    """Returns an upright thumbnail: JPEG, or PNG if it may be transparent."""
    import PIL.ImageOps

    image.draft("RGB", _THUMBNAIL)
    small = image.copy()
    small.thumbnail(_THUMBNAIL)
    small = PIL.ImageOps.exif_transpose(small)
    is_opaque = small.mode in {"RGB", "L", "CMYK", "YCbCr"} and "transparency" not in small.info
    written = io.BytesIO()
    if is_opaque:
        small.convert("RGB").save(written, "JPEG", quality=80)
    else:
        small.convert("RGBA").save(written, "PNG")
    return written.getvalue()


def _check_size(size: tuple[int, int], max_pixels: int, name: str) -> None:
    if size[0] * size[1] > max_pixels:
        raise _too_large(name, max_pixels)


def _check_bits(size: tuple[int, int], content: bytes) -> None:
    """Raises ValueError for a JPEG with fewer bits than blocks, each of which takes one or more.

    Its decoder fills missing data with grey. Arithmetic coding may need fewer.
    """
    n_squares = -(-size[0] // 8) * -(-size[1] // 8)
    if 8 * len(content) < n_squares and not any(one in content for one in _BY_ARITHMETIC):
        raise ValueError(f"{len(content)} bytes cannot hold {size[0]} x {size[1]} pixels")


def _too_large(name: str, max_pixels: int) -> UnreadableDocumentError:
    return UnreadableDocumentError(
        f"{name!r} has more than max_pixels={max_pixels}: pass a larger one if there is the memory for "
        "it, at 4 bytes a pixel"
    )


def _length(content: bytes, name: str) -> int | None:
    """Returns a length that an SVG's first element states in pixels."""
    start = content[:4096].decode("utf-8", "replace")
    head = re.search(r"<svg\b[^>]{0,2000}", start)
    found = head and re.search(rf"\s{name}{_LENGTH}", head[0])
    try:
        return None if found is None else round(float(found[1]))
    except (ValueError, OverflowError):
        return None


# Converts images to records, and back.

KINDS = ("image", "audio", "video")
"""The kinds of these records."""

_ABOUT = "lance_context.media"
"""The key in the record's own state with the file's properties."""


_COMMON = (
    *("id", "kind", "content_type", "created_at", "updated_at", "session_id", "tags", "metadata"),
    *("tenant", "user_id", "agent_id"),
)
"""Fields with the same name in a file and its record."""

_TOLD = ("name", "width", "height", "caption", "text")
"""The file's properties under `_ABOUT`, with its format."""


def image_id(session_id: str | None, hash: str) -> str:
    """Returns the id of this content in that session."""
    return MEDIA_PREFIX + hashlib.sha256(repr((session_id, hash)).encode()).hexdigest()[:32]


def to_record(
    seen: Seen,
    said: ImageAnalysis,
    *,
    kind: str,
    content_type: str,
    name: str,
    hash: str,
    size: int,
    uri: str,
    session_id: str | None,
    metadata: Mapping[str, Any],
    now: datetime,
) -> ContextRecord:
    """Returns the record of a file, with its thumbnail."""
    about = {"name": name, "format": seen.format, "width": seen.width, "height": seen.height}
    record = ContextRecord(
        id=image_id(session_id, hash),
        kind=kind,
        content_type=content_type,
        created_at=now,
        updated_at=now,
        session_id=session_id,
        blob=seen.thumbnail,
        payload_uri=uri,
        payload_size=size,
        payload_checksum=hash,
        metadata=metadata,
        state_metadata={_ABOUT: about},
    )
    return with_said(record, said)


def with_said(record: ContextRecord, said: ImageAnalysis) -> ContextRecord:
    """Returns the record with the analysis, by which it is found."""
    about = {**_about(record), "caption": said.caption, "text": said.text}
    tags = f"Tags: {', '.join(said.tags)}" if said.tags else None
    texts = [text for text in (said.caption, said.text, tags) if text]
    return replace(
        record,
        text="\n".join(texts) or None,
        tags=said.tags,
        state_metadata={**(record.state_metadata or {}), _ABOUT: about},
    )


def said_of(record: ContextRecord) -> ImageAnalysis:
    """Returns the analysis in a record."""
    about = _about(record)
    return ImageAnalysis(caption=about.get("caption"), text=about.get("text"), tags=record.tags)


def from_record(record: ContextRecord) -> ImageRecord:
    """Returns the file of a record."""
    about = _about(record)
    common: dict[str, Any] = {name: getattr(record, name) for name in _COMMON}
    known: dict[str, Any] = {name: about.get(name) for name in _TOLD}
    return ImageRecord(
        format=about.get("format") or record.content_type.partition("/")[2],
        hash=record.payload_checksum or "",
        size=record.payload_size or 0,
        uri=record.payload_uri,
        **common,
        **known,
    )


def _about(record: ContextRecord) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (record.state_metadata or {}).get(_ABOUT) or {}
    return found

"""Pictures as the records that they are, and back."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from lance_context_core.codecs.records import MEDIA_PREFIX
from lance_context_core.media.looking import ImageAnalysis, Seen
from lance_context_core.types import ContextRecord, ImageRecord

KINDS = ("image", "audio", "video")
"""What the records are."""

_ABOUT = "lance_context.media"
"""Under which key of the record's own state it is kept what a file is."""


_COMMON = (
    *("id", "kind", "content_type", "created_at", "updated_at", "session_id", "tags", "metadata"),
    *("tenant", "user_id", "agent_id"),
)
"""What a file and its record call by the same names."""

_TOLD = ("name", "width", "height", "caption", "text")
"""What is kept of a file under `_ABOUT`, beside its format."""


def image_id(session_id: str | None, hash: str) -> str:
    """The id of what has this content in that session."""
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
    """The record of a file, with its small picture."""
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
    """The record with what is said of it, by which it is found."""
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
    """What is said of a record."""
    about = _about(record)
    return ImageAnalysis(caption=about.get("caption"), text=about.get("text"), tags=record.tags)


def from_record(record: ContextRecord) -> ImageRecord:
    """The file of a record."""
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

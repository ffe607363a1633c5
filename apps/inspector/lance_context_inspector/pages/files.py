"""Bytes that were remembered: pictures are shown, all else is handed over to be kept."""

from starlette.responses import Response

from lance_context_core.errors import NotFoundError
from lance_context_core.messages import MediaPart, Part, ToolResultPart
from lance_context_inspector.pages import records
from lance_context_inspector.safe import picture_type
from lance_context_inspector.view import View

_SANDBOX = "sandbox; default-src 'none'"


async def blob(view: View) -> Response:
    """The bytes of a record, or of a `part` of it, such as `0` or `1.0`."""
    record = await records.found(view, view.store)
    if place := view.params.get("part"):
        data = _part(record.parts, place)
    else:
        # Of several that are called so, the bytes of the one that was found.
        same = {name: getattr(record, name) for name in ("id", "session_id", "user_id", "tenant")}
        rows = await view.store.context(record.context).list(
            1, filters=same, include_retired=True, include_expired=True, include_embedding=False
        )
        data = rows[0]["binary"] if rows else None
    if data is None:
        raise NotFoundError("no such bytes here")
    if (media_type := picture_type(data)) is not None:
        return Response(data, media_type=media_type)
    return _kept(data, "bytes.bin", "application/octet-stream")


async def text(view: View) -> Response:
    """The whole text of a record, as a file."""
    record = await records.found(view, view.store)
    words = (record.text or "").encode("utf-8", "replace")
    return _kept(words, "text.txt", "text/plain; charset=utf-8")


def _part(parts: tuple[Part, ...], place: str) -> bytes | None:
    """The bytes of the part at a place: numbers from 0, those inside of results behind a dot."""
    first, _, rest = place.partition(".")
    if not (first.isascii() and first.isdecimal()) or int(first[:6]) >= len(parts):
        return None
    part = parts[int(first[:6])]
    if rest:
        return _part(part.content, rest) if isinstance(part, ToolResultPart) else None
    return part.data if isinstance(part, MediaPart) else None


def _kept(data: bytes, name: str, media_type: str) -> Response:
    headers = {
        "content-disposition": f'attachment; filename="{name}"',
        "content-security-policy": _SANDBOX,
    }
    return Response(data, media_type=media_type, headers=headers)

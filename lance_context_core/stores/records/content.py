"""What may be added as content: texts, bytes, images, tables, JSON, and messages."""

import io
from typing import Any

import pyarrow as pa

from lance_context_core._util.checks import check_json, check_text, dumps
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message, Part

TEXT = "text/plain"
BYTES = "application/octet-stream"
JSON = "application/json"
ARROW_STREAM = "application/vnd.apache.arrow.stream"

_FAITHFUL: dict[str, dict[str, Any]] = {"JPEG": {"quality": "keep"}, "WEBP": {"lossless": True}}
"""How formats that lose something each time that they are encoded lose the least."""


@frozen_by_name
class Content:
    """A content in the form in which it is kept: as a text, as bytes, or as a message's parts."""

    content_type: str
    text: str | None = None
    blob: bytes | None = None
    parts: tuple[Part, ...] = ()


def content_of(value: Any, content_type: str | None) -> Content:
    """`value` in the form in which it is kept, under the declared type or the one it shows.

    Texts stay texts. Bytes, images of Pillow (as PNG, or in their own format) and tables (of
    Arrow, pandas, polars, or anything with `to_arrow`; as an Arrow stream) become bytes. Lists and
    mappings become JSON text. Everything else raises InvalidRequestError.
    """
    if isinstance(value, str):
        return Content(content_type=content_type or TEXT, text=check_text(value, "content"))
    if isinstance(value, bytes | bytearray | memoryview):
        return Content(content_type=content_type or BYTES, blob=bytes(value))
    if isinstance(value, Message):
        return Content(
            content_type=content_type or TEXT, text=value.text or None, parts=value.parts
        )
    if (image := _image(value)) is not None:
        blob, shown = image
        return Content(content_type=content_type or shown, blob=blob)
    if (table := _table(value)) is not None:
        return Content(content_type=content_type or ARROW_STREAM, blob=_stream(table))
    if isinstance(value, dict | list | tuple):
        return Content(content_type=content_type or JSON, text=dumps(check_json(value, "content")))
    raise InvalidRequestError(
        f"content is a {type(value).__name__}: pass a str, bytes, a Pillow image, an Arrow table, "
        "a JSON mapping or list, or a Message"
    )


def _image(value: Any) -> tuple[bytes, str] | None:
    """The bytes and the media type of a Pillow image; None for anything else."""
    # Looked up by name: somebody who has no Pillow has no image of its either.
    if not any(c.__module__ == "PIL.Image" and c.__name__ == "Image" for c in type(value).__mro__):
        return None
    name = value.format or "PNG"
    options = _FAITHFUL.get(name, {}) | {"save_all": getattr(value, "is_animated", False)}
    buffer = io.BytesIO()
    try:
        value.save(buffer, format=name, **options)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidRequestError(
            f"content is an image of mode {value.mode!r}, which cannot be written as {name}: "
            "convert it first, such as with image.convert('RGB')"
        ) from error
    media_type = value.get_format_mimetype() if hasattr(value, "get_format_mimetype") else None
    return buffer.getvalue(), media_type or f"image/{name.lower()}"


def _table(value: Any) -> pa.Table | None:
    """The Arrow table of anything tabular; None for anything else."""
    if hasattr(value, "to_arrow"):
        value = value.to_arrow()
    elif type(value).__module__.partition(".")[0] == "pandas":
        value = pa.Table.from_pandas(value)
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    return value if isinstance(value, pa.Table) else None


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data

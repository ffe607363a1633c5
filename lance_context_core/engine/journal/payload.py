"""A row as the journal keeps it: its plain values as JSON, then the bytes of what is none.

The columns that are null are left out. Layout: the length of the JSON (4 bytes, little-endian), the
JSON, and the buffers in the order in which the JSON lists them.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from lance_context_core.engine.schema import VECTOR

_LENGTH = struct.Struct("<I")
_TIMES, _BUFFERS = "\0times", "\0buffers"
"""No column can be called so."""

_quoted = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def encoded(row: Mapping[str, Any]) -> bytes:
    """The row, without nulls, as bytes: texts, numbers, times, bytes, lists and mappings, vectors."""
    plain: dict[str, Any] = {}
    times: list[str] = []
    shapes: list[tuple[str, Any]] = []
    buffers: list[bytes] = []
    for name, value in row.items():
        if type(value) is str or type(value) is int:  # as most are
            plain[name] = value
        elif name == VECTOR:
            numbers = np.ascontiguousarray(value, dtype=np.float32)
            shapes.append((name, numbers.shape))
            buffers.append(numbers.tobytes())
        elif isinstance(value, datetime):
            plain[name] = value.isoformat()
            times.append(name)
        elif isinstance(value, bytes):
            shapes.append((name, len(value)))
            buffers.append(value)
        else:
            plain[name] = value
    if times:
        plain[_TIMES] = times
    if shapes:
        plain[_BUFFERS] = shapes
    head = _encode(plain).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *buffers])


class Alike:
    """Rows that have most of their values in common: these are made JSON of once."""

    __slots__ = ("_head",)

    def __init__(self, texts: Mapping[str, str], *, times: Sequence[str]) -> None:
        """Those that have these texts in common, and of `times` each its own."""
        self._head = _encode({**texts, _TIMES: [*times]})[:-1]

    def encoded(
        self, *, texts: Mapping[str, str], numbers: Mapping[str, int], times: Mapping[str, str]
    ) -> bytes:
        """As `encoded`, of one that has these values too, times in ISO 8601."""
        parts = [self._head]
        parts += [f'"{name}":{_quoted(text)}' for name, text in (*texts.items(), *times.items())]
        parts += [f'"{name}":{number}' for name, number in numbers.items()]
        head = f"{','.join(parts)}}}".encode()
        return _LENGTH.pack(len(head)) + head


def decoded(payload: bytes) -> dict[str, Any]:
    """The row that `encoded` made this of. Raises ValueError if nothing did."""
    try:
        (length,) = _LENGTH.unpack_from(payload)
        start = _LENGTH.size + length
        row: dict[str, Any] = json.loads(payload[_LENGTH.size : start])
        for name in row.pop(_TIMES, ()):
            row[name] = datetime.fromisoformat(row[name])
        for name, shape in row.pop(_BUFFERS, ()):
            if isinstance(shape, int):
                row[name] = payload[start : start + shape]
                start += shape
            else:
                count = int(np.prod(shape))
                numbers = np.frombuffer(payload, np.float32, count, start).reshape(shape)
                row[name] = numbers if len(shape) == 1 else list(numbers)
                start += 4 * count
    except (struct.error, AttributeError, TypeError, KeyError) as error:
        raise ValueError(f"not a row of the journal: {error}") from error
    if start != len(payload):
        raise ValueError(f"a row of the journal has {len(payload)} bytes, and tells of {start}")
    return row

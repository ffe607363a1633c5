"""What is put: read once, however large it is, so that its hash is known before a byte is written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from lance_context_core._checks import shown
from lance_context_core.errors import InvalidRequestError
from lance_context_core.rows.blobs import PIECE_BYTES

BlobSource = bytes | Path | IO[bytes]
"""Bytes, the path of a file, or an open one."""

_IN_MEMORY = 8 * PIECE_BYTES


@dataclass(frozen=True, slots=True)
class Spooled:
    """Bytes of a known hash, which can be read again."""

    hash: str
    size: int
    _file: Any

    def pieces(self, first: int, n: int) -> list[bytes]:
        """That many pieces from the one with number `first` on; fewer at the end."""
        self._file.seek(first * PIECE_BYTES)
        read = (self._file.read(PIECE_BYTES) for _ in range(n))
        return [piece for piece in read if piece]

    def close(self) -> None:
        """Let go of them."""
        self._file.close()


def spooled(source: BlobSource, max_bytes: int) -> Spooled:
    """The bytes of the source. Raises InvalidRequestError for what is none, or too large."""
    # Up to a bound it stays in memory.
    kept, digest, size = SpooledTemporaryFile(max_size=_IN_MEMORY), sha256(), 0  # noqa: SIM115
    try:
        with _opened(source) as read:
            while part := read(PIECE_BYTES):
                size += _size(part, source)
                _check_size(size, max_bytes)
                digest.update(part)
                kept.write(part)
    except BaseException:
        kept.close()
        raise
    return Spooled(digest.hexdigest(), size, kept)


@contextmanager
def _opened(source: BlobSource) -> Iterator[Any]:
    """What reads it, a part at a call."""
    if isinstance(source, bytes | bytearray | memoryview):
        view, at = memoryview(source).cast("B"), 0

        def read(n: int) -> memoryview:
            nonlocal at
            part, at = view[at : at + n], at + n
            return part

        yield read
    elif isinstance(source, os.PathLike):
        with Path(source).open("rb") as file:
            yield file.read
    elif callable(getattr(source, "read", None)):
        yield source.read
    else:
        raise InvalidRequestError(
            f"source={shown(source)}: give bytes, a pathlib.Path, or a file that is open in binary mode"
        )


def _size(part: object, source: object) -> int:
    if not isinstance(part, bytes | bytearray | memoryview):
        raise InvalidRequestError(f"source={shown(source)} reads as text: open it in binary mode")
    return len(part)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise InvalidRequestError(
            f"source has {size} bytes or more, over max_bytes={max_bytes}: pass a larger one"
        )

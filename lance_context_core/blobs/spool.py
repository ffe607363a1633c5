"""Spools the bytes to put: read once, at any size, to compute the hash before the first write."""

import io
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from lance_context_core._util.checks import shown
from lance_context_core.codecs.blobs import PIECE_BYTES
from lance_context_core.errors import InvalidRequestError

BlobSource = bytes | Path | IO[bytes]
"""Bytes, the path of a file, or an open one."""

_IN_MEMORY = 8 * PIECE_BYTES


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Spooled:
    """Bytes of a known hash, which can be read again: in memory, or in a file if large.

    The file has no name, and is deleted with the last reference.
    """

    hash: str
    size: int
    file: IO[bytes]

    def __post_init__(self) -> None:
        weakref.finalize(self, self.file.close)

    @classmethod
    def of(cls, content: bytes) -> "Spooled":
        """Wraps bytes in memory."""
        return cls(sha256(content).hexdigest(), len(content), io.BytesIO(content))

    def pieces(self, first: int, n: int) -> list[bytes]:
        """Returns that many pieces from the one with number `first` on; fewer at the end."""
        self.file.seek(first * PIECE_BYTES)
        read = (self.file.read(PIECE_BYTES) for _ in range(n))
        return [piece for piece in read if piece]

    def content(self) -> bytes:
        """Returns all bytes."""
        if isinstance(self.file, io.BytesIO):
            return self.file.getvalue()  # no copy of the bytes that it was created from
        self.file.seek(0)
        return self.file.read()

    def close(self) -> None:
        """Frees them."""
        self.file.close()


def spool(parts: Iterable[bytes | memoryview]) -> Spooled:
    """Spools the bytes of all parts, each requested after the one before it is written."""
    file: IO[bytes] = io.BytesIO()
    digest, size = sha256(), 0
    try:
        for part in parts:
            if size <= _IN_MEMORY < size + len(part):
                file = _on_disk(file)
            size += len(part)
            digest.update(part)
            file.write(part)
    except BaseException:
        file.close()
        raise
    return Spooled(digest.hexdigest(), size, file)


def spooled(source: BlobSource, max_bytes: int) -> Spooled:
    """Spools the bytes of the source. Raises InvalidRequestError for an invalid or too large one."""

    def parts(read: Any) -> Iterator[bytes | memoryview]:
        size = 0
        while part := read(PIECE_BYTES):
            size += _size(part, source)
            _check_size(size, max_bytes)
            yield part

    with _opened(source) as read:
        return spool(parts(read))


def _on_disk(file: IO[bytes]) -> IO[bytes]:
    moved = TemporaryFile()  # noqa: SIM115 - see `Spooled`
    file.seek(0)
    while part := file.read(PIECE_BYTES):
        moved.write(part)
    file.close()
    return moved


@contextmanager
def _opened(source: BlobSource) -> Iterator[Any]:
    """Returns a reader of it, a part at a call."""
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

"""What is promised of bytes."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import IO, Protocol, runtime_checkable

from lance_context_core.records import Blob


@runtime_checkable
class BlobStore(Protocol):
    """Bytes, each kept once under the SHA-256 of them.

    A `ref` is the `Blob` that `put` returned, its `uri`, or its `hash`. Of what is not there
    `get`, `read`, `stream`, `url`, `pin` and `unpin` raise NotFoundError.
    """

    async def put(
        self,
        source: bytes | Path | IO[bytes],
        *,
        content_type: str = "application/octet-stream",
        ttl: timedelta | None = None,
        pinned: bool = False,
    ) -> Blob:
        """Keep bytes; what is there already is kept once, for the longer of both times."""

    async def get(self, ref: Blob | str) -> bytes:
        """All of its bytes."""

    async def read(self, ref: Blob | str, *, start: int = 0, length: int | None = None) -> bytes:
        """`length` of its bytes from `start` on, or all from there; fewer at the end."""

    def stream(
        self, ref: Blob | str, *, start: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes]:
        """As `read`, part by part."""

    async def info(self, ref: Blob | str) -> Blob | None:
        """What is known of it; None if it is not there."""

    async def exists(self, ref: Blob | str) -> bool:
        """Whether it is there."""

    async def url(self, ref: Blob | str) -> str:
        """What a browser or a model can open."""

    async def pin(self, ref: Blob | str) -> Blob:
        """Keep it though its time is over."""

    async def unpin(self, ref: Blob | str) -> Blob:
        """Let it go its way again."""

    async def delete(self, ref: Blob | str) -> bool:
        """Remove it; returns whether it was there. Raises InvalidRequestError while it is pinned."""

    async def sweep(self) -> int:
        """Remove what has expired; returns how many that were."""

"""The blobs of a store: put and read, pinned, let go of, and swept."""

import asyncio
import base64
import builtins
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from lance_context_core._handle import handle
from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_count, check_name, check_span, shown
from lance_context_core._util.retry import Attempts
from lance_context_core.blobs.holding import holders
from lance_context_core.blobs.scoped import BlobRef, ScopedBlobs, is_over
from lance_context_core.blobs.spooling import BlobSource, spooled
from lance_context_core.codecs import blobs as blobrows
from lance_context_core.codecs.blobs import PIECE
from lance_context_core.errors import InvalidRequestError, StorageError
from lance_context_core.scope import SCOPE_PARTS
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.types import Blob

_UNFINISHED = timedelta(hours=1)
"""What nothing names is left alone for so long: somebody may be about to name it."""


@handle
class AsyncBlobs:
    """Bytes, each kept once in its scope under the SHA-256 of them; satisfies `BlobStore`.

    A handle finds what was put in its scope and in narrower ones, and puts into its own.
    """

    _blobs: ScopedBlobs

    # Putting

    async def put(
        self,
        source: BlobSource,
        *,
        content_type: str = "application/octet-stream",
        ttl: timedelta | None = None,
        pinned: bool = False,
        max_bytes: int = 4 * 1024**3,
    ) -> Blob:
        """Keep bytes, and return what names them; those that the scope has already are kept once.

        - `source`: bytes, a `pathlib.Path`, or a file that is open in binary mode; some 8 MiB of it are
          in memory at a time, beyond that in a temporary file.
        - `ttl`: for how long; without it, for good. What is there stays for the longer of both.
        - `pinned`: as by `pin`.
        - `max_bytes`: more is refused, before anything is written.

        Nobody sees a part of it, so a call that was cut short may be repeated.
        """
        self._blobs.resources.writable()
        content_type = check_name(content_type, "content_type")
        until = None if ttl is None else self._blobs.resources.clock.now() + _check_ttl(ttl)
        given = await asyncio.to_thread(
            spooled, source, check_count(max_bytes, "max_bytes", least=0)
        )
        try:
            return await self._blobs.keep(
                given, content_type, is_own=True, is_pinned=bool(pinned), kept_until=until
            )
        finally:
            given.close()

    # Reading

    async def get(self, ref: BlobRef) -> bytes:
        """All of its bytes, which were seen to have its hash.

        Raises NotFoundError if it is not there, StorageError if the bytes are others by now.
        """
        row = await self._blobs.required(ref, with_data=True)
        content = b"".join([part async for part in self._blobs.parts(row, 0, row["size"])])
        if await asyncio.to_thread(_digest, content) != row["hash"]:
            raise StorageError(
                f"the bytes of {row['hash']} are not those that were put: restore them from a backup"
            )
        return content

    async def read(self, ref: BlobRef, *, start: int = 0, length: int | None = None) -> bytes:
        """`length` of its bytes from `start` on, or all from there; fewer at the end, none behind it.

        Only the pieces that they are in are read, of 1 MiB each. Raises NotFoundError as `get`.
        """
        check_span(offset=start, limit=length, last=None)
        row = await self._blobs.required(ref, with_data=True)
        end = row["size"] if length is None else min(start + length, row["size"])
        return b"".join([part async for part in self._blobs.parts(row, start, end)])

    async def stream(
        self, ref: BlobRef, *, start: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes]:
        """As `read`, in parts of at most 1 MiB, of which 16 are in memory at a time."""
        check_span(offset=start, limit=length, last=None)
        row = await self._blobs.required(ref, with_data=True)
        end = row["size"] if length is None else min(start + length, row["size"])
        async for part in self._blobs.parts(row, start, end):
            yield part

    async def info(self, ref: BlobRef) -> Blob | None:
        """What is known of it; None if it is not there."""
        row = await self._blobs.found(ref, with_data=False)
        return None if row is None else blobrows.from_row(row)

    async def exists(self, ref: BlobRef) -> bool:
        """Whether it is there."""
        return await self.info(ref) is not None

    async def url(self, ref: BlobRef, *, max_bytes: int = 8 * 1024**2) -> str:
        """A `data:` URL with its bytes in it, for a page or a model that is to see it.

        Raises NotFoundError if it is not there, InvalidRequestError if it has more than `max_bytes`.
        """
        row = await self._blobs.required(ref, with_data=False)
        if row["size"] > check_count(max_bytes, "max_bytes"):
            raise InvalidRequestError(
                f"{row['hash']} has {row['size']} bytes, over max_bytes={max_bytes}: stream it, or pass "
                "a larger one"
            )
        encoded = base64.b64encode(await self.get(ref)).decode()
        return f"data:{row['content_type']};base64,{encoded}"

    async def list(self, *, limit: int | None = None, offset: int = 0) -> builtins.list[Blob]:
        """Blobs in the order in which they were put: `limit` after `offset`, or all.

        What has expired is among them until it is swept.
        """
        check_span(offset=offset, limit=limit, last=None)
        rows = await self._blobs.table.slice(
            self._blobs.where(), columns=blobrows.COLUMNS, limit=limit, offset=offset
        )
        return await steps.each_row(blobrows.from_row, rows)

    async def holders(self, ref: BlobRef) -> builtins.list[str]:
        """The ids of what names it in its scope: of documents, and of records by their `payload_uri`."""
        row = await self._blobs.required(ref, with_data=False)
        return await holders(self._blobs.resources, blobrows.scope_of(row), row["hash"])

    # Keeping and removing

    async def pin(self, ref: BlobRef) -> Blob:
        """Keep it though its time is over and nothing names it. Raises NotFoundError as `get`."""
        return await self._pinned(ref, is_pinned=True)

    async def unpin(self, ref: BlobRef) -> Blob:
        """Let it go its way again. Raises NotFoundError as `get`."""
        return await self._pinned(ref, is_pinned=False)

    async def delete(self, ref: BlobRef) -> bool:
        """Remove it; returns whether it was there. Older versions of the store still have it.

        Raises InvalidRequestError while it is pinned or something names it.
        """
        self._blobs.resources.writable()
        attempts = Attempts("the same blob kept being changed by others")
        while True:
            attempts.begin()
            if (row := await self._blobs.found(ref, with_data=False)) is None:
                return False
            named = await holders(self._blobs.resources, blobrows.scope_of(row), row["hash"])
            if named or row["is_pinned"]:
                why = f"{shown(named[0])} names it" if named else "it is pinned"
                raise InvalidRequestError(
                    f"cannot delete {row['hash']}: {why}; remove that first, or unpin it"
                )
            if await self._blobs.remove(row):
                return True

    async def sweep(self) -> int:
        """Remove what has expired, and what crashed writers left; returns how many blobs that were.

        What is pinned stays, and what something names.
        """
        self._blobs.resources.writable()
        now, n = self._blobs.resources.clock.now(), 0
        rows = await self._blobs.table.select(
            self._blobs.where(), columns=[KEY, "revision", *blobrows.COLUMNS]
        )
        known = set()
        for row in rows.to_pylist():
            known.add((row["hash"], *(row[part] for part in SCOPE_PARTS)))
            is_due = is_over(row, now) if row["is_own"] else _is_old(row, now)
            if not is_due or row["is_pinned"]:
                continue
            if not await holders(self._blobs.resources, blobrows.scope_of(row), row["hash"]):
                n += await self._blobs.remove(row)
        pieces = await self._blobs.table.select(
            self._blobs.where(PIECE), columns=[KEY, "hash", "created_at", *SCOPE_PARTS]
        )
        stray = [
            row[KEY]
            for row in pieces.to_pylist()
            if (row["hash"], *(row[part] for part in SCOPE_PARTS)) not in known
            and row["created_at"].replace(tzinfo=UTC) + _UNFINISHED < now
        ]
        if stray:
            await self._blobs.table.delete(sql.in_list(KEY, stray))
        return n

    async def _pinned(self, ref: BlobRef, *, is_pinned: bool) -> Blob:
        self._blobs.resources.writable()
        attempts = Attempts("the same blob kept being changed by others")
        while True:
            attempts.begin()
            old = await self._blobs.required(ref, with_data=True)
            if bool(old["is_pinned"]) is is_pinned:
                return blobrows.from_row(old)
            row = blobrows.changed(old, self._blobs.resources.clock.now(), is_pinned=is_pinned)
            if await self._blobs.replace(row, old):
                return blobrows.from_row(row)


def _check_ttl(ttl: object) -> timedelta:
    if not isinstance(ttl, timedelta) or ttl <= timedelta(0):
        raise InvalidRequestError(f"ttl={shown(ttl)}: give a timedelta of more than 0")
    return ttl


def _is_old(row: dict[str, Any], now: datetime) -> bool:
    return bool(row["updated_at"].replace(tzinfo=UTC) + _UNFINISHED < now)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()

"""The blobs of one scope: which rows they are, how they are written, and what holds them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from lance_context_core._resources import Resources
from lance_context_core._util.checks import shown
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.blobs.holding import holders
from lance_context_core.blobs.spooling import Spooled
from lance_context_core.codecs import blobs as blobrows
from lance_context_core.codecs.blobs import BLOB, MOST_INLINE, PIECE_BYTES
from lance_context_core.errors import NotFoundError
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.database import BLOBS_TABLE
from lance_context_core.storage.lance.schema import BLOBS, KEY
from lance_context_core.storage.table import Table
from lance_context_core.types import Blob

BlobRef = Blob | str
"""A blob, its URI, or its hash."""

_WRITTEN, _READ = 4, 16
"""So many pieces are one commit, which holds each of them eight times meanwhile, or one read."""


@frozen
class ScopedBlobs:
    """The blobs of one scope: what lies outside can be neither read nor written."""

    resources: Resources
    scope: Scope

    # Writing

    async def keep(
        self,
        given: Spooled,
        content_type: str,
        *,
        is_own: bool = False,
        is_pinned: bool = False,
        kept_until: datetime | None = None,
    ) -> Blob:
        """As `put`, of bytes whose hash is known; if they are not `is_own`, until nothing names them."""
        attempts = Attempts("the same blob kept being put and removed by others")
        while True:
            attempts.begin()
            now = self.resources.clock.now()
            if (old := await self._row(given.hash)) is not None:
                stays = not old["is_own"] or is_over(old, now)
                until = kept_until if stays else _later(old["kept_until"], kept_until)
                changes = {
                    "is_own": is_own or old["is_own"],
                    "is_pinned": is_pinned or bool(old["is_pinned"]),
                    "kept_until": until if is_own else old["kept_until"],
                }
                if all(_same(old[name], value) for name, value in changes.items()):
                    return blobrows.from_row(old)
                row = blobrows.changed(old, now, **changes)
                if await self.replace(row, old):
                    return blobrows.from_row(row)
                continue
            row = blobrows.to_row(
                given.hash,
                scope=self.scope,
                now=now,
                size=given.size,
                data=_first(given) if given.size <= MOST_INLINE else None,
                content_type=content_type,
                is_own=is_own,
                is_pinned=is_pinned,
                kept_until=kept_until,
            )
            if await self._write(given, row, now):
                return blobrows.from_row({**dict.fromkeys(SCOPE_PARTS), **row})

    async def hold(self, hash: str) -> bool:
        """Tell whoever is about to let go of a blob that something names it by now; False if it is gone."""
        attempts = Attempts("the same blob kept being changed by others")
        while True:
            attempts.begin()
            if (old := await self._row(hash)) is None:
                return False
            now, n = self.resources.clock.now(), old["n_holds"] or 0
            if await self.replace(blobrows.changed(old, now, n_holds=n + 1), old):
                return True

    async def release(self, hash: str) -> bool:
        """Remove a blob that nothing names any more, unless a caller put or pinned it itself."""
        attempts = Attempts("the same blob kept being changed by others")
        while True:
            attempts.begin()
            old = await self._row(hash)
            if old is None or old["is_pinned"] or old["is_own"]:
                return False
            if await holders(self.resources, self.scope, hash):
                return False
            if await self.remove(old):
                return True

    # Which

    @property
    def table(self) -> Table:
        """The table that they are in."""
        return self.resources.database.table(BLOBS_TABLE, BLOBS)

    def where(self, kind: str = BLOB) -> sql.Clause:
        """The condition that a row is a blob's of this scope, or a piece's."""
        return sql.all_of([sql.equals("kind", kind), sql.all_equal(self.scope.parts())])

    async def _row(self, hash: str) -> dict[str, Any] | None:
        """The row of the blob of exactly this scope, with its bytes if they are few."""
        where = sql.equals(KEY, blobrows.key(self.scope, hash))
        rows = (await self.table.select(where, columns=blobrows.REPLACED)).to_pylist()
        return dict(rows[0]) if rows else None

    async def found(self, ref: BlobRef, *, with_data: bool) -> dict[str, Any] | None:
        """The row of a blob that is there; that of this scope before those of narrower ones."""
        hash = blobrows.checked(ref)
        where = sql.all_of([self.where(), sql.equals("hash", hash)])
        columns = blobrows.REPLACED if with_data else blobrows.REPLACED[:-1]
        rows = (await self.table.select(where, columns=columns)).to_pylist()
        own = blobrows.key(self.scope, hash)
        now = self.resources.clock.now()
        for row in sorted(rows, key=lambda row: (row[KEY] != own, row[KEY])):
            if not (row["is_own"] and is_over(row, now)) or row["is_pinned"]:
                return dict(row)
            if await holders(self.resources, blobrows.scope_of(row), hash):
                return dict(row)
        return None

    async def required(self, ref: BlobRef, *, with_data: bool) -> dict[str, Any]:
        """As `found`. Raises NotFoundError if there is none."""
        if (row := await self.found(ref, with_data=with_data)) is None:
            raise NotFoundError(f"ref={shown(ref)}: there is no such blob")
        return row

    async def parts(self, row: dict[str, Any], start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes of a blob from `start` to `end`, piece by piece."""
        if start >= end:
            return
        if not (n := blobrows.n_pieces(row["size"])):
            yield row["data"][start:end]
            return
        scope = blobrows.scope_of(row)
        wanted = range(start // PIECE_BYTES, min(n, -(-end // PIECE_BYTES)))
        for first in wanted[::_READ]:
            at_once = range(first, min(first + _READ, wanted.stop))
            keys = [blobrows.key(scope, row["hash"], position) for position in at_once]
            found = await self.table.select(
                sql.in_list(KEY, keys), columns=[KEY, "position", "data"]
            )
            pieces = {one["position"]: one["data"] for one in found.to_pylist()}
            for position in at_once:
                if position not in pieces:
                    raise NotFoundError(f"{row['hash']} was removed while it was read")
                before = position * PIECE_BYTES
                yield pieces[position][max(start - before, 0) : end - before]

    async def _write(self, given: Spooled, row: dict[str, Any], now: datetime) -> bool:
        """Write a blob that is not there, what makes it seen last; False if others came between."""
        n = blobrows.n_pieces(given.size)
        for first in range(0, n, _WRITTEN):
            read = await asyncio.to_thread(given.pieces, first, _WRITTEN)
            await self.table.insert_absent(
                [
                    blobrows.to_piece_row(row["hash"], first + i, data, scope=self.scope, now=now)
                    for i, data in enumerate(read)
                ]
            )
        await self.table.insert_absent([row])
        if n:
            pieces = [blobrows.key(self.scope, row["hash"], position) for position in range(n)]
            return await self.table.count(sql.in_list(KEY, pieces)) == n
        return True

    async def replace(self, row: dict[str, Any], old: dict[str, Any]) -> bool:
        """Write a row in the place of `old`; False if that was changed meanwhile."""
        seen = {old[KEY]: old["revision"]}
        return await self.table.write_if([row], removed=(), seen=seen)

    async def remove(self, row: dict[str, Any]) -> bool:
        """Remove a blob with its pieces in one commit; False if it was changed meanwhile."""
        scope, n = blobrows.scope_of(row), blobrows.n_pieces(row["size"])
        keys = [blobrows.key(scope, row["hash"], position) for position in range(n)]
        seen = {row[KEY]: row["revision"]}
        return await self.table.write_if([], removed=[row[KEY], *keys], seen=seen)


def is_over(row: dict[str, Any], now: datetime) -> bool:
    """Whether the time is over for which it was to be kept."""
    until = row["kept_until"]
    return until is not None and until.replace(tzinfo=UTC) <= now


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    """The later of both, None being never."""
    if one is None or other is None:
        return None
    return max(one.replace(tzinfo=UTC), other)


def _same(one: Any, other: Any) -> bool:
    is_time = isinstance(one, datetime) and isinstance(other, datetime)
    return bool(one.replace(tzinfo=UTC) == other.replace(tzinfo=UTC) if is_time else one == other)


def _first(given: Spooled) -> bytes:
    return b"".join(given.pieces(0, 1))

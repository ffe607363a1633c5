"""The blobs of a store: put and read, pinned, let go of, and swept."""

import asyncio
import base64
import builtins
import mimetypes
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Protocol

from lance_context_core._handle import handle
from lance_context_core._resources import Resources
from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_count, check_name, check_span, shown
from lance_context_core._util.frozen import frozen
from lance_context_core._util.retry import Attempts
from lance_context_core.blobs.spool import BlobSource, Spooled, spooled
from lance_context_core.codecs import blobs as blobrows
from lance_context_core.codecs.blobs import BLOB, MOST_INLINE, PIECE, PIECE_BYTES
from lance_context_core.errors import InvalidRequestError, NotFoundError, StorageError
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.database import BLOBS_TABLE, COLD_TABLE, DOCUMENTS_TABLE
from lance_context_core.storage.lance.schema import BLOBS, COLD, DOCUMENTS, KEY
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.types import Blob
from lance_context_core.types.media import uri_of

# What holds a blob: the records and documents that name it, within its scope.


async def holders(resources: Resources, scope: Scope, hash: str) -> list[str]:
    """The ids of all that name the blob which that scope has: of documents first, then of records."""
    documents = resources.database.table(DOCUMENTS_TABLE, DOCUMENTS)
    where = sql.all_of([sql.equals("payload_uri", uri_of(hash)), sql.all_equal(scope.parts())])
    found = []
    cold = resources.database.table(COLD_TABLE, COLD)
    for table in (documents, resources.records, cold):
        if "payload_uri" in (await table.schema()).names:
            found += (await table.select(where, columns=["id"]))["id"].to_pylist()
    return found


# The blobs of one scope: which rows they are, how they are written, and what holds them.

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
            pieces = [
                blobrows.to_piece_row(row["hash"], first + i, data, scope=self.scope, now=now)
                for i, data in enumerate(read)
            ]
            await self.table.write(WriteBatch(pieces, Mode.INSERT))
        await self.table.write(WriteBatch([row], Mode.INSERT))
        if n:
            keys = [blobrows.key(self.scope, row["hash"], position) for position in range(n)]
            return await self.table.count(sql.in_list(KEY, keys)) == n
        return True

    async def replace(self, row: dict[str, Any], old: dict[str, Any]) -> bool:
        """Write a row in the place of `old`; False if that was changed meanwhile."""
        seen = {old[KEY]: old["revision"]}
        return (await self.table.write(WriteBatch([row], Mode.UPSERT, expect=seen))).is_done

    async def remove(self, row: dict[str, Any]) -> bool:
        """Remove a blob with its pieces in one commit; False if it was changed meanwhile."""
        scope, n = blobrows.scope_of(row), blobrows.n_pieces(row["size"])
        keys = [blobrows.key(scope, row["hash"], position) for position in range(n)]
        seen = {row[KEY]: row["revision"]}
        batch = WriteBatch(deletes=[row[KEY], *keys], expect=seen)
        return (await self.table.write(batch)).is_done


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

        No reader sees a part of it, so a call that was cut short may be repeated.
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
            await self._blobs.table.write(WriteBatch(where=sql.in_list(KEY, stray)))
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


# The bytes of something that names them: there before it is seen, and gone when nothing else does.


class Bytes(Protocol):
    """A file."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def spooled(self) -> Spooled:
        """What is in it."""


class Naming(Protocol):
    """What is about to be written, and names its bytes."""

    @property
    def payload_uri(self) -> str | None:
        """The blob that they are; None if they are not kept."""


@frozen
class Keeping:
    """The bytes of one thing, around the commit that writes it."""

    blobs: ScopedBlobs
    given: Bytes | None
    """None where they are there already."""
    named_by: Naming
    content_type: str | None = None
    """By the name of the file, where it is absent."""

    async def before(self) -> None:
        """Put them, so that whoever finds the thing finds them."""
        if self.given is None or self.named_by.payload_uri is None:
            return
        content_type = self.content_type or mimetypes.guess_type(self.given.name)[0]
        await self.blobs.keep(self.given.spooled, content_type or "application/octet-stream")

    async def after(self, *, instead_of: str | None = None) -> None:
        """Hold them against who removes them at this moment, and let go of what was named before."""
        uri = self.named_by.payload_uri
        if self.given is not None and uri is not None:
            while not await self.blobs.hold(blobrows.checked(uri)):
                await self.before()
        if instead_of != uri:
            await let_go(self.blobs, instead_of)


async def let_go(blobs: ScopedBlobs, uri: str | None) -> None:
    """Remove what that names, unless something else names it, or a caller put it."""
    if uri is not None:
        await blobs.release(blobrows.checked(uri))

"""The blobs of a store: put, read, pinned, deleted, and swept."""

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

# References to a blob: the records and documents that name it, within its scope.


async def holders(resources: Resources, scope: Scope, hash: str) -> list[str]:
    """Returns the ids of the scope's rows that name the blob: documents first, then records."""
    documents = resources.database.table(DOCUMENTS_TABLE, DOCUMENTS)
    where = sql.all_of([sql.equals("payload_uri", uri_of(hash)), sql.all_equal(scope.parts())])
    found = []
    cold = resources.database.table(COLD_TABLE, COLD)
    for table in (documents, resources.records, cold):
        if "payload_uri" in (await table.schema()).names:
            found += (await table.select(where, columns=["id"]))["id"].to_pylist()
    return found


# The blobs of one scope: their conditions, writes and references.

BlobRef = Blob | str
"""A blob, its URI, or its hash."""

_WRITTEN, _READ = 4, 16
"""The most pieces in one commit, which needs eight times their size meanwhile, or in one read."""


@frozen
class ScopedBlobs:
    """The blobs of one scope: reads and writes nothing outside."""

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
        """As `put`, with a known hash; if they are not `is_own`, kept until nothing names them."""
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
        """Marks a blob as named, against concurrent deletion; returns False if it no longer exists."""
        attempts = Attempts("the same blob kept being changed by others")
        while True:
            attempts.begin()
            if (old := await self._row(hash)) is None:
                return False
            now, n = self.resources.clock.now(), old["n_holds"] or 0
            if await self.replace(blobrows.changed(old, now, n_holds=n + 1), old):
                return True

    async def release(self, hash: str) -> bool:
        """Deletes a blob that nothing names any more, unless a caller put or pinned it directly."""
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

    # Conditions

    @property
    def table(self) -> Table:
        """The table of blobs."""
        return self.resources.database.table(BLOBS_TABLE, BLOBS)

    def where(self, kind: str = BLOB) -> sql.Clause:
        """Matches rows of this scope's blobs, or of their pieces."""
        return sql.all_of([sql.equals("kind", kind), sql.all_equal(self.scope.parts())])

    async def _row(self, hash: str) -> dict[str, Any] | None:
        """Returns the row of the blob of exactly this scope, with its bytes if they are few."""
        where = sql.equals(KEY, blobrows.key(self.scope, hash))
        rows = (await self.table.select(where, columns=blobrows.REPLACED)).to_pylist()
        return dict(rows[0]) if rows else None

    async def found(self, ref: BlobRef, *, with_data: bool) -> dict[str, Any] | None:
        """Returns the row of an existing blob; that of this scope before those of narrower ones."""
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
        """As `found`. Raises NotFoundError if it does not exist."""
        if (row := await self.found(ref, with_data=with_data)) is None:
            raise NotFoundError(f"ref={shown(ref)}: no such blob")
        return row

    async def parts(self, row: dict[str, Any], start: int, end: int) -> AsyncIterator[bytes]:
        """Yields the bytes of a blob from `start` to `end`, piece by piece."""
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
                    raise NotFoundError(
                        f"{row['hash']} was removed while it was read: put it again"
                    )
                before = position * PIECE_BYTES
                yield pieces[position][max(start - before, 0) : end - before]

    async def _write(self, given: Spooled, row: dict[str, Any], now: datetime) -> bool:
        """Writes a new blob, its visible row last; returns False on a conflict."""
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
        """Replaces a row; returns False if it was changed meanwhile."""
        seen = {old[KEY]: old["revision"]}
        return (await self.table.write(WriteBatch([row], Mode.UPSERT, expect=seen))).is_done

    async def remove(self, row: dict[str, Any]) -> bool:
        """Deletes a blob with its pieces in one commit; returns False if it was changed meanwhile."""
        scope, n = blobrows.scope_of(row), blobrows.n_pieces(row["size"])
        keys = [blobrows.key(scope, row["hash"], position) for position in range(n)]
        seen = {row[KEY]: row["revision"]}
        batch = WriteBatch(deletes=[row[KEY], *keys], expect=seen)
        return (await self.table.write(batch)).is_done


def is_over(row: dict[str, Any], now: datetime) -> bool:
    """Whether its lifetime is over."""
    until = row["kept_until"]
    return until is not None and until.replace(tzinfo=UTC) <= now


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    """Returns the later of both; None is never."""
    if one is None or other is None:
        return None
    return max(one.replace(tzinfo=UTC), other)


def _same(one: Any, other: Any) -> bool:
    is_time = isinstance(one, datetime) and isinstance(other, datetime)
    return bool(one.replace(tzinfo=UTC) == other.replace(tzinfo=UTC) if is_time else one == other)


def _first(given: Spooled) -> bytes:
    return b"".join(given.pieces(0, 1))


_UNFINISHED = timedelta(hours=1)
"""How long an unnamed blob is kept: a writer may be about to name it."""


@handle
class AsyncBlobs:
    """Bytes, each stored once in its scope under their SHA-256; satisfies `BlobStore`.

    A handle finds the blobs of its scope and of narrower ones, and puts into its own.
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
        """Stores bytes, and returns their blob; existing ones in the scope are not stored again.

        - `source`: bytes, a `pathlib.Path`, or a file that is open in binary mode; some 8 MiB of it
          are in memory at a time, beyond that in a temporary file.
        - `ttl`: the lifetime; by default unlimited. An existing blob keeps the longer of both.
        - `pinned`: as by `pin`.
        - `max_bytes`: a larger source is refused, before anything is written.

        No reader sees a part of it, so an interrupted call may be repeated.
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
        """Returns all of its bytes, checked against its hash.

        Raises NotFoundError if it does not exist, StorageError if the bytes have changed.
        """
        row = await self._blobs.required(ref, with_data=True)
        content = b"".join([part async for part in self._blobs.parts(row, 0, row["size"])])
        if await asyncio.to_thread(_digest, content) != row["hash"]:
            raise StorageError(
                f"the bytes of {row['hash']} are not those that were put: restore them from a backup"
            )
        return content

    async def read(self, ref: BlobRef, *, start: int = 0, length: int | None = None) -> bytes:
        """Returns `length` bytes from `start` on, or the rest; fewer at the end.

        Reads only the pieces concerned, of 1 MiB each. Raises NotFoundError as `get`.
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
        """Returns its description; None if it does not exist."""
        row = await self._blobs.found(ref, with_data=False)
        return None if row is None else blobrows.from_row(row)

    async def exists(self, ref: BlobRef) -> bool:
        """Whether it exists."""
        return await self.info(ref) is not None

    async def url(self, ref: BlobRef, *, max_bytes: int = 8 * 1024**2) -> str:
        """Returns a `data:` URL with its bytes, for a page or a model.

        Raises NotFoundError if it does not exist, InvalidRequestError if it has more than
        `max_bytes`.
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
        """Returns blobs in the order of putting: `limit` after `offset`, or all.

        Includes expired ones until they are swept.
        """
        check_span(offset=offset, limit=limit, last=None)
        rows = await self._blobs.table.slice(
            self._blobs.where(), columns=blobrows.COLUMNS, limit=limit, offset=offset
        )
        return await steps.each_row(blobrows.from_row, rows)

    async def holders(self, ref: BlobRef) -> builtins.list[str]:
        """Returns the ids of rows that name it: documents, and records by their `payload_uri`."""
        row = await self._blobs.required(ref, with_data=False)
        return await holders(self._blobs.resources, blobrows.scope_of(row), row["hash"])

    # Pinning and deleting

    async def pin(self, ref: BlobRef) -> Blob:
        """Keeps it even if it expires and nothing names it. Raises NotFoundError as `get`."""
        return await self._pinned(ref, is_pinned=True)

    async def unpin(self, ref: BlobRef) -> Blob:
        """Ends the pinning. Raises NotFoundError as `get`."""
        return await self._pinned(ref, is_pinned=False)

    async def delete(self, ref: BlobRef) -> bool:
        """Deletes it; returns whether it existed. Older versions of the store still contain it.

        Raises InvalidRequestError while it is pinned or named.
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
        """Deletes expired blobs, and remains of crashed writers; returns how many blobs.

        Pinned and named ones stay.
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


# The bytes of a named file: stored before their row is visible, deleted with the last reference.


class Bytes(Protocol):
    """A file."""

    @property
    def name(self) -> str:
        """The name of the file."""

    @property
    def spooled(self) -> Spooled:
        """The content of the file."""


class Naming(Protocol):
    """A row to be written that names its bytes."""

    @property
    def payload_uri(self) -> str | None:
        """The blob of the bytes; None if they are not stored."""


@frozen
class Keeping:
    """The bytes of one row, around the commit that writes it."""

    blobs: ScopedBlobs
    given: Bytes | None
    """None if they exist already."""
    named_by: Naming
    content_type: str | None = None
    """By the name of the file, where it is absent."""

    async def before(self) -> None:
        """Puts them, so that readers of the row find them."""
        if self.given is None or self.named_by.payload_uri is None:
            return
        content_type = self.content_type or mimetypes.guess_type(self.given.name)[0]
        await self.blobs.keep(self.given.spooled, content_type or "application/octet-stream")

    async def after(self, *, instead_of: str | None = None) -> None:
        """Protects them from concurrent deletion, and releases the previously named blob."""
        uri = self.named_by.payload_uri
        if self.given is not None and uri is not None:
            while not await self.blobs.hold(blobrows.checked(uri)):
                await self.before()
        if instead_of != uri:
            await let_go(self.blobs, instead_of)


async def let_go(blobs: ScopedBlobs, uri: str | None) -> None:
    """Deletes the named blob, unless another row names it, or a caller put it."""
    if uri is not None:
        await blobs.release(blobrows.checked(uri))

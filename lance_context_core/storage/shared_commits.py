"""Group commit across processes: one process of a machine commits the appends of all.

On an object store each append is a commit of its own, and only one commit at a time can be made. So
the processes of one user on one machine elect a leader for each table, by a lock that the system
takes from a process that ends. The others send their rows to the leader through a socket, and rows
that arrive during a commit form the next one.

Nothing depends on it: each process may commit at any time, as the processes of other machines do.
If a leader ends without an answer, the sender does not know whether its rows were written, and
inserts those that are absent.
"""

import asyncio
import hashlib
import os
import stat
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from importlib.metadata import version
from pathlib import Path

from lance_context_core._loop import store_loop
from lance_context_core.errors import ContextStoreError, StorageError
from lance_context_core.storage.file_locks import locked
from lance_context_core.storage.lance.arrow import Row
from lance_context_core.storage.lance.connection import Connection
from lance_context_core.storage.wal.entries import decoded, encoded

_MOST_BYTES = 1024 * 1024
"""The maximum message to a leader: a larger batch is worth a commit of its own."""

_IDLE_SECONDS = 5.0
"""How long a process without appends of its own leads."""

_READY_SECONDS = 10.0
"""How long to look for a leader, which must also report ready in that time: a stopped process does
not, and on a busy machine a running one takes long."""

_ANSWERED_SECONDS = 1.0
"""How long a leader that answered counts as ready: continuous appends should not wait twice."""

_ALONE_SECONDS = 30.0
"""How long a process commits for itself after no leader was ready."""

_LOOK_SECONDS = 0.01
"""The interval between attempts to find a leader."""

_SIGN_SECONDS = 5.0
"""The interval at which a leader sends a sign of life."""
_PATIENCE_SECONDS = 60.0
"""The longest silence of a leader."""

# The messages of a leader.
_READY, _REFUSED, _SIGN, _DONE, _FAILED = (bytes([one]) for one in b"rnsdf")

_NUMBER, _VERSION = struct.Struct("<I"), struct.Struct("<Q")

_ENVIRONMENT = ("AWS_", "GOOGLE_", "AZURE_")
"""The engine's environment variables: processes that differ there may use two stores of one
name."""


class Outcome(Enum):
    """The result for rows that may not have been written."""

    HERE = "here"
    """Not written: this process should write them."""
    IN_DOUBT = "in doubt"
    """Sent to another process, which may have written them, but does not any more."""


class _TakenError(Exception):
    """Another process leads."""


class SharedCommits:
    """One process's appends to a table, sent to the leader, or committed as leader.

    Its methods run on the store's own loop, except for `leave` and `stop`.
    """

    def __init__(
        self,
        place: Path,
        label: str,
        *,
        append: Callable[[Sequence[Row]], Awaitable[int]],
        columns: Callable[[], Awaitable[bytes]],
        refresh: Callable[[], Awaitable[None]],
    ) -> None:
        """Meets the others at `place`, a path without extension; `label` names the table in errors.

        `append` writes the rows of another process, and returns the version. `columns` returns the
        table's columns as last seen by this process: rows go only to a process that has seen the
        same. `refresh` reads the newest version.
        """
        self._socket, self._lock = place.with_suffix(".sock"), place.with_suffix(".lock")
        self._label = label
        self._append = append
        self._columns = columns
        self._refresh = refresh
        self._leading: asyncio.Task[None] | None = None
        self._stopping: asyncio.Future[None] | None = None
        self._link: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._wrote_at = 0.0
        self._alone_until = self._answered_at = 0.0

    def keep_leading(self) -> None:
        """Stay the leader, if this process is: it appends something itself."""
        self._wrote_at = time.monotonic()

    async def write(self, batches: Sequence[Sequence[Row]]) -> int | Outcome:
        """Have the leader append the rows; returns their version, or the outcome.

        Raises StorageError if the leader accepted them and then shows no sign of life.
        """
        if self._leading is not None or time.monotonic() < self._alone_until:
            return Outcome.HERE
        frame = _packed(batches)
        if frame is None:
            return Outcome.HERE
        request = await self._columns() + _NUMBER.pack(len(frame))
        if self._link is not None and time.monotonic() < self._answered_at + _ANSWERED_SECONDS:
            return await self._sent(request + frame)
        try:
            is_ready = await self._is_taken(request)
        except OSError:  # no directory to meet in, or its name is too long
            is_ready = False
            self._commit_alone()
        return await self._sent(frame) if is_ready else Outcome.HERE

    async def leave(self) -> None:
        """Stop leading once the received rows are written, and stop asking leaders."""
        if self._leading is not None or self._link is not None:
            await asyncio.wrap_future(store_loop.spawn(self._leave()))

    def stop(self) -> None:
        """As `leave`, without waiting for it."""
        if self._leading is not None or self._link is not None:
            store_loop.spawn_apart(self._leave())

    async def _leave(self) -> None:
        self._hang_up()
        if self._stopping is not None and not self._stopping.done():
            self._stopping.set_result(None)
        if (leading := self._leading) is not None:
            await asyncio.wait([leading])

    # Asking the leader

    async def _is_taken(self, request: bytes) -> bool:
        """Whether the asked leader accepts the rows; else this process may become leader."""
        until = time.monotonic() + _READY_SECONDS
        while time.monotonic() < until:
            if self._link is None and await self._leads():
                return False
            # A starting leader has no socket yet, and an ending one none any more.
            with suppress(FileNotFoundError, ConnectionError, asyncio.IncompleteReadError):
                try:
                    async with asyncio.timeout(_READY_SECONDS):
                        if self._link is None:
                            self._link = await asyncio.open_unix_connection(self._socket)
                        self._link[1].write(request)
                        is_ready = await self._link[0].readexactly(1) == _READY
                except TimeoutError:
                    break
                if not is_ready:
                    self._hang_up()
                return is_ready
            self._hang_up()
            await asyncio.sleep(_LOOK_SECONDS)
        self._commit_alone()
        return False

    async def _sent(self, frame: bytes) -> int | Outcome:
        assert self._link is not None
        reader, writer = self._link
        try:
            writer.write(frame)
            await writer.drain()
            while True:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    answer = await reader.readexactly(1)
                    if answer == _DONE:
                        self._answered_at = time.monotonic()
                        return int(_VERSION.unpack(await reader.readexactly(_VERSION.size))[0])
                if answer in (_FAILED, _REFUSED):
                    self._hang_up()
                    return Outcome.HERE if answer == _REFUSED else Outcome.IN_DOUBT
        except TimeoutError:
            self._commit_alone()
            raise StorageError(
                f"append to {self._label}: the process that commits for all of this machine shows no "
                f"sign of life for {_PATIENCE_SECONDS:.0f} seconds, and may or may not have written the "
                f"rows. End or resume it: it has {str(self._lock)!r} open"
            ) from None
        except (OSError, asyncio.IncompleteReadError):
            self._hang_up()
            return Outcome.IN_DOUBT

    def _commit_alone(self) -> None:
        """Ask no leader for a while."""
        self._hang_up()
        self._alone_until = time.monotonic() + _ALONE_SECONDS

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link[1].close()
        self._link = None

    # Leading

    async def _leads(self) -> bool:
        """Whether this process leads from now on, because no other does."""
        begun = asyncio.get_running_loop().create_future()
        leading = asyncio.create_task(self._lead(begun))
        await asyncio.wait([begun, leading], return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            with suppress(_TakenError):
                await leading  # raises its error
            return False
        return True

    async def _lead(self, begun: "asyncio.Future[None]") -> None:
        _require_own(self._lock.parent)
        self._lock.touch(mode=0o600)
        answering: set[asyncio.Task[None]] = set()
        async with locked(self._lock, patience_seconds=0, refusal=_TakenError):
            self._socket.unlink(missing_ok=True)  # that of a killed leader
            server = await asyncio.start_unix_server(
                partial(self._greet, answering), self._socket, limit=_MOST_BYTES
            )
            self._leading = asyncio.current_task()
            self._stopping = stopping = asyncio.get_running_loop().create_future()
            begun.set_result(None)
            try:
                while (left := self._wrote_at + _IDLE_SECONDS - time.monotonic()) > 0:
                    if (await asyncio.wait([stopping], timeout=left))[0]:
                        break
            finally:
                # Without the files the next leader creates its own: two leaders for a moment do no
                # harm.
                self._socket.unlink(missing_ok=True)
                self._lock.unlink(missing_ok=True)
                self._leading = self._stopping = None
                server.close()
                for one in answering:
                    one.cancel()
                if answering:
                    await asyncio.wait(answering)

    async def _greet(
        self,
        answering: "set[asyncio.Task[None]]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Answer the messages of one other process until either side ends."""
        task = asyncio.current_task()
        assert task is not None
        answering.add(task)
        try:
            while True:
                columns = await reader.readexactly(_DIGEST().digest_size)
                (size,) = _NUMBER.unpack(await reader.readexactly(_NUMBER.size))
                if not await self._fits(columns):
                    writer.write(_REFUSED)
                    return
                writer.write(_READY)
                appending = asyncio.ensure_future(self._appended(await reader.readexactly(size)))
                try:
                    while not (await asyncio.wait([appending], timeout=_SIGN_SECONDS))[0]:
                        writer.write(_SIGN)
                finally:
                    writer.write(await appending)
        except (
            OSError,
            asyncio.IncompleteReadError,
            asyncio.CancelledError,
            ContextStoreError,
        ):
            pass  # the other process sees the connection end
        finally:
            writer.close()
            answering.discard(task)

    async def _fits(self, columns: bytes) -> bool:
        """Whether the rows of a process that sees these columns fit into the table."""
        if columns == await self._columns():
            return True
        await self._refresh()
        return columns == await self._columns()

    async def _appended(self, frame: bytes) -> bytes:
        try:
            versions = await asyncio.gather(*map(self._append, _unpacked(frame)))
        except Exception:  # noqa: BLE001 - the other process tries it, and raises what that raises
            return _FAILED
        return _DONE + _VERSION.pack(max(versions))


_DIGEST = hashlib.sha256


def digest(text: str) -> bytes:
    """A digest that is equal in two processes that mean the same."""
    return _DIGEST(text.encode()).digest()


def meeting_place(connection: Connection, name: str, ref: str | None) -> Path | None:
    """Where the processes that append to a ref of a table meet; None if nowhere.

    A path without extension. They share user, release, address of the store and credentials: no
    process may write with those of another one.
    """
    is_object_store = "://" in connection.uri and connection.place is not connection
    if not is_object_store or not hasattr(asyncio, "open_unix_connection"):
        return None
    if connection.journal is not None:  # the lock of the store has its commits one at a time
        return None
    same = [
        version("lance-context-core"),
        connection.uri,
        name,
        ref,
        *sorted(connection.storage_options.items()),
        *sorted(one for one in os.environ.items() if one[0].startswith(_ENVIRONMENT)),
    ]
    folder = Path(tempfile.gettempdir()) / f"lance-context-{os.getuid()}"
    # The path of a socket may have about 100 bytes.
    return folder / digest(repr(same)).hex()[:16]


def _require_own(folder: Path) -> None:
    """Create the directory; raises OSError if other users may write to it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{str(folder)!r} is not this user's alone")


def _packed(batches: Sequence[Sequence[Row]]) -> bytes | None:
    """The batches as bytes; None if too many, or if a value cannot be sent."""
    parts = [_NUMBER.pack(len(batches))]
    size = 0
    for batch in batches:
        parts.append(_NUMBER.pack(len(batch)))
        for row in batch:
            try:
                payload = encoded({name: one for name, one in row.items() if one is not None})
            except (TypeError, ValueError):
                return None
            parts += [_NUMBER.pack(len(payload)), payload]
            if (size := size + len(payload)) > _MOST_BYTES:
                return None
    return b"".join(parts)


def _unpacked(frame: bytes) -> list[list[Row]]:
    """The batches that `_packed` encoded."""
    at = 0

    def number() -> int:
        nonlocal at
        at += _NUMBER.size
        return int(_NUMBER.unpack_from(frame, at - _NUMBER.size)[0])

    def row() -> Row:
        nonlocal at
        size = number()
        at += size
        return decoded(frame[at - size : at])

    return [[row() for _ in range(number())] for _ in range(number())]

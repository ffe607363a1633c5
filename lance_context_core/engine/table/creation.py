"""Making a table while others may be making it.

The engine looks whether a table exists, and then creates it. What another process creates between
these steps, and writes there, it replaces by an empty table. In a local directory that cannot be:
those who create wait for each other, on a lock that the system takes from a process which ends.

On an object store acknowledged rows are then in earlier versions alone. Whoever did so notices by the
number of its version, and puts them back; only if it is killed before that, they stay there. (A clone of
an empty table replaces nothing, but loses what makes row ids stable.)
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from lance_context_core._util.retry import retried
from lance_context_core.engine.errors import translated
from lance_context_core.engine.files.locks import locked
from lance_context_core.engine.names import shown_name
from lance_context_core.engine.table import writing
from lance_context_core.errors import ConflictError, StorageError

T = TypeVar("T")

_running: set[asyncio.Future[Any]] = set()


async def create(
    connection: Any, uri: str, name: str, *, schema: pa.Schema, options: Mapping[str, str]
) -> Any:
    """The engine's handle of a new table of the database at `uri`; fails if it is seen to exist.

    Cancelling ends the wait alone: half made, it could lack what others have written.
    """

    async def make() -> Any:
        if (place := Path(uri)).is_absolute():
            await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
        async with locked(place):
            return await _make(connection, name, schema=schema, options=options)

    making = asyncio.ensure_future(make())
    _running.add(making)
    making.add_done_callback(_running.discard)
    return await asyncio.shield(making)


async def _make(
    connection: Any, name: str, *, schema: pa.Schema, options: Mapping[str, str]
) -> Any:
    handle = await connection.create_table(name, schema=schema, storage_options=dict(options))
    if (made := int(await handle.version())) > 1:
        await _Replaced(connection, name, handle, made).put_back()
    return handle


class _Replaced:
    """A table that was replaced by an empty one, at version `made`."""

    def __init__(self, connection: Any, name: str, handle: Any, made: int) -> None:
        self._connection = connection
        self._name = name
        self._handle = handle
        self._made = made
        self._n_failures = 0
        """Of the storage, after which it is not known what was done."""

    async def put_back(self) -> None:
        """Have in it what was there before, and behind that what was written since.

        Raises StorageError if that cannot be done: what is missing is in an earlier version.
        """
        former = self._made - 1
        label = shown_name(self._name)
        try:
            if not await self._insist(self._count, former):
                return
            restored = await self._insist(self._restore, former)
            # Of the versions in between the last one has all that is missing now, unless a try that
            # seemed to fail had restored the table before.
            first = self._made + 1 if self._n_failures else restored - 1
            for version in range(max(first, self._made + 1), restored):
                await self._insist(self._take_over, version)
        except (ConflictError, StorageError) as error:
            raise StorageError(
                f"{label} was made by two at the same time, and what one of them had written could "
                f"not be put back: it is in version {former} of it, and in those after that one"
            ) from error

    async def _insist(self, step: Callable[[int], Awaitable[T]], version: int) -> T:
        async def attempt() -> T:
            with translated(f"put back what was in {shown_name(self._name)}"):
                return await step(version)

        async def note(error: Exception) -> None:
            self._n_failures += isinstance(error, StorageError)

        return await retried(attempt, on=(ConflictError, StorageError), between=note)

    async def _count(self, version: int) -> int:
        return int(await (await self._at(version)).count_rows())

    async def _restore(self, version: int) -> int:
        """Returns the version that is the same again."""
        await self._handle.checkout_latest()
        await self._handle.restore(version)
        return int(await self._handle.version())

    async def _take_over(self, version: int) -> None:
        """Add what that version has and the table has not, in order."""
        rows = await (await self._at(version)).query().with_row_id().to_arrow()
        await self._handle.checkout_latest()
        if rows.num_rows:
            rows = await writing.fitted(self._handle, rows.sort_by("_rowid"))
            await writing.insert(self._handle, rows)

    async def _at(self, version: int) -> Any:
        return await self._connection.open_table(self._name, version=version)

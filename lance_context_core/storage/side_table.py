"""Side tables: a table with the log's entries, for readers that cannot flush.

A side table is a directory for temporary files, with a manifest of the version that the log knows,
links to the files it names, and new files with the log's rows. The engine answers all queries there
as after a flush. New rows have ids that no table has, so that it is known later in which side table
a row was found.
"""

import asyncio
import itertools
import shutil
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import lancedb

from lance_context_core._util.frozen import frozen
from lance_context_core.errors import StorageError
from lance_context_core.storage.lance import manifests
from lance_context_core.storage.lance.errors import asked
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.wal.entries import View

FIRST_ID = 1 << 61
"""The lowest id of new rows, below those of `overlay`."""

_SPAN = 1 << 40
"""The number of ids of each side table."""

_N_KEPT = 16
"""The number of side tables that stay, for recent results and for reads that go on."""

_counted = itertools.count()


@frozen
class _Place:
    """One version of a table with the log's rows."""

    folder: Path
    handle: Any


class SideTable:
    """The side tables of one table, on one ref."""

    def __init__(self, access: TableHandle, lay: Callable[[Any, View], Awaitable[None]]) -> None:
        """Starts empty; `lay` commits the entries of a view to a table of that version."""
        self._access = access
        self._lay = lay
        self._places: OrderedDict[tuple[int, int], _Place] = OrderedDict()
        self._numbers: dict[int, _Place] = {}

    async def newest(self) -> Any | None:
        """A handle, at a fixed version, that includes the log's rows.

        None if the table is missing; the table's own handle if the log has no entries.
        """
        return await self._access.follow(self._look)

    def owners(self, ids: Sequence[int]) -> dict[Any, list[int]]:
        """The handles of those row ids of side tables that are still known."""
        found: dict[Any, list[int]] = {}
        for id in ids:
            if (place := self._numbers.get((id - FIRST_ID) // _SPAN)) is not None:
                found.setdefault(place.handle, []).append(id)
        return found

    def close(self) -> None:
        """Remove all side tables."""
        while self._places:
            self._forget()

    async def _look(self) -> Any | None:
        view = await self._access.view()
        if view is None or not view.entries:
            return await self._access.peek()
        key = (view.table, view.token)
        if (place := self._places.get(key)) is None:
            number = next(_counted)
            place = await self._made(view, number)
            self._places[key] = self._numbers[number] = place
            while len(self._places) > _N_KEPT:
                self._forget()
        return place.handle

    async def _made(self, view: View, number: int) -> _Place:
        access = self._access
        folder = access.connection.scratch() / f"{number}"
        source = Path(access.connection.uri) / f"{access.name}.lance"
        if access.ref is not None:
            source = source / "tree" / access.ref
        try:
            await asyncio.to_thread(
                _linked, source, view.version, folder, FIRST_ID + number * _SPAN
            )
            engine = await lancedb.connect_async(str(folder))
            handle = await asked(f"read {access.label}", engine.open_table(_NAME))
            await self._lay(handle, view)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise
        return _Place(folder, handle)

    def _forget(self) -> None:
        _, place = self._places.popitem(last=False)
        self._numbers = {n: one for n, one in self._numbers.items() if one is not place}
        place.handle.close()
        shutil.rmtree(place.folder, ignore_errors=True)


_NAME = "aside"


def _linked(source: Path, version: int, folder: Path, first_id: int) -> None:
    """Create a table at a version of `source`. Raises StorageError if it is gone."""
    manifest = manifests.path(source, version)
    goal = folder / f"{_NAME}.lance"
    try:
        data = manifests.detached(manifest.read_bytes(), first_id)
        contents = manifests.contents(manifest, source)
    except (OSError, manifests.UnknownManifestError) as error:
        raise StorageError(
            f"cannot read version {version} of {str(source)!r}, with the entries of the write-ahead log: {error}: "
            "call flush() in a process that may write"
        ) from error
    indexes = [one for one in contents.folders if one.is_relative_to(source)]
    files = [one for one in contents.files if one.is_relative_to(source)]
    for file in dict.fromkeys([*indexes, *files]):
        link = goal / file.relative_to(source)
        if not any(folder in file.parents for folder in indexes):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
    goal_manifest = manifests.path(goal, version)
    goal_manifest.parent.mkdir(parents=True, exist_ok=True)
    goal_manifest.write_bytes(data)

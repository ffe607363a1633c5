"""Repairs a table on an object store whose log is elsewhere, when first opened.

An object store tears no file, so that a version is whole or absent. A version that the log does not
know is of a process that was killed, or of a program without the log: the log continues from it.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from lance_context_core.errors import NotFoundError
from lance_context_core.storage.lance import branches
from lance_context_core.storage.lance.errors import asked
from lance_context_core.storage.names import shown_name
from lance_context_core.storage.repair import Findings, Lacking, Repair, overtake, require
from lance_context_core.storage.wal.journal import Journal
from lance_context_core.storage.wal.log import Part
from lance_context_core.storage.wal.table_log import TableLog


class RemoteRepair(Repair):
    """Checks each table once, before it is opened, by its versions."""

    def __init__(
        self,
        journal: Journal,
        opened: Callable[[str], Awaitable[Any]],
        *,
        may_write: bool = True,
    ) -> None:
        """As `Repair`, for a store without a directory."""
        super().__init__(Path(), journal, None, opened, may_write=may_write)

    async def mend(
        self, name: str, ref: str | None = None, *, is_kept: bool = True, is_again: bool = False
    ) -> None:
        """As `Repair.mend`."""
        part = Part(name, ref or "")
        if not is_again and self._done.get(part, self) == self._journal.identity:
            return
        if is_kept:
            found = await self._found(part)
            if (found.lacks or found.newest) and self._may_write and not self._journal.is_alone():
                ledger = TableLog(self._journal, name, ref)
                async with ledger.folding():
                    found = await self._found(part)  # another process may have repaired it
                    if found.newest:
                        await overtake(ledger, await self._opened(name), found.newest, found.later)
            require(name, found)
        self._done[part] = self._journal.identity

    async def lacking(self, besides: str, *, is_damaged: bool = False) -> list[Lacking]:
        """As `Repair.lacking`; an object store damages nothing."""
        del is_damaged
        found = []
        for part in await self._journal.known():
            if part.name == besides or not (await self._found(part)).lacks:
                continue
            async with TableLog(self._journal, part.name, part.ref or None).folding():
                if lacks := (await self._found(part)).lacks:
                    what = f"{shown_name(part.name)} {lacks}"
                    found.append(Lacking(part, str(self._journal.path), what))
        return found

    async def damage(self, name: str, ref: str | None = None) -> str:
        """As `Repair.damage`: nothing is known of it."""
        del name, ref
        return ""

    async def unreadable(self, name: str, ref: str | None) -> str:
        """As `Repair.unreadable`: nothing is known of it."""
        del name, ref
        return ""

    async def fence(self, parts: Sequence[Part]) -> None:
        """Make the commits to these tables fail that began before; requires the store's lock.

        Commits the newest version once more: the engine refuses each commit that was begun on an
        older one.
        """
        for part in parts:
            if (handle := await self._at(part)) is None:
                continue
            version = int(await handle.version())
            while True:
                before = int(await handle.version())
                action = f"exclude others from {shown_name(part.name)}"
                await asked(action, handle.restore(version))
                if (newest := int(await handle.version())) == before + 1:
                    break
                version = newest - 1  # by the last commit that came between, with the others

    async def _fall_back(self, part: Part) -> int:
        handle = await self._at(part)
        return 0 if handle is None else int(await handle.version())

    async def _found(self, part: Part) -> Findings:
        state = await TableLog(self._journal, part.name, part.ref or None).state()
        if state.version <= 0:
            return Findings([])
        handle = await self._at(part)
        newest = 0 if handle is None else int(await handle.version())
        if newest < state.version:
            there = f"the newest is {newest}" if newest else "none exists"
            of = f" of {part.ref!r}" if part.ref else ""
            lacks = f"lacks acknowledged data: version {state.version}{of} is missing, and {there}"
            return Findings([], lacks=lacks)
        if newest <= state.version + state.is_folding:
            return Findings([])
        return Findings([], newest, tuple(range(newest, state.version, -1)))

    async def _at(self, part: Part) -> Any | None:
        """A new handle of the table on its ref; None if missing."""
        try:
            handle = await self._opened(part.name)
            if not part.ref:
                return handle
            if part.ref not in await branches.listed(handle, part.name):
                return None
            return await branches.opened(handle, part.name, part.ref)
        except NotFoundError:
            return None

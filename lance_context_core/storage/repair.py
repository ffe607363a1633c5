"""Repairs a table after a power cut or a partial copy, when first opened.

The log notes a version, and deletes its entries, only once it is as durable as promised. So a
version newer than the noted one was reported to no caller, or is still in the log: if it is torn,
the store continues without it, and flushes again; if it is whole, it is valid. A version older than
the noted one lacks acknowledged rows: then an error is raised until the loss is accepted.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lance_context_core._util.frozen import frozen
from lance_context_core.errors import ContextStoreError, NotFoundError, StorageError
from lance_context_core.storage.lance import branches, manifests, reads
from lance_context_core.storage.lance.durability import Syncer
from lance_context_core.storage.lance.errors import asked, translated
from lance_context_core.storage.lance.schema import ACKNOWLEDGED, KEY
from lance_context_core.storage.lance.torn_manifests import names_rows, parts_of, torn
from lance_context_core.storage.names import shown_name
from lance_context_core.storage.sql.predicates import in_list
from lance_context_core.storage.wal.entries import Entry
from lance_context_core.storage.wal.journal import Journal
from lance_context_core.storage.wal.log import Part
from lance_context_core.storage.wal.table_log import State, TableLog

# The unreadable file of a table, where the engine does not name it.

_OFFSETS = 32
"""The upper bits of a row's address are its fragment's number."""


async def unreadable(handle: Any, files: Mapping[int, Sequence[Path]]) -> Sequence[Path]:
    """The files of the first fragment with unreadable rows; none if all are readable.

    `files` lists those of each fragment of the handle's version.
    """
    for fragment, some in files.items():
        begin, end = fragment << _OFFSETS, (fragment + 1) << _OFFSETS
        query = handle.query().where(f"_rowaddr >= {begin} AND _rowaddr < {end}")
        try:
            async for _ in await query.to_batches():
                pass
        except Exception:  # noqa: BLE001 - whatever the engine says of it
            return some
    return ()


# A table ahead of the log: it contains flushed entries that the log still has.
#
# The log was restored from a copy, lost its end in a power cut, or a process was killed during
# upkeep. The rows tell which entries are flushed: each has the moment of its acknowledgement.

_EPOCH = datetime.fromtimestamp(0, UTC)


async def overtake(ledger: TableLog, handle: Any, newest: int, later: tuple[int, ...]) -> None:
    """Continue the log from the newest version, without the entries it contains.

    `later` are the versions unknown to the log, newest first; `handle` is of main. In `folding`.
    """
    if (view := await ledger.view()) is None:
        return
    last = 0
    if view.entries:
        rows = _Rows(handle, ledger.part.name, ledger.part.ref or None)
        last = await _last_folded(view.entries, rows, later, before=view.version)
    await ledger.forget(last, newest, tells_moments=True)
    await ledger.note(newest)


async def _last_folded(entries: Any, rows: "_Rows", later: tuple[int, ...], *, before: int) -> int:
    """The last entry in one of these versions; flushes keep the order of entries."""
    by_key: dict[str, list[Entry]] = {}
    for entry in entries:
        by_key.setdefault(entry.key, []).append(entry)
    known = await rows.at(before, list(by_key))
    last = 0
    for version in later:
        for key, moments in (await rows.at(version, list(by_key))).items():
            # A later entry of the same key replaced it.
            new = max(moments - known.get(key, set()), default=-1)
            last = max([last, *(one.seq for one in by_key[key] if one.at <= new)])
            last = max([last, *(one.seq for one in by_key[key] if one.at in moments)])
        if last == entries[-1].seq:
            break
    return last


class _Rows:
    """The rows of a table on a ref, at its versions."""

    def __init__(self, handle: Any, name: str, ref: str | None) -> None:
        self._handle = handle
        self._name = name
        self._ref = ref

    async def at(self, version: int, keys: list[str]) -> dict[str, set[int]]:
        """When the rows of these keys were acknowledged, in microseconds, if known."""
        try:
            handle = await branches.opened(self._handle, self._name, self._ref, version)
        except (NotFoundError, StorageError):
            return {}  # the version was removed
        found: dict[str, set[int]] = {}
        with translated(f"read {shown_name(self._name)}"):
            if ACKNOWLEDGED not in (await handle.schema()).names:
                return {}
            rows = await reads.scan(handle, in_list(KEY, keys), [KEY, ACKNOWLEDGED])
        for row in rows.to_pylist():
            if (at := row[ACKNOWLEDGED]) is not None:
                moment = (at.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
                found.setdefault(row[KEY], set()).add(moment)
        return found


_MAKING = "making:"
"""The prefix of a ref's name in the log while the ref is being created."""

WAY_OUT = "put it back from a copy, or call accept_loss(), and the store goes on without it"
"""The remedy if acknowledged rows are missing."""


class Lacking(NamedTuple):
    """A version or table that was acknowledged, and is missing."""

    part: Part
    where: Path | str
    """The directory of the table, or of its branch or tag; on an object store that of the store."""
    what: str


class Repair:
    """Checks each table once, before it is opened: a power cut ends all its users."""

    def __init__(
        self,
        root: Path,
        journal: Journal,
        syncer: Syncer | None,
        opened: Callable[[str], Awaitable[Any]],
        *,
        may_write: bool = True,
    ) -> None:
        """The tables of the store in the directory `root`; `opened` opens one with the engine.

        Unless it `may_write`, reports missing data only, and repairs nothing.
        """
        self._root = root
        self._may_write = may_write
        self._journal = journal
        self._syncer = syncer
        self._opened = opened
        self._done: dict[Part, object] = {}

    async def mend(
        self, name: str, ref: str | None = None, *, is_kept: bool = True, is_again: bool = False
    ) -> None:
        """Drop torn versions that no caller knows, if writable; accept newer whole ones.

        A table that is not `is_kept` is the store's own, and no loss. Raises StorageError if
        acknowledged rows are missing. Checks once, unless `is_again`.
        """
        part = Part(name, ref or "")
        if not is_again and self._done.get(part, self) == self._journal.identity:
            return
        table = _Table(self._root, part)
        ledger = TableLog(self._journal, name, ref)

        look = partial(self._look, ledger, table, is_kept=is_kept)
        try:
            found = await look()
            if found.lacks:
                found = await self._looked_again(ledger, look)
                require(name, found)
            if self._may_write and (found.torn or found.newest):
                async with ledger.folding():
                    found = await look()  # another process may have repaired it
                    await asyncio.to_thread(table.drop, found.torn)
                    if found.newest:
                        handle = await self._opened(name)
                        await overtake(ledger, handle, found.newest, found.later)
            if ref is None and self._may_write:
                await self._mend_refs(name)
        except StorageError:
            raise
        except OSError:
            return  # the engine reports unreadable directories
        self._done[part] = self._journal.identity

    async def know(self, name: str, ref: str | None, handle: Any) -> None:
        """Note the version of a table, which is durable, in the log, if one exists."""
        if await self._journal.exists():
            ledger = TableLog(self._journal, name, ref)
            async with ledger.folding():
                await asked(f"read {shown_name(name)}", handle.checkout_latest())
                await ledger.note(int(await handle.version()))

    async def lacking(self, besides: str, *, is_damaged: bool = False) -> list[Lacking]:
        """The missing acknowledged data of all tables but that one.

        With `is_damaged`, also tables whose newest version is damaged. Raises StorageError if the
        log cannot be read.
        """
        known = await self._journal.known()
        found = []
        for part in sorted({*known, *await asyncio.to_thread(_parts, self._root)}):
            if part.name == besides or part.ref.startswith(_MAKING):
                continue
            if is_damaged and (wrong := await self.damage(part.name, part.ref or None)):
                found.append(Lacking(part, self._root, wrong.removeprefix("; ")))
                continue
            table, ledger = _Table(self._root, part), TableLog(self._journal, part.name, part.ref)

            look = partial(self._look, ledger, table)
            if not (await look()).lacks and not await asyncio.to_thread(table.hides):
                continue
            lacks = (await self._looked_again(ledger, look)).lacks
            if lacks := lacks or await asyncio.to_thread(table.hides):
                found.append(Lacking(part, table.directory, f"{shown_name(part.name)} {lacks}"))
        return found

    async def accept(self, name: str, ref: str) -> bool:
        """Continue with the rest of a table, on a ref or on main.

        A table without a whole version is removed; its directory is renamed. Returns whether to
        create it again, for the log's entries.
        """
        ledger = TableLog(self._journal, name, ref or None)
        self._done.clear()
        async with ledger.folding():
            newest = await self._fall_back(ledger.part)
            if not await self._journal.exists():
                return False
            is_wanted = not ref and (await ledger.fullness())[0] > 0
            if newest or is_wanted:
                await ledger.forget(0, newest)
            else:
                await ledger.discard()
            if not newest and not ref:
                for other in filter(None, await self._journal.refs(name)):
                    await TableLog(self._journal, name, other).discard()
        return is_wanted and not newest

    @asynccontextmanager
    async def making(self, name: str, ref: str) -> AsyncIterator[None]:
        """Create a ref in this context, durable at the end; a power cut drops it."""
        if await self._journal.policy() is None:
            yield
            return
        mark = TableLog(self._journal, name, _MAKING + ref)
        await mark.make()
        async with mark.folding():
            await mark.note(1)
            await mark.doubt()  # within a commit, too, the mark exists from now on
            yield
            await mark.discard()

    async def _fall_back(self, part: Part) -> int:
        """Remove torn newest versions; returns the remaining one, 0 if none."""
        return await asyncio.to_thread(_Table(self._root, part).fall_back)

    async def _look(self, ledger: TableLog, table: "_Table", *, is_kept: bool = True) -> "Findings":
        state = await ledger.state() if is_kept else State()
        return await asyncio.to_thread(table.look, state, is_kept=is_kept)

    async def _looked_again(
        self, ledger: TableLog, look: Callable[[], Awaitable["Findings"]]
    ) -> "Findings":
        """The findings while no commit or drop runs, as far as waiting is allowed."""
        if not self._may_write:
            return await look()
        try:
            async with ledger.folding():
                return await look()
        except StorageError:
            return await look()

    async def _mend_refs(self, name: str) -> None:
        for known in await self._journal.refs(name):
            if not known.startswith(_MAKING):
                continue
            mark = TableLog(self._journal, name, known)
            async with mark.folding():
                # The holder of the lock and the mark is gone.
                if known in await self._journal.refs(name):
                    ref = known.removeprefix(_MAKING)
                    await asyncio.to_thread(_Table(self._root, Part(name, ref)).drop_torn_ref)
                    if self._syncer is not None:
                        await self._syncer.sync_refs(name)
                    await mark.discard()

    async def damage(self, name: str, ref: str | None = None) -> str:
        """The torn file of the newest version, and the remedy; empty if none is torn."""
        return await asyncio.to_thread(_Table(self._root, Part(name, ref or "")).damage)

    async def unreadable(self, name: str, ref: str | None) -> str:
        """The unreadable file of the newest version; empty if unknown.

        Reads all rows, up to the first unreadable one.
        """
        table = _Table(self._root, Part(name, ref or ""))
        try:
            handle = await self._opened(name)
            if ref is not None:
                handle = await branches.opened(handle, name, ref)
            version = int(await handle.version())
            files = await asyncio.to_thread(table.data_files, version)
        except (ContextStoreError, OSError, ValueError):
            return ""
        found = await unreadable(handle, files)
        return "" if not found else f"; {' or '.join(repr(str(one)) for one in found)} is damaged"


@frozen
class Findings:
    """The repairs of a table."""

    torn: list[Path]
    """The manifests of the versions to remove."""
    newest: int = 0
    """The whole version that is valid though the log does not know it; 0 if none."""
    later: tuple[int, ...] = ()
    """That version, and those between it and the known one, newest first."""
    lacks: str = ""
    """The missing acknowledged data."""


class _Table:
    """The versions of a table, on one ref, as they are on disk."""

    def __init__(self, root: Path, part: Part) -> None:
        self._table = root / f"{part.name}.lance"
        self.directory = manifests.directory_of(self._table, part.ref)
        self._ref = part.ref

    def look(self, state: State, *, is_kept: bool) -> Findings:
        """The repairs to do, if writable. Raises OSError if the table cannot be read.

        The version that the log knows contains all reported data, unless the log knows none.
        """
        listed = manifests.listed(self.directory)
        newest, floor = max(listed, default=0), abs(state.version)
        if is_kept and floor and (file := self._file_of_ref()) and not file.exists():
            return Findings([], lacks=f"lacks {self._ref!r}: {str(file)!r} is missing")
        if is_kept and newest < (wanted := self._wanted(floor, listed.values())):
            return Findings([], lacks=self._lacks(newest, wanted))
        if not os.access(self.directory / "_versions", os.W_OK):
            return Findings([])
        if is_kept and not floor and not self._is_without_rows(listed.values()):
            return Findings([])
        known = parts_of(listed[floor], self.directory) if floor in listed else frozenset()
        above = {number: one for number, one in listed.items() if number > floor}
        found = [
            one for number, one in above.items() if torn(one, number, self.directory, known=known)
        ]
        # The table needs a version to continue from.
        if floor and floor not in listed and len(found) == len(above):
            return Findings([])
        whole = sorted((number for number, one in above.items() if one not in found), reverse=True)
        if state.version <= 0 or whole in ([], [floor + 1][: state.is_folding]):
            return Findings(found)
        return Findings(found, whole[0], tuple(whole))

    def data_files(self, version: int) -> dict[int, list[Path]]:
        """As `manifests.data_files`."""
        return manifests.data_files(manifests.listed(self.directory)[version], self.directory)

    def drop(self, torn: Iterable[Path]) -> None:
        """Remove these manifests."""
        for manifest in torn:
            manifest.unlink(missing_ok=True)
        newest = max(manifests.listed(self.directory), default=0)
        if newest:
            manifests.hint(self.directory, newest)

    def hides(self) -> str:
        """The fault of a table's directory without a version; empty if none.

        It is no error: a process that is killed while it drops a table leaves such a directory,
        too.
        """
        if self._ref or manifests.listed(self.directory) or self._is_without_rows(()):
            return ""
        return "has data, and no version"

    def drop_torn_ref(self) -> None:
        """Drop the ref unless it is whole. Raises OSError if access fails."""
        file = manifests.file_of_ref(self._table, self._ref)
        listed = manifests.listed(self.directory)
        newest = max(listed, default=0)
        if not newest or torn(listed[newest], newest, self.directory) or not _is_json(file):
            file.unlink(missing_ok=True)
            self.drop(listed.values())

    def fall_back(self) -> int:
        """Remove torn newest versions; returns the remaining one, 0 if none.

        Raises OSError if access fails.
        """
        file = self._file_of_ref()
        listed = manifests.listed(self.directory) if file is None or file.exists() else {}
        for number in sorted(listed, reverse=True):
            if not torn(listed[number], number, self.directory):
                manifests.hint(self.directory, number)
                return number
            listed[number].unlink(missing_ok=True)
        if file is not None:
            file.unlink(missing_ok=True)
        elif self._table.exists():
            number = 1
            while (kept := self._table.with_suffix(f".lost-{number}")).exists():
                number += 1
            self._table.rename(kept)
        return 0

    def damage(self) -> str:
        """As `Repair.damage`."""
        listed = manifests.listed(self.directory)
        try:
            newest = max(listed)
            file = torn(listed[newest], newest, self.directory)
        except (OSError, ValueError):
            return ""
        if file is None:
            return ""
        return f"; {str(file)!r} is not whole: {WAY_OUT}"

    def _file_of_ref(self) -> Path | None:
        return manifests.file_of_ref(self._table, self._ref) if self._ref else None

    def _wanted(self, floor: int, versions: Iterable[Path]) -> int:
        """The acknowledged version, by the log; else by the note next to the table."""
        if floor:
            return floor
        if self._ref:
            forked_at = manifests.forked_at(self._table, self._ref)
            return max(manifests.hinted(self.directory), forked_at) if forked_at else 0
        return 0 if self._is_without_rows(versions) else manifests.hinted(self.directory)

    def _lacks(self, newest: int, wanted: int) -> str:
        of = f" of {self._ref!r}" if self._ref else ""
        there = f"the newest on the disk is {newest}" if newest else "none is on the disk"
        file = manifests.path(self.directory, wanted)
        return (
            f"lacks acknowledged data: version {wanted}{of} is missing ({str(file)!r}), and {there}"
        )

    def _is_without_rows(self, versions: Iterable[Path]) -> bool:
        """Whether surely no version ever had a row, so that nothing can be lost."""
        if self._ref or (self._table / "tree").exists() or any(self._table.glob("data/*")):
            return False
        return not any(names_rows(manifest, self._table) for manifest in versions)


def require(name: str, found: Findings) -> None:
    """Raise StorageError if acknowledged data is missing."""
    if found.lacks:
        raise StorageError(f"{shown_name(name)} {found.lacks}: {WAY_OUT}")


def _parts(root: Path) -> list[Part]:
    """The tables in a directory, each on main and on all refs, by their files."""
    found = []
    for table in sorted(root.glob("*.lance")):
        found += [Part(table.stem, ref) for ref in ("", *manifests.refs(table))]
    return found


def _is_json(file: Path) -> bool:
    try:
        return isinstance(json.loads(file.read_bytes()), dict)
    except ValueError:
        return False
    except FileNotFoundError:
        return True  # the ref does not exist

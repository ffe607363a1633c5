"""What a power cut, or a copy of some of the files, leaves of a table: found when it is first opened.

The journal notes a version only when it is as durable as was promised, and forgets only then what that
version brought. So one that is newer than the noted one was told to nobody, or is in the journal still:
if it is torn, the store goes on without it, and folds again; if it is whole, it counts. An older one
lacks what was acknowledged: then there is an error, until the loss is accepted.
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

# Which file of a table cannot be read, where the engine does not tell.

_OFFSETS = 32
"""The upper bits of a row's address are the number of its fragment."""


async def unreadable(handle: Any, files: Mapping[int, Sequence[Path]]) -> Sequence[Path]:
    """The files of the first fragment of which the engine cannot read all rows; none if it can.

    `files` are those of each fragment of the version that the handle is at.
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


# A table that is ahead of the journal: what was folded is in it, and the journal does not know.
#
# The journal is put back from a copy, or a power cut takes its end, or a process is killed at upkeep.
# Which entries are folded is told by the rows: each has the moment at which it was acknowledged.

_EPOCH = datetime.fromtimestamp(0, UTC)


async def overtake(ledger: TableLog, handle: Any, newest: int, later: tuple[int, ...]) -> None:
    """Have the journal go on from the newest version, without the entries that are folded by then.

    `later` are the versions that it does not know, the newest first; `handle` is of main. In
    `folding`.
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
    """The last entry that one of these versions has; as entries are folded in their order, all before it."""
    by_key: dict[str, list[Entry]] = {}
    for entry in entries:
        by_key.setdefault(entry.key, []).append(entry)
    known = await rows.at(before, list(by_key))
    last = 0
    for version in later:
        for key, moments in (await rows.at(version, list(by_key))).items():
            # One of the same key that was acknowledged after an entry took its place.
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
        """When those of these keys were acknowledged, in microseconds, as far as that is known."""
        try:
            handle = await branches.opened(self._handle, self._name, self._ref, version)
        except (NotFoundError, StorageError):
            return {}  # It is not kept any more.
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
"""What the journal calls a ref begins with this while it is being made."""

WAY_OUT = "put it back from a copy, or call accept_loss(), and the store goes on without it"
"""What to do where something that was acknowledged is missing."""


class Lacking(NamedTuple):
    """Something that was acknowledged, and is missing."""

    part: Part
    where: Path
    """The folder of the table, or of the branch or tag of it."""
    what: str


class Repair:
    """Looks at each table once, before it is opened: a power cut ends whoever has it open."""

    def __init__(
        self,
        root: Path,
        journal: Journal,
        syncer: Syncer | None,
        opened: Callable[[str], Awaitable[Any]],
        *,
        may_write: bool = True,
    ) -> None:
        """The tables of the store in the directory `root`; `opened` has the engine open one.

        Unless it `may_write`, it only tells what is missing, and mends nothing.
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
        """Drop what is torn and was told to nobody, where one may write; take what is newer and whole.

        A table that is not `is_kept` is the store's own, and nobody's loss. Raises StorageError if
        less is there than was acknowledged. It looks once, unless it is to look again.
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
                _require(name, found)
            if self._may_write and (found.torn or found.newest):
                async with ledger.folding():
                    found = await look()  # Somebody else may have been faster.
                    await asyncio.to_thread(table.drop, found.torn)
                    if found.newest:
                        handle = await self._opened(name)
                        await overtake(ledger, handle, found.newest, found.later)
            if ref is None and self._may_write:
                await self._mend_refs(name)
        except StorageError:
            raise
        except OSError:
            return  # What cannot be looked at is for the engine to complain about.
        self._done[part] = self._journal.identity

    async def know(self, name: str, ref: str | None, handle: Any) -> None:
        """Have the journal, if there is one, know the version that a table is at, which is durable."""
        if await self._journal.exists():
            ledger = TableLog(self._journal, name, ref)
            async with ledger.folding():
                await asked(f"read {shown_name(name)}", handle.checkout_latest())
                await ledger.note(int(await handle.version()))

    async def lacking(self, besides: str, *, is_damaged: bool = False) -> list[Lacking]:
        """What is missing of what was acknowledged, of all tables but that one.

        With `is_damaged` also what is there, and whose newest version is damaged. Raises StorageError
        if the journal cannot be read.
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
        """Go on with what is left of a table, on a ref or on main.

        A table of which no version is whole is gone; its folder is kept under another name. Returns
        whether it is to be made anew, for what the journal holds.
        """
        table = _Table(self._root, Part(name, ref))
        ledger = TableLog(self._journal, name, ref or None)
        self._done.clear()
        async with ledger.folding():
            newest = await asyncio.to_thread(table.fall_back)
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
        """Make a ref in here, which is durable at the end: what a power cut leaves of it is dropped."""
        if await self._journal.policy() is None:
            yield
            return
        mark = TableLog(self._journal, name, _MAKING + ref)
        await mark.make()
        async with mark.folding():
            await mark.note(1)
            await mark.doubt()  # Also within a commit the mark is there from now on.
            yield
            await mark.discard()

    async def _look(
        self, ledger: TableLog, table: "_Table", *, is_kept: bool = True
    ) -> "_Findings":
        state = await ledger.state() if is_kept else State()
        return await asyncio.to_thread(table.look, state, is_kept=is_kept)

    async def _looked_again(
        self, ledger: TableLog, look: Callable[[], Awaitable["_Findings"]]
    ) -> "_Findings":
        """What is found while nobody commits, or drops the table, as far as one may have them wait."""
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
                # Who has the lock and the mark is gone.
                if known in await self._journal.refs(name):
                    ref = known.removeprefix(_MAKING)
                    await asyncio.to_thread(_Table(self._root, Part(name, ref)).drop_torn_ref)
                    if self._syncer is not None:
                        await self._syncer.sync_refs(name)
                    await mark.discard()

    async def damage(self, name: str, ref: str | None = None) -> str:
        """Which file of the newest version is torn, and the way out; empty if none is."""
        return await asyncio.to_thread(_Table(self._root, Part(name, ref or "")).damage)

    async def unreadable(self, name: str, ref: str | None) -> str:
        """Which file of the newest version cannot be read; empty if that is not to be told.

        All rows are read for it, up to the first that cannot be.
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
class _Findings:
    """What is to be mended of a table."""

    torn: list[Path]
    """The manifests of versions that are to go."""
    newest: int = 0
    """The version that counts though the journal does not know it, being whole; 0 if none is."""
    later: tuple[int, ...] = ()
    """That version, and those between it and the known one, the newest first."""
    lacks: str = ""
    """What is missing of what was acknowledged."""


class _Table:
    """The versions of a table, on one ref, as they are on the disk."""

    def __init__(self, root: Path, part: Part) -> None:
        self._table = root / f"{part.name}.lance"
        self.directory = manifests.directory_of(self._table, part.ref)
        self._ref = part.ref

    def look(self, state: State, *, is_kept: bool) -> _Findings:
        """What is to be mended, where one may write. Raises OSError if one cannot look.

        All that was told to anybody is in the version that the journal knows, unless it knows none.
        """
        listed = manifests.listed(self.directory)
        newest, floor = max(listed, default=0), abs(state.version)
        if is_kept and floor and (file := self._file_of_ref()) and not file.exists():
            return _Findings([], lacks=f"lacks {self._ref!r}: {str(file)!r} is missing")
        if is_kept and newest < (wanted := self._wanted(floor, listed.values())):
            return _Findings([], lacks=self._lacks(newest, wanted))
        if not os.access(self.directory / "_versions", os.W_OK):
            return _Findings([])
        if is_kept and not floor and not self._is_without_rows(listed.values()):
            return _Findings([])
        known = parts_of(listed[floor], self.directory) if floor in listed else frozenset()
        above = {number: one for number, one in listed.items() if number > floor}
        found = [
            one for number, one in above.items() if torn(one, number, self.directory, known=known)
        ]
        # There must be a version to go on from.
        if floor and floor not in listed and len(found) == len(above):
            return _Findings([])
        whole = sorted((number for number, one in above.items() if one not in found), reverse=True)
        if state.version <= 0 or whole in ([], [floor + 1][: state.is_folding]):
            return _Findings(found)
        return _Findings(found, whole[0], tuple(whole))

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
        """What is wrong with the folder of a table that no version leads into; empty if nothing is.

        Nobody is refused for it: a process that is killed as it drops a table leaves such a one, too.
        """
        if self._ref or manifests.listed(self.directory) or self._is_without_rows(()):
            return ""
        return "has data, and no version"

    def drop_torn_ref(self) -> None:
        """Drop the ref, unless it is whole. Raises OSError if one cannot look, or may not."""
        file = manifests.file_of_ref(self._table, self._ref)
        listed = manifests.listed(self.directory)
        newest = max(listed, default=0)
        if not newest or torn(listed[newest], newest, self.directory) or not _is_json(file):
            file.unlink(missing_ok=True)
            self.drop(listed.values())

    def fall_back(self) -> int:
        """Remove what is torn of the newest versions; returns the one that is left, 0 if none is.

        Raises OSError if one cannot look, or may not.
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
        """The version that was acknowledged, by the journal; else by what is noted beside the table."""
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
        """Whether surely no version ever had a row, so that there is nothing to lose."""
        if self._ref or (self._table / "tree").exists() or any(self._table.glob("data/*")):
            return False
        return not any(names_rows(manifest, self._table) for manifest in versions)


def _require(name: str, found: _Findings) -> None:
    if found.lacks:
        raise StorageError(f"{shown_name(name)} {found.lacks}: {WAY_OUT}")


def _parts(root: Path) -> list[Part]:
    """The tables in a directory, each on main and on each of its refs, by their files."""
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
        return True  # There is no such ref.

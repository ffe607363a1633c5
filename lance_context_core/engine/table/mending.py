"""What a power cut leaves of a table, mended: versions that are torn, and of which nobody was told.

The journal notes a version only when it is as durable as was promised, and forgets only then what that
version brought. So one that is newer than the noted one was told to nobody, or is in the journal still:
if it is torn, the store goes on without it, and folds again.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from lance_context_core._values import frozen
from lance_context_core.engine.files import manifests
from lance_context_core.engine.files.durability import Syncer
from lance_context_core.engine.files.torn import names_rows, parts_of, torn
from lance_context_core.engine.journal.journal import Journal
from lance_context_core.engine.journal.ledger import Ledger
from lance_context_core.engine.journal.statements import Part

_MAKING = "making:"
"""What the journal calls a ref begins with this while it is being made."""


class Mending:
    """Looks at each table once, before it is opened: a power cut ends whoever has it open."""

    def __init__(self, root: Path, journal: Journal, syncer: Syncer | None) -> None:
        """The tables of the store in the directory `root`."""
        self._root = root
        self._journal = journal
        self._syncer = syncer
        self._done: set[Part] = set()

    async def mend(self, name: str, ref: str | None = None, *, is_journaled: bool = True) -> None:
        """Drop what is torn and was told to nobody, where one may write.

        A table that is not journaled is the store's own, and nobody's loss.
        """
        part = Part(name, ref or "")
        if part in self._done:
            return
        table = _Table(self._root, part)
        ledger = Ledger(self._journal, name, ref)

        async def look() -> _Findings:
            floor = await ledger.floor() if is_journaled else 0
            is_known = floor > 0 or not is_journaled
            return await asyncio.to_thread(table.look, floor, is_known=is_known)

        try:
            if await look():
                async with ledger.folding():
                    found = await look()  # Somebody else may have been faster.
                    await asyncio.to_thread(_drop, found.torn)
                    if found.newest:
                        await ledger.forget(0, found.newest)
            if ref is None:
                await self._mend_refs(name)
        except OSError:
            return  # What cannot be looked at is for the engine to complain about.
        self._done.add(part)

    @asynccontextmanager
    async def making(self, name: str, ref: str) -> AsyncIterator[None]:
        """Make a ref in here, which is durable at the end: what a power cut leaves of it is dropped."""
        if await self._journal.policy() is None:
            yield
            return
        mark = Ledger(self._journal, name, _MAKING + ref)
        await mark.make()
        async with mark.folding():
            await mark.note(1)
            await mark.doubt()  # Also within a commit the mark is there from now on.
            yield
            await mark.discard()

    async def _mend_refs(self, name: str) -> None:
        for known in await self._journal.refs(name):
            if not known.startswith(_MAKING):
                continue
            mark = Ledger(self._journal, name, known)
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


@frozen
class _Findings:
    """What is to be mended of a table."""

    torn: list[Path]
    """The manifests of versions that are to go."""
    newest: int = 0
    """The version that the journal is to go by, if its own is gone."""

    def __bool__(self) -> bool:
        return bool(self.torn or self.newest)


class _Table:
    """The versions of a table, on one ref, as they are on the disk."""

    def __init__(self, root: Path, part: Part) -> None:
        self._table = root / f"{part.name}.lance"
        self._directory = self._table / "tree" / part.ref if part.ref else self._table
        self._ref = part.ref

    def look(self, floor: int, *, is_known: bool) -> _Findings:
        """What is to be mended; nothing where one may not write. Raises OSError if one cannot look.

        All that was told to anybody is in the version `floor`, unless that is not known.
        """
        if not os.access(self._directory / "_versions", os.W_OK):
            return _Findings([])
        listed = manifests.listed(self._directory)
        if not is_known and not self._is_without_rows(listed.values()):
            return _Findings([])
        newest = max(listed, default=0)
        if newest < floor:
            # Without `fsync` a power cut may have taken it; or it was removed by hand, being torn.
            return _Findings([], newest)
        known = parts_of(listed[floor], self._directory) if floor in listed else frozenset()
        above = {number: one for number, one in listed.items() if number > floor}
        found = [
            one for number, one in above.items() if torn(one, number, self._directory, known=known)
        ]
        # There must be a version to go on from.
        if floor and floor not in listed and len(found) == len(above):
            return _Findings([])
        return _Findings(found)

    def drop_torn_ref(self) -> None:
        """Drop the ref, unless it is whole. Raises OSError if one cannot look, or may not."""
        file = self._table / "_refs" / "branches" / f"{quote(self._ref, safe='')}.json"
        listed = manifests.listed(self._directory)
        newest = max(listed, default=0)
        if not newest or torn(listed[newest], newest, self._directory) or not _is_json(file):
            file.unlink(missing_ok=True)
            _drop(listed.values())

    def damage(self) -> str:
        """As `Mending.damage`."""
        listed = manifests.listed(self._directory)
        try:
            newest = max(listed)
            file = torn(listed[newest], newest, self._directory)
        except (OSError, ValueError):
            return ""
        if file is None:
            return ""
        return (
            f"; {str(file)!r} is not whole: without '{listed[newest]}' the version before it counts, "
            "and what this one brought is lost"
        )

    def _is_without_rows(self, versions: Iterable[Path]) -> bool:
        """Whether surely no version ever had a row, so that there is nothing to lose."""
        if self._ref or (self._table / "tree").exists() or any(self._table.glob("data/*")):
            return False
        return not any(names_rows(manifest, self._table) for manifest in versions)


def _drop(manifests: Iterable[Path]) -> None:
    for manifest in manifests:
        manifest.unlink(missing_ok=True)


def _is_json(file: Path) -> bool:
    try:
        return isinstance(json.loads(file.read_bytes()), dict)
    except ValueError:
        return False
    except FileNotFoundError:
        return True  # There is no such ref.

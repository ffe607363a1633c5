"""A store as a whole, with its versions and tags, in another directory."""

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from lance_context_core._checks import shown
from lance_context_core._progress import check_progress, tell
from lance_context_core.engine.journal.file import NAME as JOURNAL
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError, NotFoundError
from lance_context_core.records import Progress
from lance_context_core.upkeep.claims import UPKEEP_TABLE
from lance_context_core.versioning import branches
from lance_context_core.versioning.places import Whole

_AT_ONCE = 256
"""So many files are copied between two times that somebody is told of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What was copied."""

    files: int
    bytes: int


async def copy(
    whole: Whole,
    destination: str | os.PathLike[str],
    *,
    progress: Callable[[Progress], object] | None,
) -> Copied:
    """What `ContextStore.copy` returns."""
    check_progress(progress)
    whole.require("copy")
    source = Path(whole.resources.database.uri)
    if not source.is_absolute() or "://" in os.fspath(destination):
        raise InvalidRequestError(
            f"cannot copy {shown(str(source))} to {shown(os.fspath(destination))}: both have to be "
            "directories; export() writes what a store holds, and import_() reads it in anywhere"
        )
    goal = await asyncio.to_thread(Path(destination).absolute)
    if await asyncio.to_thread(goal.exists):
        raise AlreadyExistsError(f"{str(goal)!r} is there already: choose another name")
    if goal.is_relative_to(source):
        raise InvalidRequestError(f"{str(goal)!r} is inside of the store: choose another place")
    tables = await whole.tables()
    if not tables:
        raise NotFoundError(f"there is no store at {str(source)!r}: nothing to copy")
    if there := [one.name for one in await branches.listed(whole)]:
        raise InvalidRequestError(
            f"the store has the branches {there}, whose files name the place where they are: "
            "merge or delete them first, or export() what each shows"
        )
    part = goal.with_name(f"{goal.name}.part-{os.getpid()}")
    journal = whole.main().resources.writable().connection.journal
    async with AsyncExitStack() as held:
        held.push_async_callback(asyncio.to_thread, shutil.rmtree, part, ignore_errors=True)
        await held.enter_async_context(whole.resources.upkeep.hold(tables))
        await whole.resources.settle()
        if journal is not None and await journal.exists():
            # Nobody commits to a table meanwhile; what comes into the journal is of the tables' versions.
            await held.enter_async_context(journal.alone())
            await asyncio.to_thread(part.mkdir, parents=True)
            await journal.ask(lambda one: one.execute("VACUUM INTO ?", [str(part / JOURNAL)]))
        files = await asyncio.to_thread(_files, source)
        done = 0
        for start in range(0, len(files), _AT_ONCE):
            some = files[start : start + _AT_ONCE]
            done += await asyncio.to_thread(_copy, source, part, some)
            now = Progress(n_done=start + len(some), n_total=len(files), what="files")
            await tell(progress, now)
        await asyncio.to_thread(part.rename, goal)
    return Copied(files=len(files), bytes=done)


def _files(source: Path) -> list[Path]:
    """The files of the tables, without the claims of those who maintain this place, as copying does.

    The journal is not copied as it is, while others may write to it.
    """
    claims = source / f"{UPKEEP_TABLE}.lance"
    return sorted(
        one
        for one in source.glob("*.lance/**/*")
        if one.is_file() and not one.is_relative_to(claims)
    )


def _copy(source: Path, part: Path, files: list[Path]) -> int:
    """Copy some; returns how many bytes they have."""
    n_bytes = 0
    for file in files:
        goal = part / file.relative_to(source)
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, goal)
        n_bytes += goal.stat().st_size
    return n_bytes

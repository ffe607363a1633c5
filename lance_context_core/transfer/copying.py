"""Copies a whole store, with its versions, tags and branches, to another location."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

from lance_context_core._progress import check_progress, tell
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.retry import Attempts
from lance_context_core._util.workers import Workers
from lance_context_core.errors import AlreadyExistsError, InvalidRequestError, NotFoundError
from lance_context_core.maintenance.leases import UPKEEP_TABLE
from lance_context_core.storage.lance import relocation
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.locations import Directory, Files, copied, files_at, read
from lance_context_core.storage.wal.journal import Journal
from lance_context_core.types import Progress
from lance_context_core.versioning.locations import Whole, turn

T = TypeVar("T")

_AT_ONCE = 64
"""How many files are copied between two progress reports."""

_THREADS = 8
"""Parallel requests: an object store answers slowly."""


@frozen_by_name
class Copied:
    """The result of a copy."""

    files: int
    bytes: int


async def copy(
    whole: Whole,
    destination: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None,
    progress: Callable[[Progress], object] | None,
) -> Copied:
    """See `ContextStore.copy`."""
    check_progress(progress)
    whole.require("copy")
    connection = whole.main().resources.writable().connection
    source = files_at(connection.uri, connection.storage_options)
    options = connection.storage_options if storage_options is None else storage_options
    goal = files_at(destination, options)
    if Path(goal.uri).is_relative_to(source.uri):
        raise InvalidRequestError(f"{goal.uri!r} is inside of the store: choose another place")
    if await _to_its_end(goal, goal.is_there):
        raise AlreadyExistsError(f"{goal.uri!r} already exists: choose another name")
    tables = await whole.tables()
    if not tables:
        raise NotFoundError(f"no store at {source.uri!r}: nothing to copy")
    async with AsyncExitStack() as held:
        held.push_async_callback(asyncio.to_thread, goal.discard)
        await held.enter_async_context(turn(connection))  # A branch is created in several tables.
        await held.enter_async_context(whole.resources.upkeep.hold(tables))
        await _to_its_end(goal, goal.begin)
        await _with_journal(whole, connection.journal, goal, held)
        return await _files(source, goal, progress)


async def _with_journal(
    whole: Whole, journal: Journal | None, goal: Files, held: AsyncExitStack
) -> None:
    """Blocks commits to tables for as long as `held` is, and copies the write-ahead log.

    Where it cannot be copied, as to an object store or from a server, once it is empty.
    """
    await whole.resources.settle()
    if journal is None or not await journal.exists():
        return
    if isinstance(goal, Directory) and journal.log.is_quick:
        await held.enter_async_context(journal.alone())
        # Entries of the log belong to the tables' versions.
        await journal.copy_to(Path(goal.root))
        return
    attempts = Attempts("others kept writing small things to the store")
    while True:
        attempts.begin()
        async with AsyncExitStack() as alone:
            await alone.enter_async_context(journal.alone())
            if not await journal.parts():
                held.push_async_exit(alone.pop_all())
                return
        await whole.resources.settle()


async def _files(
    source: Files, goal: Files, progress: Callable[[Progress], object] | None
) -> Copied:
    sizes = await _to_its_end(goal, partial(_listed, source))
    names = list(sizes)
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        await _to_its_end(goal, partial(_copy, source, goal, some))
        now = Progress(n_done=start + len(some), n_total=len(names), what="files")
        await tell(progress, now)
    if isinstance(goal, Directory):
        goal.write(relocation.NAME, os.fsencode(goal.uri))
    await _to_its_end(goal, goal.finish)
    return Copied(files=len(names), bytes=sum(sizes.values()))


async def _to_its_end(goal: Files, work: Callable[[], T]) -> T:
    """Returns the result of `work`, in a thread; a cancelled caller waits for its end."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        with translated(f"copy to {goal.uri!r}"):
            return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _listed(source: Files) -> dict[str, int]:
    """Returns the files of the tables with their sizes, without this location's maintenance claims.

    The write-ahead log is not copied directly, since others may write to it meanwhile.
    """
    claims = f"{UPKEEP_TABLE}.lance/"
    return {
        name: size for name, size in sorted(source.listed().items()) if not name.startswith(claims)
    }


def _copy(source: Files, goal: Files, names: Sequence[str]) -> None:
    with Workers(_THREADS, "lance-context-copy") as pool:
        for _ in pool.map(partial(_copy_one, source, goal), names):
            pass


def _copy_one(source: Files, goal: Files, name: str) -> None:
    """Copies a file; adapts one of a branch to the new location of the files that it names."""
    if relocation.may_name_places(name):
        goal.write(name, relocation.at_place(name, read(source, name), goal.uri))
    else:
        copied(source, goal, name)

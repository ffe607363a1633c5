"""Imports the histories of coding agents: each file from where the last import ended."""

import asyncio
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path

from lance_context_core._progress import tell
from lance_context_core.errors import NotFoundError
from lance_context_core.storage import sql
from lance_context_core.stores.history import AsyncHistory
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.stores.records.scoped import Records
from lance_context_core.transfer.coding_agents import (
    CodingAgent,
    Reading,
    Turn,
    default_folder,
    files_of,
    turns_of,
)
from lance_context_core.transfer.conversations import Imported, Telling
from lance_context_core.types import Progress
from lance_context_core.types.records import Item

PLACES = "coding-agents"
"""The items that tell how much of each file was imported."""

_AT_ONCE = 500
"""The most turns of one commit."""


async def import_histories(
    records: Records,
    places: AsyncKeyValues,
    agent: CodingAgent,
    source: Path | None,
    *,
    project: Path | None,
    progress: Telling | None,
) -> Imported:
    """Import the conversations of a file, or of all files below a folder; see `import_`.

    What an earlier import has read of a file is passed over, so that what was erased stays erased.
    """
    folder = default_folder(agent) if source is None else source
    if not await asyncio.to_thread(folder.exists):
        raise NotFoundError(f"{str(folder)!r} does not exist: pass the folder of {agent}'s history")
    if project is not None:
        project = await asyncio.to_thread(project.absolute)
    total, n_there, n_done = Reading(), 0, 0
    history = AsyncHistory(records)
    own = records.own(sql.equals("kind", "message"), sql.equals("agent_id", agent))
    before = await records.table.count(own)
    for path in await asyncio.to_thread(files_of, agent, folder):
        n_read, last = await _place(places, agent, path)
        reading = Reading()
        turns = turns_of(agent, path, reading)
        n_passed, is_known = await asyncio.to_thread(_pass, turns, n_read, last)
        if not is_known:
            # The file was written anew; what the store has of it is left unchanged.
            turns, n_passed = turns_of(agent, path, reading), 0
        reading.left_out.clear()
        reading.faults.clear()
        n_there += n_passed
        while batch := await asyncio.to_thread(_some, turns):
            for session, some in groupby(_within(batch, project), lambda one: one.session_id):
                messages = {one.message.id: one.message for one in some}
                await history.append_many(
                    agent, [*messages.values()], session_id=session, keep_existing=True
                )
                n_done += len(messages)
            n_passed += len(batch)
            if project is None:
                await places.put([_read(agent, path, n_passed, batch[-1])])
            await tell(progress, Progress(n_done=n_done, what="messages", name=str(path)))
        total.add(reading)
    added = await records.table.count(own) - before
    return Imported(
        {"messages": added},
        {"messages": n_there + max(n_done - added, 0)},
        left_out={key: n for key, n in sorted(total.left_out.items()) if n},
        faults=tuple(total.faults),
    )


def _some(turns: Iterator[Turn]) -> list[Turn]:
    return [*islice(turns, _AT_ONCE)]


def _within(turns: list[Turn], project: Path | None) -> Iterator[Turn]:
    for one in turns:
        if project is None or (
            one.project is not None and Path(one.project).is_relative_to(project)
        ):
            yield one


def _pass(turns: Iterator[Turn], n_read: int, last: str | None) -> tuple[int, bool]:
    """Pass over turns that were read before; returns how many, and whether the last one is that one."""
    n_passed, id = 0, None
    for one in islice(turns, n_read):
        n_passed, id = n_passed + 1, one.message.id
    return n_passed, (n_passed, id) == (n_read, last)


def _key(agent: str, path: Path) -> tuple[tuple[str, ...], str]:
    return (agent,), f"{path.parent.name}/{path.name}"


async def _place(places: AsyncKeyValues, agent: str, path: Path) -> tuple[int, str | None]:
    (item,) = await places.get([_key(agent, path)])
    if item is None or item.value is None:
        return 0, None
    return int(item.value["turns"]), item.value["last"]


def _read(agent: str, path: Path, n_turns: int, last: Turn) -> Item:
    namespace, key = _key(agent, path)
    value = {"turns": n_turns, "last": last.message.id, "session": last.session_id}
    return Item(namespace=namespace, key=key, value=value)

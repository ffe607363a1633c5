"""What the store's side does for the figures about maintenance, branches, diffs and memory."""

import asyncio
import random
from typing import Any

from benchmarks.sides.measuring import peak_bytes, timed_async
from benchmarks.sides.opened import RUNNER, STORES, opened
from benchmarks.sides.protocol import Handler

_CONTEXT = "upkeep"
"""A context of its own: what the other figures read does not change."""


def idle_reads(*, ids: list[str]) -> list[float]:
    """The seconds of each look-up by external id, one after the other."""

    async def run() -> list[float]:
        return [await _get(one) for one in ids]

    return RUNNER.run(run())


def reads_in_maintenance(
    *, ids: list[str], appends: int, batch: int, only_due: bool
) -> list[float]:
    """Append one by one, and a batch, then look up while `maintain()` runs: the seconds of each."""

    async def run() -> list[float]:
        store = STORES["records"]
        context = store.context(_CONTEXT)
        for number in range(appends):
            await context.add("user", f"fragment {number}")
        if batch:
            await context.add_many([{"role": "user", "content": f"row {n}"} for n in range(batch)])
        work = asyncio.ensure_future(store.maintain(only_due=only_due))
        seconds: list[float] = []
        while not work.done():
            seconds.append(await _get(ids[len(seconds) % len(ids)]))
        await work
        return seconds

    return RUNNER.run(run())


def branch(*, name: str) -> dict[str, float]:
    """The seconds that a branch takes, and those of the append of one row after it."""

    async def run() -> dict[str, float]:
        store = STORES["records"]
        made, _ = await timed_async(store.create_branch(name))
        added, _ = await timed_async(store.context(_CONTEXT).add("user", name))
        await store.delete_branch(name)
        return {"branch": made, "append": added}

    return RUNNER.run(run())


def change(*, records: int) -> list[int]:
    """Two versions that lie as many records apart, half of them new, half of them changed."""

    async def run() -> list[int]:
        store = STORES["records"]
        context = store.context(_CONTEXT)
        half = records // 2
        rows = [{"role": "user", "content": f"{n}", "external_id": f"c{n}"} for n in range(half)]
        await context.add_many(rows)
        before = await store.version()
        await context.upsert_many([{**row, "content": "changed"} for row in rows])
        new = [{"role": "user", "content": f"new {n}"} for n in range(records - half)]
        await context.add_many(new)
        return [before, await store.version()]

    return RUNNER.run(run())


def diff(*, before: int, after: int) -> dict[str, Any]:
    """The seconds of one diff, and how many records differ."""

    async def run() -> dict[str, Any]:
        seconds, found = await timed_async(STORES["records"].diff(before, after))
        n_found = sum(len(group) for group in (found.added, found.changed, found.removed))
        return {"seconds": seconds, "records": n_found}

    return RUNNER.run(run())


def write_small(*, uri: str, rows: int, batch: int) -> float:
    """Write as many small records in batches; returns the peak of the process's memory in GiB."""

    async def run() -> None:
        context = (await opened(uri, uri)).context()
        for start in range(0, rows, batch):
            await context.add_many(
                {"role": "user", "content": f"note {number}", "session_id": f"s{number % 1_000}"}
                for number in range(start, min(start + batch, rows))
            )

    RUNNER.run(run())
    return peak_bytes() / 2**30


def read_small(*, uri: str, batch: int) -> dict[str, float]:
    """Read all records in order; returns how many, and the peak of the process's memory in GiB."""

    async def run() -> int:
        count = 0
        async for _ in (await opened(uri, uri)).context().scan(batch_size=batch):
            count += 1
        return count

    count = RUNNER.run(run())
    return {"records": count, "gib": peak_bytes() / 2**30}


async def _get(external_id: str) -> float:
    seconds, found = await timed_async(
        STORES["records"].context("default").get(external_id=external_id)
    )
    assert found is not None
    # Others get their turn, as they do where a reader has something else to do between two reads.
    await asyncio.sleep(random.random() / 1_000)
    return seconds


OPERATIONS: dict[str, Handler] = {
    "idle_reads": idle_reads,
    "reads_in_maintenance": reads_in_maintenance,
    "branch": branch,
    "change": change,
    "diff": diff,
    "write_small": write_small,
    "read_small": read_small,
}

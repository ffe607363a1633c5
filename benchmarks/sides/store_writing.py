"""What the store's side does for the figures about writing."""

import asyncio
from typing import Any

from benchmarks.sides.measuring import bytes_in, timed_async
from benchmarks.sides.opened import RUNNER, STORES, LaterClock, opened, settle, turns
from benchmarks.sides.protocol import Handler
from lance_context_core import AsyncContextStore, Message


def append(
    *, uri: str, corpus: str, start: int, count: int, options: dict[str, Any] | None = None
) -> list[float]:
    """Add turns one after the other, each a call of its own; returns the seconds of each."""
    rows = turns(corpus, start, count)

    async def run() -> list[float]:
        store = await opened(uri, uri, **(options or {}))
        return [(await timed_async(store.context().add(**row)))[0] for row in rows]

    return RUNNER.run(run())


def bulk(*, uri: str, corpus: str, rows: int) -> None:
    """Write the first `rows` turns in one call."""

    async def run() -> None:
        await (await opened(uri, uri)).context().add_many(turns(corpus, 0, rows))

    RUNNER.run(run())


def settled_bytes(*, uri: str, days: float) -> dict[str, Any]:
    """What a store holds on the disk: now, and with maintenance done when `days` have passed."""

    async def run() -> dict[str, Any]:
        if uri in STORES:
            await STORES.pop(uri).close()
        before = bytes_in(uri)
        store = AsyncContextStore.open(uri, clock=LaterClock(days))
        await settle(store, uri)
        versions = len(await store.versions())
        await store.close()
        return {"before": before, "after": bytes_in(uri), "versions": versions}

    return RUNNER.run(run())


def one_by_one(*, uri: str, count: int, given_ids: bool, start: int) -> float:
    """The seconds that one task needs for `count` messages, one after the other."""

    async def run() -> float:
        store = await opened(uri, uri)

        async def write() -> None:
            for number in range(start, start + count):
                await _say(store, number, given_ids=given_ids)

        return (await timed_async(write()))[0]

    return RUNNER.run(run())


def at_once(*, uri: str, count: int, given_ids: bool, start: int) -> float:
    """The seconds that `count` tasks need for a message each."""

    async def run() -> float:
        store = await opened(uri, uri)
        said = [_say(store, number, given_ids=given_ids) for number in range(start, start + count)]
        return (await timed_async(asyncio.gather(*said)))[0]

    return RUNNER.run(run())


async def _say(store: AsyncContextStore, number: int, *, given_ids: bool) -> None:
    message = Message.user(f"turn {number}", id=f"m{number}" if given_ids else None)
    await store.history.append("bench", message, session_id=f"s{number % 10}")


OPERATIONS: dict[str, Handler] = {
    "append": append,
    "bulk": bulk,
    "settled_bytes": settled_bytes,
    "one_by_one": one_by_one,
    "at_once": at_once,
}

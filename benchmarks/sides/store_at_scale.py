"""What is done to a store at one size, in processes of its own; times in seconds, sizes in bytes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.scale.records import (
    AGENT,
    BATCH,
    MESSAGES_A_SESSION,
    Made,
    Questions,
    session_id,
)
from benchmarks.sides.measuring import bytes_in, peak_bytes, timed_async
from benchmarks.sides.opened import LaterClock
from benchmarks.sides.protocol import serve
from lance_context_core import AsyncContextStore

_LIMIT = 10
_LAST = 50
_WARM_UP = 20
"""Questions of each kind that are asked before those that are timed."""
_SCANNED_AT_ONCE = 1_000
_MONTH_DAYS = 31

_RUNNER = asyncio.Runner()

Ask = Callable[[AsyncContextStore, Questions, int], Awaitable[Any]]
"""Asks the question of that number."""


def add(*, uri: str, rows: int) -> dict[str, float]:
    """Add the records in batches. Making them is not timed."""

    async def run() -> float:
        seconds = 0.0
        async with AsyncContextStore.open(uri) as store:
            for batch in Made().batches(rows):
                seconds += (await timed_async(store.context().add_many(batch)))[0]
        return seconds

    return {"seconds": _RUNNER.run(run()), "peak": peak_bytes()}


def maintain(*, uri: str) -> dict[str, float]:
    """Have the store do all that can be done: merge fragments, build the indexes that pay."""

    async def run() -> float:
        async with AsyncContextStore.open(uri) as store:
            return (await timed_async(store.maintain()))[0]

    return {"seconds": _RUNNER.run(run()), "peak": peak_bytes(), "bytes": bytes_in(uri)}


def ask(*, uri: str, rows: int) -> dict[str, Any]:
    """Ask every kind of question; the seconds of each answer, and what was found by vector."""
    made = Made()
    questions = made.questions()
    kinds = _kinds(rows)

    async def run() -> dict[str, Any]:
        seconds: dict[str, list[float]] = {}
        found: dict[str, list[list[str]]] = {}
        async with AsyncContextStore.open(uri) as store:
            for kind, question in kinds.items():
                for number in range(_WARM_UP):
                    await question(store, questions, number)
                answers = [
                    await timed_async(question(store, questions, number))
                    for number in range(len(questions.texts))
                ]
                seconds[kind] = [one for one, _ in answers]
                if kind.startswith("vector"):
                    found[kind] = [[hit["external_id"] for hit in hits] for _, hits in answers]
        return {"seconds": seconds, "found": found}

    return _RUNNER.run(run()) | {"peak": peak_bytes()}


def append(*, uri: str, rows: int, turns: int, has_ids: bool) -> list[float]:
    """Append turns of two messages to a session, each turn a call of its own."""
    said = [one | {"session_id": f"new, {has_ids}"} for one in Made().batch(rows // BATCH)]
    for one in said:
        if not has_ids:
            del one["external_id"]

    async def run() -> list[float]:
        async with AsyncContextStore.open(uri) as store:
            return [
                (await timed_async(store.context().add_many(said[start : start + 2])))[0]
                for start in range(0, 2 * turns, 2)
            ]

    return _RUNNER.run(run())


def first(*, uri: str, rows: int, kind: str) -> float:
    """Open the store and ask one question; the seconds of both, in a process that is new to it."""
    questions, question = Made().questions(), _kinds(rows)[kind]

    async def run() -> None:
        async with AsyncContextStore.open(uri) as store:
            await question(store, questions, 0)

    began = time.perf_counter()
    _RUNNER.run(run())
    return time.perf_counter() - began


def read_all(*, uri: str, rows: int) -> dict[str, float]:
    """Read every record, in order."""

    async def run() -> int:
        count = 0
        async with AsyncContextStore.open(uri) as store:
            async for _ in store.context().scan(batch_size=_SCANNED_AT_ONCE):
                count += 1
        return count

    began = time.perf_counter()
    count = _RUNNER.run(run())
    seconds = time.perf_counter() - began
    assert count == rows
    return {"seconds": seconds, "peak": peak_bytes()}


def settle(*, uri: str) -> int:
    """What the store holds on the disk once its older versions may go: a month later."""

    async def run() -> None:
        async with AsyncContextStore.open(uri, clock=LaterClock(_MONTH_DAYS)) as store:
            await store.maintain()
            await store.thin()

    _RUNNER.run(run())
    return bytes_in(uri)


# Helpers


def _kinds(rows: int) -> dict[str, Ask]:
    """Every kind of question, by name."""
    n_sessions = rows // MESSAGES_A_SESSION

    def nearest(filters: Callable[[Questions, int], dict[str, Any]] | None = None) -> Ask:
        async def search(store: AsyncContextStore, asked: Questions, number: int) -> Any:
            return await store.context().search(
                asked.vectors[number],
                _LIMIT,
                filters and filters(asked, number),
                include_embedding=False,
            )

        return search

    return {
        "history": lambda store, _, number: store.history.get_messages(
            AGENT, session_id=session_id(number * 7919 % n_sessions), last=_LAST
        ),
        "get": lambda store, _, number: store.context().get(
            external_id=f"x{number * 104_729 % rows}"
        ),
        "vector": nearest(),
        "vector, 1 % by user": nearest(lambda q, n: {"user_id": f"u{q.values['1 %'][n]}"}),
        "vector, 1 % by metadata": nearest(lambda q, n: {"topic": q.values["1 %"][n]}),
        "vector, 50 % by role": nearest(
            lambda q, n: {"role": ("user", "assistant")[q.values["50 %"][n]]}
        ),
        "vector, 50 % by metadata": nearest(lambda q, n: {"channel": q.values["50 %"][n]}),
        "words": lambda store, asked, number: store.search(
            asked.texts[number], mode="text", limit=_LIMIT
        ),
        "hybrid": lambda store, asked, number: store.search(
            asked.texts[number], vector=asked.vectors[number], limit=_LIMIT
        ),
    }


if __name__ == "__main__":
    serve(
        {
            "add": add,
            "maintain": maintain,
            "ask": ask,
            "append": append,
            "first": first,
            "read_all": read_all,
            "settle": settle,
        }
    )

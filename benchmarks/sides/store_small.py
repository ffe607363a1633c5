"""What small writes cost in a store that holds much, and what those cost that come right after them."""

import itertools
import time
from functools import partial
from typing import Any

import lancedb

from benchmarks.sides.measuring import bytes_in, clock, collecting, timed, timed_async, watched
from benchmarks.sides.opened import RUNNER, STORES, opened, turns
from benchmarks.sides.protocol import Handler
from lance_context_core import AsyncContextStore, Message
from lance_context_core.embedders import LocalEmbedder

_AGENT = "bench"
_LOCAL = LocalEmbedder()
_NUMBERS = itertools.count()


def turn(*, has_id: bool, count: int) -> list[float]:
    """The seconds of each of so many appends to one of fifty sessions."""

    async def run() -> list[float]:
        history = STORES["records"].history
        seconds = []
        for number in itertools.islice(_NUMBERS, count):
            said = Message.user(f"turn {number}", id=f"turn-{number}" if has_id else None)
            took, _ = await timed_async(
                history.append(_AGENT, said, session_id=f"small-{number % 50}")
            )
            seconds.append(took)
        return seconds

    return RUNNER.run(run())


def added(*, uri: str, count: int) -> list[float]:
    """The seconds of each of so many adds of a row of three columns to a table of LanceDB."""

    async def run() -> list[float]:
        database = await lancedb.connect_async(uri)
        numbers = list(itertools.islice(_NUMBERS, count))
        rows = [{"session": f"s{n % 50}", "id": f"turn-{n}", "text": f"turn {n}"} for n in numbers]
        table = await database.create_table("turns", rows[:1], exist_ok=True)
        return [(await timed_async(table.add([row])))[0] for row in rows]

    return RUNNER.run(run())


def embedded(*, uri: str, count: int) -> dict[str, list[float]]:
    """The seconds of turns that the local embedder embeds, and of embedding the same texts alone."""

    async def run() -> dict[str, list[float]]:
        history = (await opened(uri, uri, embedder=_LOCAL)).history
        seconds: dict[str, list[float]] = {"embedded": [], "embedding": []}
        for number in itertools.islice(_NUMBERS, count):
            text = f"turn {number}: we spoke of the garden, and of rose {number % 89}"
            said = history.append(_AGENT, Message.user(text), session_id=f"small-{number % 50}")
            seconds["embedded"].append((await timed_async(said))[0])
            alone, _ = timed(partial(_LOCAL.embed_documents, [text]))
            seconds["embedding"].append(alone)
        return seconds

    return RUNNER.run(run())


def turns_and_searches(
    *, uri: str, corpus: str, start: int, count: int, every: int
) -> dict[str, Any]:
    """The seconds of turns with vectors, of a search among all after `every` of them, and of it all."""
    rows = turns(corpus, start, count)

    async def run() -> dict[str, Any]:
        store = await opened(uri, uri)
        began = clock()
        seconds: dict[str, list[float]] = {"turn": [], "search": []}
        for number, row in enumerate(rows, start=start + 1):
            seconds["turn"].append((await timed_async(store.context().add(**row)))[0])
            if number % every == 0:
                asked = store.search(row["content"], vector=row["embedding"], limit=10)
                took, found = await timed_async(asked)
                assert found
                seconds["search"].append(took)
        return {**seconds, "all": clock() - began}

    return RUNNER.run(run())


def disk(*, uri: str) -> int:
    """The bytes of a store once it is closed."""
    RUNNER.run(STORES.pop(uri).close())
    return bytes_in(uri)


def just_written(*, count: int) -> dict[str, list[float]]:
    """The seconds of reading what was written a moment ago: by its id, and as the end of its session."""

    async def run() -> dict[str, list[float]]:
        store = STORES["records"]
        seconds: dict[str, list[float]] = {"by_id": [], "last": []}
        for number in itertools.islice(_NUMBERS, count):
            id = await store.history.append(
                _AGENT, Message.user(f"turn {number}"), session_id="small-new"
            )
            took, found = await timed_async(store.context("default").get(id=id))
            assert found is not None
            seconds["by_id"].append(took)
            took, last = await timed_async(
                store.history.get_messages(_AGENT, session_id="small-new", last=1)
            )
            assert last[0].id == id
            seconds["last"].append(took)
        return seconds

    return RUNNER.run(run())


def search_after_write(*, text: str, vector: list[float], limit: int) -> dict[str, float]:
    """The seconds of a search right after a write, and of the same once more."""

    async def run() -> dict[str, float]:
        store: AsyncContextStore = STORES["records"]
        await store.history.append(
            _AGENT, Message.user(f"turn {next(_NUMBERS)}"), session_id="small-s"
        )
        work: Any = store.search(text, vector=vector, limit=limit)
        after, _ = await timed_async(work)
        again, _ = await timed_async(store.search(text, vector=vector, limit=limit))
        return {"after": after, "again": again}

    return RUNNER.run(run())


def stall_of_turns(*, seconds: float) -> dict[str, float]:
    """The longest time for which appends without a pause held up their event loop.

    Without Python's longest garbage collection, which is reported separately.
    """

    async def run() -> float:
        history = STORES["records"].history
        async with watched() as lateness:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                number = next(_NUMBERS)
                said = Message.user(f"turn {number}")
                await history.append(_AGENT, said, session_id=f"small-{number % 50}")
        return max(lateness)

    return {"stall": RUNNER.run(run()), "collecting": collecting.longest}


OPERATIONS: dict[str, Handler] = {
    "turn": turn,
    "added": added,
    "embedded": embedded,
    "turns_and_searches": turns_and_searches,
    "disk": disk,
    "just_written": just_written,
    "search_after_write": search_after_write,
    "stall_of_turns": stall_of_turns,
}

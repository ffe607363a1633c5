"""What small writes cost in a store that holds much, and what those cost that come right after them."""

import itertools
import time
from typing import Any

from benchmarks.sides.measuring import timed_async, watched
from benchmarks.sides.opened import RUNNER, STORES
from benchmarks.sides.protocol import Handler
from lance_context_core import AsyncContextStore, Message

_AGENT = "bench"
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


def stall_of_turns(*, seconds: float) -> float:
    """The longest time for which appends without a pause held up their event loop."""

    async def run() -> float:
        history = STORES["records"].history
        async with watched() as lateness:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                number = next(_NUMBERS)
                said = Message.user(f"turn {number}")
                await history.append(_AGENT, said, session_id=f"small-{number % 50}")
        return max(lateness)

    return RUNNER.run(run())


OPERATIONS: dict[str, Handler] = {
    "turn": turn,
    "just_written": just_written,
    "search_after_write": search_after_write,
    "stall_of_turns": stall_of_turns,
}

"""Cost of a window of a long session, beyond the search in it.

    python -m benchmarks.windows.assembling [--turns 100000] [--repeats 30] [--place FOLDER]

Medians, with the local embedder and a budget of 8,000 tokens: milliseconds of CPU of all threads, and of
the clock. Before each window two more turns are said; the first windows of a process are told apart. With
`--place` the session is kept in that folder, and found there by the next run.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any

from lance_context_core import AsyncContextStore, Message
from lance_context_core.window import HistorySection, RecallSection, SystemSection

_WORDS = [
    f"{stem}{end}"
    for stem in ("river", "stone", "garden", "coffee", "travel", "doctor", "winter", "letter")
    for end in ("", "s", "ing", "er", "side", "house")
]
_LENGTH = 20
_AT_ONCE = 2_000
_BUDGET = 8_000


Cost = tuple[float, float]
"""Milliseconds of CPU, and of the clock."""


async def measured(place: str, turns: int, repeats: int) -> dict[str, Cost]:
    """The medians, by what was asked."""
    draw = random.Random(0)
    found: dict[str, list[Cost]] = {}

    async def cost(what: str, call: Callable[[], Awaitable[Any]]) -> None:
        cpu, clock = time.process_time(), time.perf_counter()
        await call()
        taken = (time.process_time() - cpu) * 1_000, (time.perf_counter() - clock) * 1_000
        found.setdefault(what, []).append(taken)

    def said(n: int) -> Message:
        return Message.of(("user", "assistant")[n % 2], " ".join(draw.choices(_WORDS, k=_LENGTH)))

    async with AsyncContextStore.open(place, embedder="local", maintenance=None) as store:
        n_there = await store.history.count("", session_id="s")
        for first in range(n_there, turns, _AT_ONCE):
            some = [said(n) for n in range(first, min(first + _AT_ONCE, turns))]
            await store.history.append_many("", some, session_id="s")
        if n_there < turns:
            await store.maintain()
        # The embedder is read, and the table opened, before anything is measured.
        await store.search("what of the river", limit=40)
        given: Any = {"session_id": "s", "budget": _BUDGET}
        for number in range(repeats):
            asked = f"what of the {' '.join(draw.choices(_WORDS, k=3))} {number}"
            whole = [SystemSection(text="You help."), HistorySection(), RecallSection()]

            def window(asked: str = asked, whole: Any = whole) -> Awaitable[Any]:
                return store.assemble(query=asked, sections=whole, **given)

            def search(asked: str = asked) -> Awaitable[Any]:
                return store.search(asked, limit=40)

            await store.history.append_many("", [said(0), said(1)], session_id="s")
            which = "" if number else ", the first"
            await cost(f"a window of history{which}", lambda: store.assemble(**given))
            await cost(f"a search for as many hits{which}", search)
            await cost(f"a window of history and recall{which}", window)
    return {
        what: (median(cpu for cpu, _ in costs), median(clock for _, clock in costs))
        for what, costs in found.items()
    }


async def main(arguments: Sequence[str]) -> None:
    """Print the table that `arguments` ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows.assembling")
    parser.description, parser.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--turns", type=int, default=100_000, help="turns of the session")
    parser.add_argument("--repeats", type=int, default=30, help="repetitions of each query")
    parser.add_argument("--place", help="a folder that keeps the session for another run")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="windows-") as place:
        found = await measured(options.place or place, options.turns, options.repeats)
    print(f"| {options.turns:,} turns | ms of CPU | ms |\n|---|---:|---:|")
    for what, (cpu, clock) in found.items():
        print(f"| {what} | {cpu:.1f} | {clock:.1f} |")
    *_, search, whole = found.values()
    cpu, clock = (one - other for one, other in zip(whole, search, strict=True))
    print(f"| a window beyond its search | {cpu:.1f} | {clock:.1f} |")
    print(f"load {os.getloadavg()[0]:.0f}", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

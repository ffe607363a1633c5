"""What a window of a long session costs beside the search that it has in it.

    python -m benchmarks.windows.assembling [--turns 100000] [--repeats 30]

Milliseconds of CPU of all threads, medians, with the local embedder and a budget of 8,000 tokens.
"""

import argparse
import asyncio
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


async def measured(place: str, turns: int, repeats: int) -> dict[str, float]:
    """The medians, by what was asked."""
    draw = random.Random(0)
    found: dict[str, list[float]] = {}

    async def cost(what: str, call: Callable[[], Awaitable[Any]]) -> None:
        start = time.process_time()
        await call()
        found.setdefault(what, []).append((time.process_time() - start) * 1_000)

    async with AsyncContextStore.open(place, embedder="local", maintenance=None) as store:
        for first in range(0, turns, _AT_ONCE):
            said = [
                Message.of(("user", "assistant")[n % 2], " ".join(draw.choices(_WORDS, k=_LENGTH)))
                for n in range(first, min(first + _AT_ONCE, turns))
            ]
            await store.history.append_many("", said, session_id="s")
        await store.maintain()
        given: Any = {"session_id": "s", "budget": _BUDGET}
        for number in range(repeats):
            asked = f"what of the {' '.join(draw.choices(_WORDS, k=3))} {number}"
            whole = [SystemSection(text="You help."), HistorySection(), RecallSection()]

            def window(asked: str = asked, whole: Any = whole) -> Awaitable[Any]:
                return store.assemble(query=asked, sections=whole, **given)

            def search(asked: str = asked) -> Awaitable[Any]:
                return store.search(asked, limit=40)

            await cost("a search for as many hits", search)
            await cost("a window of history", lambda: store.assemble(**given))
            await cost("a window of history and recall", window)
    return {what: median(ms) for what, ms in found.items()}


async def main(arguments: Sequence[str]) -> None:
    """Print the table that `arguments` ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows.assembling")
    parser.description, parser.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--turns", type=int, default=100_000, help="turns of the session")
    parser.add_argument("--repeats", type=int, default=30, help="how often each is asked")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="windows-") as place:
        found = await measured(place, options.turns, options.repeats)
    print(f"| {options.turns:,} turns | ms of CPU |\n|---|---:|")
    for what, ms in found.items():
        print(f"| {what} | {ms:.1f} |")
    search, *_, whole = found.values()
    print(f"| a window beyond its search | {whole - search:.1f} |")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

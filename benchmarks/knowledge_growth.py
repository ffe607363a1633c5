"""Cost of growing knowledge: an `add` late in a session, and a search vs. `store.search`.

    python -m benchmarks.knowledge_growth [--turns 2500] [--rounds 200]

CPU of all threads of the process, medians, through the public API, in a fresh directory, without a model.

- `add` of one turn to a session of no turns, of a fifth of them, and of all: the ratio to the first. The
  first adds after many turns are left out: they read into memory what the others have there.
- `knowledge.search`, chain, facts, and the chain with its evidence, vs. `store.search` of the same scope
  and limit: in five users' sessions of as many turns together, each with questions of its own, in an order
  that is drawn anew.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median

from lance_context_core import AsyncContextStore

_WORDS = "river stone garden coffee travel doctor winter letter market window".split()  # noqa: SIM905
_TOLD = ("I like the {} and the {}.", "The {} was near the {} on Monday.", "I live near {} {}.")
_NOT_WARM = 8
_USERS, _SESSIONS = 5, 5


async def spent(call: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of CPU of a call."""
    start = time.process_time_ns()
    await call()
    return (time.process_time_ns() - start) / 1e6


async def adding(store: AsyncContextStore, turns: int, rounds: int) -> dict[int, float]:
    """Milliseconds of an add, by how many turns its session has."""
    draw, numbers = random.Random(0), iter(range(10**9))

    def told() -> dict[str, str]:
        text = draw.choice(_TOLD).format(
            draw.choice(_WORDS), f"{draw.choice(_WORDS)} {next(numbers)}"
        )
        return {"role": "user", "content": text}

    async def add() -> None:
        await store.knowledge.add(told(), session_id="s", user_id="ada")

    found: dict[int, float] = {}
    n_told = 0
    for upto in (0, turns // 5, turns):
        if upto > n_told:
            many = [told() for _ in range(upto - n_told)]
            await store.knowledge.add(many, session_id="s", user_id="ada")
        ms = [await spent(add) for _ in range(_NOT_WARM + rounds)]
        found[upto] = median(ms[_NOT_WARM:])
        n_told = upto
    return found


async def searching(store: AsyncContextStore, turns: int, rounds: int) -> dict[str, float]:
    """Milliseconds of a search, by its name."""
    draw = random.Random(1)
    for number in range(_USERS * _SESSIONS):
        many = [
            {"role": "user" if n % 2 else "assistant", "content": _said(draw)}
            for n in range(turns // _USERS // _SESSIONS)
        ]
        await store.knowledge.add(many, session_id=f"s{number}", user_id=f"user-{number % _USERS}")
    ways: dict[str, Callable[[AsyncContextStore, str], Awaitable[object]]] = {
        "store.search": lambda view, query: view.search(query, limit=10),
        "chain": lambda view, query: view.knowledge.search(query),
        "facts": lambda view, query: view.knowledge.search(query, search_type="facts"),
        "chain with evidence": lambda view, query: view.knowledge.search(query, evidence=True),
    }
    ms: dict[str, list[float]] = {}
    for number in range(_USERS * _NOT_WARM + rounds):
        view = store.scope(user_id=f"user-{number % _USERS}")
        for name in draw.sample([*ways], len(ways)):
            one = await spent(partial(ways[name], view, _said(draw)))
            if number >= _USERS * _NOT_WARM:
                ms.setdefault(name, []).append(one)
    return {name: median(ms[name]) for name in ways}


def _said(draw: random.Random) -> str:
    words = draw.choice(_WORDS), f"{draw.choice(_WORDS)} {draw.randrange(200)}"
    return draw.choice((*_TOLD, "We talked about {} and {} for a while.")).format(*words)


async def measured(place: str, turns: int, rounds: int) -> None:
    """Measure, and print."""
    async with AsyncContextStore.open(place, maintenance=None, embedder="local") as store:
        adds = await adding(store, turns, rounds // 5)
        for n, one in adds.items():
            print(f"add at {n:>6,} turns     {one:6.2f} ms  {one / adds[0]:5.2f} x")
        searches = await searching(store, turns, rounds)
        for name, one in searches.items():
            print(f"{name:<20} {one:6.2f} ms  {one / searches['store.search']:5.2f} x")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=2_500)
    parser.add_argument(
        "--rounds", type=int, default=200, help="rounds of searches; a fifth as many of adds"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(measured(place, options.turns, options.rounds))


if __name__ == "__main__":
    main()

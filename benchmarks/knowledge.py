"""What knowledge costs: an `add` whose job waits, and a proposal over a large store.

    python -m benchmarks.knowledge [--turns 2000] [--records 100000] [--new 1000] [--later 1000]

CPU of all threads of the process, through the public API, in a fresh directory.

- `add(infer="later")` vs. `add(infer="never")` and `history.append`: milliseconds a turn, the median
  and the mean of turns that are told one way and then another, some at a time, in an order that is drawn
  anew. The mean has the folds in it, each of which falls to whoever comes by.
- `undo` of a job of 100 turns after so many later turns, each of which became knowledge: seconds.
- `distill()` without a model: seconds, where there are so many records (turns, the chunks and facts
  of them) and so many turns are new.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from statistics import mean, median

from lance_context_core import AsyncContextStore, Message

_ROUND = 10
_WORDS = "river stone garden coffee travel doctor winter letter market window".split()  # noqa: SIM905
_STATED = ("I love {}.", "I was in the {} on Monday.", "I have a {}.", "The {} is old.")
_SESSION = 200
_RECORDS_A_TURN = 2.7
"""Itself, its chunk, and of most a fact."""


def said(draw: random.Random, n: int) -> str:
    """What somebody says: some of it is a fact, each in words of its own."""
    return draw.choice(_STATED).format(f"{draw.choice(_WORDS)} {n}")


async def adding(place: str, turns: int) -> dict[str, list[float]]:
    """Milliseconds of CPU of each turn, by how it was added."""
    draw = random.Random(0)
    ms: dict[str, list[float]] = {}
    async with AsyncContextStore.open(place, maintenance=None) as store:

        async def append(text: str) -> None:
            await store.history.append("", Message.user(text), session_id="append")

        async def never(text: str) -> None:
            await store.knowledge.add(text, session_id="never", infer="never")

        async def later(text: str) -> None:
            await store.knowledge.add(text, session_id="later", infer="later")

        ways: dict[str, Callable[[str], Awaitable[None]]] = {
            "history.append": append,
            "add(infer='never')": never,
            "add(infer='later')": later,
        }
        for number in range(max(turns // _ROUND, 2)):
            for name in draw.sample([*ways], len(ways)):
                for text in [said(draw, n) for n in range(_ROUND)]:
                    start = time.process_time_ns()
                    await ways[name](text)
                    spent = (time.process_time_ns() - start) / 1e6
                    if number:  # The first of each meets what is not warm yet.
                        ms.setdefault(name, []).append(spent)
    return {name: ms[name] for name in ways}


async def proposing(place: str, records: int, new: int) -> tuple[float, float, int, int]:
    """Seconds of CPU and by the clock of a proposal, its facts, and over how many records."""
    draw = random.Random(1)
    told = int(records / _RECORDS_A_TURN)
    async with AsyncContextStore.open(place, maintenance=None) as store:
        numbers = range(told + new)
        for start in range(0, told, _SESSION):
            await _tell(store, draw, numbers[start : min(start + _SESSION, told)])
        if told:
            await store.knowledge.distill(apply="merge")
        for start in range(told, told + new, _SESSION):
            await _tell(store, draw, numbers[start : start + _SESSION])
        await store.maintain()
        tables = (await store.stats()).tables
        n_records = next(one.rows for one in tables if one.table == "records")
        began, start_cpu = time.perf_counter(), time.process_time()
        proposal = await store.knowledge.distill()
        cpu, wall = time.process_time() - start_cpu, time.perf_counter() - began
        assert proposal.report["turns"] == new
        return cpu, wall, proposal.report.get("add", 0), n_records


async def undoing(place: str, later: int) -> tuple[float, float, int]:
    """Seconds of CPU and by the clock of an undo, and how much it hid."""
    draw = random.Random(2)
    async with AsyncContextStore.open(place) as store:
        first = await store.knowledge.add(
            [said(draw, n) for n in range(100)], session_id="first", user_id="ada"
        )
        for n in range(100, 100 + later):
            await store.knowledge.add(said(draw, n), session_id=f"s{n % 20}", user_id="ada")
        assert first.job_id is not None
        began, start_cpu = time.perf_counter(), time.process_time()
        undone = await store.knowledge.undo(first.job_id)
        cpu, wall = time.process_time() - start_cpu, time.perf_counter() - began
        assert undone.retired
        assert not undone.conflicts
        return cpu, wall, len(undone.retired)


async def _tell(store: AsyncContextStore, draw: random.Random, numbers: range) -> None:
    """One more session of somebody."""
    turns = [Message.user(said(draw, n)) for n in numbers]
    await store.history.append_many("", turns, session_id=f"session-{numbers.start}")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=1_000)
    parser.add_argument("--later", type=int, default=1_000)
    options = parser.parse_args()
    if options.turns:
        with tempfile.TemporaryDirectory() as place:
            ms = asyncio.run(adding(place, options.turns))
        plain = ms["history.append"]
        for name, spent in ms.items():
            half, all_of_it = median(spent) / median(plain), mean(spent) / mean(plain)
            print(
                f"{name:<22} {median(spent):6.3f} ms  {half:5.3f} x, "
                f"{mean(spent):6.3f} ms  {all_of_it:5.3f} x with the folds"
            )
    if options.later:
        with tempfile.TemporaryDirectory() as place:
            cpu, wall, n = asyncio.run(undoing(place, options.later))
        print(
            f"undo() after {options.later:,} later turns: {cpu:.2f} s of CPU, {wall:.2f} s, {n} hidden"
        )
    if options.new:
        with tempfile.TemporaryDirectory() as place:
            cpu, wall, facts, n_records = asyncio.run(
                proposing(place, options.records, options.new)
            )
        print(
            f"distill() of {options.new:,} new turns over {n_records:,} records: "
            f"{cpu:.2f} s of CPU, {wall:.2f} s, {facts:,} facts"
        )


if __name__ == "__main__":
    main()

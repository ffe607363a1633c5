"""Sessions of the OpenAI Agents SDK beside its own on SQLite: `python -m benchmarks.openai_sessions [ROUNDS]`.

Needs `openai-agents-lance-context`. In turn, both do what a runner does in each turn of a conversation:
read the last 20 items of a session and append 2, in 8 sessions; then 100 sessions at once do so. Printed
are milliseconds by the clock and by the processor, and their ratio to those of SQLite: the median and the 95th
percentile of all calls, and the time of all 100 sessions.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from agents import SQLiteSession
from openai_agents_lance_context import LanceContextSession

from lance_context_core import AsyncContextStore

_SESSIONS, _AT_ONCE, _TURNS, _LAST = 8, 100, 10, 20
_ROUNDS = 3
_OURS, _SQLITE = "lance-context", "SQLiteSession"
_WORDS = "I moved to Oslo last May and I am allergic to nuts, so please mind what you suggest. "

Sessions = dict[str, list[Any]]
Measured = dict[tuple[str, str], list[float]]


def main(rounds: int) -> None:
    """Prints a row for each kind of call."""
    with tempfile.TemporaryDirectory() as folder:
        measured = asyncio.run(_measured(Path(folder), rounds))
    print(f"{'':<34}{'':>8}{_OURS:>15}{_SQLITE:>15}{'ratio':>8}")
    for what in dict.fromkeys(what for _, what in measured):
        for name, of in (("median", median), ("p95", _p95)):
            if name == "p95" and "at once" in what:
                continue
            ours, theirs = (of(measured[side, what]) for side in (_OURS, _SQLITE))
            print(f"{what:<34}{name:>8}{ours:>15.3f}{theirs:>15.3f}{ours / theirs:>8.2f}")


async def _measured(folder: Path, rounds: int) -> Measured:
    """Returns the milliseconds of each call, by side and kind."""
    measured: Measured = {}
    async with AsyncContextStore.open(folder / "memory") as store:
        for number in range(rounds + 1):
            few = _opened(store, folder / "few.db", number, _SESSIONS)
            many = _opened(store, folder / "many.db", number, _AT_ONCE)
            # The first round warms up.
            into: Measured = measured if number else {}
            for turn in range(_LAST):
                for at in range(_SESSIONS):
                    # Who begins changes from call to call.
                    for side in (_OURS, _SQLITE)[:: 1 if (turn + at) % 2 else -1]:
                        await _turn(few[side][at], side, turn, into)
            for side in (_OURS, _SQLITE)[:: 1 if number % 2 else -1]:
                await _all_at_once(many[side], side, into)
            for session in (*few[_SQLITE], *many[_SQLITE]):
                session.close()
    return measured


def _opened(store: AsyncContextStore, file: Path, number: int, n: int) -> Sessions:
    names = [f"{file.stem} {number} {at}" for at in range(n)]
    return {
        _OURS: [LanceContextSession(name, store) for name in names],
        _SQLITE: [SQLiteSession(name, file) for name in names],
    }


async def _turn(session: Any, side: str, turn: int, into: Measured) -> None:
    for what, call in (
        ("read the last 20", lambda: session.get_items(_LAST)),
        ("append 2", lambda: session.add_items(_said(turn))),
    ):
        for by, milliseconds in (await _taken(call)).items():
            into.setdefault((side, f"{what}, {by}"), []).append(milliseconds)


async def _all_at_once(sessions: Sequence[Any], side: str, into: Measured) -> None:
    async def talk(session: Any) -> None:
        for turn in range(_TURNS):
            await session.get_items(_LAST)
            await session.add_items(_said(turn))

    async def all_of_them() -> None:
        await asyncio.gather(*(talk(session) for session in sessions))

    for by, milliseconds in (await _taken(all_of_them)).items():
        into.setdefault((side, f"100 sessions at once, {by}"), []).append(milliseconds)


async def _taken(call: Callable[[], Awaitable[object]]) -> dict[str, float]:
    """Returns the milliseconds by the clock, and by the processor for all threads."""
    began, spent = time.perf_counter(), time.process_time()
    await call()
    took = {"clock": time.perf_counter() - began, "processor": time.process_time() - spent}
    return {by: 1_000 * seconds for by, seconds in took.items()}


def _said(turn: int) -> list[Any]:
    return [
        {"role": "user", "content": f"{turn}: {_WORDS * 2}"},
        {"role": "assistant", "content": f"{turn}: {_WORDS * 4}"},
    ]


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS)

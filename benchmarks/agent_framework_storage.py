"""Storage of Microsoft Agent Framework beside its own files: `python -m benchmarks.agent_framework_storage [ROUNDS]`.

Needs `agent-framework-lance-context`. In turn, both do what a run does: load the messages of a session and
save 2, in 8 sessions of up to 20 turns; load and save the snapshot of a session; save a checkpoint and load the
latest one. Then both save 2 messages in a session of 200 turns, and 100 sessions at once load and save messages. Printed are milliseconds by the clock and by the
processor, and their ratio to those of the framework's files: the median and the 95th percentile of all calls, and
the time of all 100 sessions.
"""

import asyncio
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from agent_framework import (
    AgentSession,
    FileCheckpointStorage,
    FileHistoryProvider,
    FileSessionStore,
    Message,
    WorkflowCheckpoint,
)
from agent_framework_lance_context import (
    LanceCheckpointStorage,
    LanceHistoryProvider,
    LanceSessionStore,
)

from lance_context_core import AsyncContextStore

_SESSIONS, _AT_ONCE, _TURNS, _FEW, _LONG = 8, 100, 10, 20, 200
_ROUNDS = 3
_OURS, _FILES = "lance-context", "files"
_WORDS = "I moved to Oslo last May and I am allergic to nuts, so please mind what you suggest. "

Measured = dict[tuple[str, str], list[float]]
Step = tuple[str, Callable[[], Awaitable[object]]]


class Side:
    """The storage of one side, all of it in one directory."""

    def __init__(self, place: Any, *, is_ours: bool) -> None:
        """`place` is a store or a directory."""
        self.history: Any = LanceHistoryProvider(place) if is_ours else FileHistoryProvider(place)
        self.sessions: Any = LanceSessionStore(place) if is_ours else FileSessionStore(place / "s")
        self.checkpoints: Any = (
            LanceCheckpointStorage(place) if is_ours else FileCheckpointStorage(place / "c")
        )

    def steps(self, name: str, turn: int) -> list[Step]:
        """Returns what one run does, by name."""
        session = AgentSession(session_id=name)
        session.state["notes"] = [_WORDS] * 10
        checkpoint = WorkflowCheckpoint(
            workflow_name=name, graph_signature_hash="hash", state={"notes": [_WORDS] * 10}
        )
        return [
            ("load a history", lambda: self.history.get_messages(name)),
            ("save 2 messages", lambda: self.history.save_messages(name, _said(turn))),
            ("load a session", lambda: self.sessions.get(name)),
            ("save a session", lambda: self.sessions.set(name, session)),
            ("save a checkpoint", lambda: self.checkpoints.save(checkpoint)),
            ("load the latest", lambda: self.checkpoints.get_latest(workflow_name=name)),
        ]


def main(rounds: int) -> None:
    """Prints a row for each kind of call."""
    warnings.simplefilter("ignore", FutureWarning)  # The framework's files are experimental.
    with tempfile.TemporaryDirectory() as folder:
        measured = asyncio.run(_measured(Path(folder), rounds))
    print(f"{'':<34}{'':>8}{_OURS:>15}{_FILES:>15}{'ratio':>8}")
    for what in dict.fromkeys(what for _, what in measured):
        for name, of in (("median", median), ("p95", _p95)):
            if name == "p95" and "at once" in what:
                continue
            ours, theirs = (of(measured[side, what]) for side in (_OURS, _FILES))
            print(f"{what:<34}{name:>8}{ours:>15.3f}{theirs:>15.3f}{ours / theirs:>8.2f}")


async def _measured(folder: Path, rounds: int) -> Measured:
    """Returns the milliseconds of each call, by side and kind."""
    measured: Measured = {}
    async with AsyncContextStore.open(folder / "memory") as store:
        for number in range(rounds + 1):
            sides = {
                _OURS: Side(store, is_ours=True),
                _FILES: Side(folder / f"files {number}", is_ours=False),
            }
            # The first round warms up.
            into: Measured = measured if number else {}
            for turn in range(_FEW):
                for at in range(_SESSIONS):
                    await _turn(sides, f"few {number} {at}", turn, into)
            await _long(sides, f"long {number}", into)
            for side in (_OURS, _FILES)[:: 1 if number % 2 else -1]:
                await _all_at_once(sides[side].history, side, f"many {number}", into)
    return measured


async def _turn(sides: dict[str, Side], name: str, turn: int, into: Measured) -> None:
    """Does each step on both sides before the next one; who begins changes from turn to turn."""
    order = (_OURS, _FILES)[:: 1 if turn % 2 else -1]
    for steps in zip(*(sides[side].steps(name, turn) for side in order), strict=True):
        for side, (what, call) in zip(order, steps, strict=True):
            for by, milliseconds in (await _taken(call)).items():
                into.setdefault((side, f"{what}, {by}"), []).append(milliseconds)


async def _long(sides: dict[str, Side], name: str, into: Measured) -> None:
    """Saves the last turns of a long session."""
    for one in sides.values():
        await one.history.save_messages(name, [said for n in range(_LONG) for said in _said(n)])
    for turn in range(_LONG, _LONG + _FEW):
        for side in (_OURS, _FILES)[:: 1 if turn % 2 else -1]:
            history = sides[side].history
            await history.get_messages(name)
            save = partial(history.save_messages, name, _said(turn))
            for by, milliseconds in (await _taken(save)).items():
                into.setdefault((side, f"save 2 after 200 turns, {by}"), []).append(milliseconds)


async def _all_at_once(history: Any, side: str, name: str, into: Measured) -> None:
    async def talk(at: int) -> None:
        for turn in range(_TURNS):
            await history.get_messages(f"{name} {at}")
            await history.save_messages(f"{name} {at}", _said(turn))

    async def all_of_them() -> None:
        await asyncio.gather(*(talk(at) for at in range(_AT_ONCE)))

    for by, milliseconds in (await _taken(all_of_them)).items():
        into.setdefault((side, f"100 sessions at once, {by}"), []).append(milliseconds)


async def _taken(call: Callable[[], Awaitable[object]]) -> dict[str, float]:
    """Returns the milliseconds by the clock, and by the processor for all threads."""
    began, spent = time.perf_counter(), time.process_time()
    await call()
    took = {"clock": time.perf_counter() - began, "processor": time.process_time() - spent}
    return {by: 1_000 * seconds for by, seconds in took.items()}


def _said(turn: int) -> list[Message]:
    return [
        Message("user", [f"{turn}: {_WORDS * 2}"]),
        Message("assistant", [f"{turn}: {_WORDS * 4}"]),
    ]


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS)

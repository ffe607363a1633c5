"""CrewAI's storages beside ours: `python -m benchmarks.crewai_storage [ROUNDS]`.

Needs `crewai-lance-context`. In turn, each side saves a record, searches with a scope and a category,
and saves and loads the state of a flow; then 100 saves, searches and states at once do so in threads.
Printed are milliseconds by the clock and by the processor, and their ratio to those of CrewAI's own
LanceDBStorage and SQLiteFlowPersistence: the median and the 95th percentile of all calls, and the time
of all 100.
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from typing import Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}

from crewai.flow.persistence import SQLiteFlowPersistence
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord
from crewai_lance_context import LanceFlowPersistence, LanceMemoryStorage

from lance_context_core import ContextStore

_CALLS, _AT_ONCE, _THREADS, _DIMENSION, _BEFORE = 120, 100, 16, 384, 500
_ROUNDS = 3
_OURS, _THEIRS = "lance-context", "CrewAI's own"
_WORDS = "Ada moved to Oslo last May and is allergic to nuts, so please mind what you suggest. "
_STATE = {"id": "flow", "messages": [{"role": "user", "content": _WORDS}] * 20, "n": 1}

Sides = dict[str, tuple[Any, Any]]
Measured = dict[tuple[str, str], list[float]]


def main(rounds: int) -> None:
    """Prints a row for each kind of call."""
    chance = random.Random(1)
    measured: Measured = {}
    with tempfile.TemporaryDirectory() as folder, ContextStore.open(f"{folder}/memory") as store:
        home = Path(folder)
        sides: Sides = {
            _OURS: (LanceMemoryStorage(store), LanceFlowPersistence(store)),
            _THEIRS: (
                LanceDBStorage(path=home / "own"),
                SQLiteFlowPersistence(str(home / "flows.db")),
            ),
        }
        for memory, _ in sides.values():
            memory.save([_record(chance) for _ in range(_BEFORE)])
        for number in range(rounds + 1):
            # The first round warms up.
            into: Measured = measured if number else {}
            for call in range(_CALLS):
                order = (_OURS, _THEIRS)[:: 1 if call % 2 else -1]
                record, query = _record(chance), _vector(chance)
                for what, run in _kinds(f"{call}", record, query).items():
                    for side in order:
                        _note(into, side, what, run, *sides[side])
            for side in (_OURS, _THEIRS)[:: 1 if number % 2 else -1]:
                _note(into, side, "100 at once", _all_at_once(chance, number), *sides[side])
    _print(measured)


def _kinds(name: str, record: MemoryRecord, query: list[float]) -> dict[str, Callable[..., object]]:
    asked: dict[str, Any] = {"scope_prefix": "/team/1", "categories": ["c2"]}
    return {
        "save": lambda memory, _: memory.save([record]),
        "search": lambda memory, _: memory.search(query, limit=10),
        "search with conditions": lambda memory, _: memory.search(query, limit=10, **asked),
        "save a state": lambda _, flows: flows.save_state(name, "m", _STATE),
        "load a state": lambda _, flows: flows.load_state(name),
    }


def _all_at_once(chance: random.Random, number: int) -> Callable[..., object]:
    made = [(_record(chance), _vector(chance)) for _ in range(_AT_ONCE)]

    def run(memory: Any, flows: Any) -> None:
        def one(at: int) -> None:
            record, query = made[at]
            memory.save([record])
            memory.search(query, limit=10)
            flows.save_state(f"{number} {at}", "m", _STATE)
            flows.load_state(f"{number} {at}")

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(one, range(_AT_ONCE)))

    return run


def _note(
    into: Measured, side: str, what: str, run: Callable[..., object], memory: Any, flows: Any
) -> None:
    began, spent = time.perf_counter(), time.process_time()
    run(memory, flows)
    took = {"clock": time.perf_counter() - began, "processor": time.process_time() - spent}
    for by, seconds in took.items():
        into.setdefault((side, f"{what}, {by}"), []).append(1_000 * seconds)


def _record(chance: random.Random) -> MemoryRecord:
    n = chance.randrange(10)
    return MemoryRecord(
        content=f"{n} {_WORDS}",
        scope=f"/team/{n % 3}",
        categories=[f"c{n % 5}"],
        metadata={"n": n},
        embedding=_vector(chance),
    )


def _vector(chance: random.Random) -> list[float]:
    return [chance.gauss(0, 1) for _ in range(_DIMENSION)]


def _print(measured: Measured) -> None:
    print(f"{'':<36}{'':>8}{_OURS:>15}{_THEIRS:>15}{'ratio':>8}")
    for what in dict.fromkeys(what for _, what in measured):
        for name, of in (("median", median), ("p95", _p95)):
            if name == "p95" and "at once" in what:
                continue
            ours, theirs = (of(measured[side, what]) for side in (_OURS, _THEIRS))
            print(f"{what:<36}{name:>8}{ours:>15.3f}{theirs:>15.3f}{ours / theirs:>8.2f}")


def _p95(values: Sequence[float]) -> float:
    return quantiles(values, n=20)[-1]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS)

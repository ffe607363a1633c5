"""The gain of each cache of the LangGraph checkpointer: `python -m benchmarks.saver_caches [ROUNDS]`.

Needs `langchain-lance-context[langgraph]`. One process works on 20 threads of a directory, or two do:
each has threads of its own, or both go on with the same ones in turn. Each cache is off in one run of a round,
and in one run none is; printed is the processor time of a `get_tuple`, `put` and `put_writes` as a ratio
to that one, the median of all rounds.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from statistics import fmean, median
from typing import Any
from unittest.mock import patch

_TURNS, _THREADS, _ROUNDS = 5, 20, 5
_OFF = ("nothing", "windows", "own versions", "value rows", "whole values", "segments", "all")
_WAYS = {"one process": [0], "two, threads of its own": [0, 1], "two, the same threads": [0, 0]}
_VERBS = ("get_tuple", "put", "put_writes")


def main(rounds: int) -> None:
    """Prints a table for each way of sharing."""
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, "work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]

    def ask(worker: Any, asked: Any) -> Any:
        worker.stdin.write(json.dumps(asked) + "\n")
        worker.stdin.flush()
        return json.loads(worker.stdout.readline())

    def measured(off: str, threads: Sequence[int]) -> dict[str, float]:
        of = [*zip(workers, threads, strict=False)]
        with tempfile.TemporaryDirectory() as folder:
            for worker, first in of:
                ask(worker, [off, folder, first])
            # In turn, so that each process finds what the others have written meanwhile.
            for turn in range(_TURNS):
                for worker, _ in of:
                    ask(worker, turn)
            said = [ask(worker, None) for worker, _ in of]
            n_bytes = sum(one.stat().st_size for one in Path(folder).rglob("*") if one.is_file())
        return {verb: fmean(one[verb] for one in said) for verb in _VERBS} | {"bytes": n_bytes}

    for what, threads in _WAYS.items():
        measured("nothing", threads)
        found: list[dict[str, dict[str, float]]] = []
        for n in range(rounds):
            order = random.Random(n).sample(_OFF, len(_OFF))
            found.append({off: measured(off, threads) for off in order})
            print(f"round {n + 1} of {rounds}", file=sys.stderr, flush=True)
        print(what)
        for off in _OFF:
            told = [
                f"{verb} {median(one[off][verb] / one['nothing'][verb] for one in found):.2f}"
                for verb in (*_VERBS, "bytes")
            ]
            print(f"  without {off:14} {'  '.join(told)}", flush=True)
        spent = {verb: median(one["nothing"][verb] for one in found) for verb in _VERBS}
        print("  milliseconds:", {verb: round(one * 1e3, 2) for verb, one in spent.items()})
    for worker in workers:
        worker.communicate()


def _work() -> None:
    for line in sys.stdin:
        off, folder, first = json.loads(line)
        with _without(off):
            _run(folder, first)


def _run(folder: str, first: int) -> None:
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_lance_context import LanceContextSaver
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.base.id import uuid6

    saver = LanceContextSaver(folder)
    spent: dict[str, list[float]] = {verb: [] for verb in _VERBS}

    def timed(verb: str, *args: Any, **more: Any) -> Any:
        began = time.process_time()
        outcome = getattr(saver, verb)(*args, **more)
        spent[verb].append(time.process_time() - began)
        return outcome

    print("0", flush=True)
    while (turn := json.loads(sys.stdin.readline())) is not None:
        for thread in range(_THREADS):
            config: Any = {"configurable": {"thread_id": f"{first}-{thread}", "checkpoint_ns": ""}}
            there = timed("get_tuple", config)
            messages = [] if there is None else there.checkpoint["channel_values"]["messages"]
            versions = {} if there is None else there.checkpoint["channel_versions"]
            config = config if there is None else there.config
            for step, kind in enumerate([HumanMessage, AIMessage]):
                messages = [*messages, kind(f"{turn} " + "what is said here " * 20)]
                number = saver.get_next_version(versions.get("messages"), None)
                new = {"messages": number, "step": number}
                versions = {**versions, **new}
                made = {
                    **empty_checkpoint(),
                    "id": str(uuid6()),
                    "channel_versions": versions,
                    "channel_values": {"messages": messages, "step": step},
                }
                config = timed("put", config, made, {"step": step, "source": "loop"}, new)
                timed("put_writes", config, [("messages", "more")], task_id="t", task_path="")
        print("0", flush=True)
    saver.close()
    print(json.dumps({verb: fmean(all_) for verb, all_ in spent.items()}), flush=True)


@contextmanager
def _without(off: str) -> Iterator[None]:
    from langchain_lance_context import _checkpoint_values as values
    from langchain_lance_context import _known as known
    from langchain_lance_context._checkpoint_log import CheckpointLog
    from langchain_lance_context._segments import Rope

    async def nothing(*_: Any) -> None:
        return None

    def whole(data: bytes, version: Any, _: Any) -> Any:
        return Rope.whole(data, version), data

    patches: dict[str, AbstractContextManager[Any]] = {
        "windows": patch.object(CheckpointLog, "known", nothing),
        "own versions": patch.object(known.OwnVersions, "cover", lambda *_, **__: False),
        "value rows": patch.object(known.ValueRows, "get", lambda *_: {}),
        "whole values": patch.object(known.Known, "has_rows", lambda _, keys, __: not keys),
        "segments": patch.object(values, "spun", whole),
    }
    with ExitStack() as stack:
        for name, one in patches.items():
            if off in {name, "all"}:
                stack.enter_context(one)
        yield


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        _work()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS)

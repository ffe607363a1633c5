"""A fleet of stores in a directory: one tenant beside a single store, and calls on all shards.

    python -m benchmarks.fleet --shards 64 --tenants 256 --records 20

Each pair is measured in turn, in one process, with maintenance off.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lance_context_core import ContextStore, Message
from lance_context_core.fleet import StoreFleet

_ROUNDS = 200
_SEARCHES = 40


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet")
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--tenants", type=int, default=256)
    parser.add_argument("--records", type=int, default=20)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _fill(place, options)
        print("| what | milliseconds | beside | ratio |\n|---|---:|---:|---:|")
        _measure(place, options)


def _fill(place: Path, options: argparse.Namespace) -> None:
    messages = [Message.user(f"turn {n} about apples and pears") for n in range(options.records)]
    with StoreFleet.open(place / "fleet", shards=options.shards, maintenance=None) as fleet:
        for n in range(options.tenants):
            store = fleet.scope(tenant=f"tenant-{n}")
            store.history.append_many("a", messages, session_id="s")
    with ContextStore.open(place / "one", maintenance=None) as one:
        for n in range(max(1, options.tenants // options.shards)):
            one.scope(tenant=f"tenant-{n}").history.append_many("a", messages, session_id="s")


def _measure(place: Path, options: argparse.Namespace) -> None:
    began = time.perf_counter()
    with (
        StoreFleet.open(place / "fleet", max_open=options.shards, maintenance=None) as fleet,
        ContextStore.open(place / "one", maintenance=None) as single,
    ):
        mine, alone = fleet.scope(tenant="tenant-0"), single.scope(tenant="tenant-0")
        mine.history.get_messages("a", session_id="s", last=10)
        print(f"| opening, and the first read | {_ms(began):.1f} | | |")
        calls: dict[str, Callable[[ContextStore], object]] = {
            "read the last ten": lambda store: store.history.get_messages(
                "a", session_id="s", last=10
            ),
            "search one tenant": lambda store: store.search("apples", mode="text", limit=5),
            "append a message": lambda store: store.history.append(
                "a", Message.user("one more"), session_id="new"
            ),
        }
        for name, call in calls.items():
            ours, theirs = _pairs(partial(call, mine), partial(call, alone))
            print(f"| {name} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} |")
        before, n_before = _resident(), fleet.n_open
        fleet.search("apples", mode="text", limit=5, timeout_seconds=None)
        grown = (_resident() - before) / max(1, fleet.n_open - n_before)
        taken = []
        for _ in range(_SEARCHES):
            began = time.perf_counter()
            assert fleet.search("apples", mode="text", limit=5, timeout_seconds=None).is_complete
            taken.append(_ms(began))
        p50, p95 = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
        print(f"| search all {options.shards} shards, p50 | {p50:.1f} | | |")
        print(f"| search all {options.shards} shards, p95 | {p95:.1f} | | |")
        print(f"\n{grown / 2**20:.2f} MiB for each open store, after a search")


def _pairs(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """The medians of both, in milliseconds, measured in turn."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for call, times in zip((ours, theirs), taken, strict=True):
            began = time.perf_counter()
            call()
            times.append(_ms(began))
    return statistics.median(taken[0]), statistics.median(taken[1])


def _ms(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _resident() -> int:
    """The memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(sys.argv[1:])

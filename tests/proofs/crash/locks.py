"""Processes share locks and are killed: `PYTHONPATH=tests python -m proofs.crash.locks`.

No lock is granted twice, none is lost, every counter that one protects is exact, and whoever waits
waits for those alone who stood before him in the queue.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import NamedTuple

from lance_context_core import ContextStore
from lance_context_core.results import Lock

_PATIENCE_SECONDS = 3_600


class Turn(NamedTuple):
    """One acquisition, as its holder wrote it down; times are those of the machine, in seconds."""

    process: int
    resource: str
    token: int
    count: int
    """What the counter was then."""
    place: int
    """In the order in which they came into the queue."""
    granted: float
    done: float
    """When the lock was about to be given back."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of one run."""

    n_processes: int
    n_resources: int
    n_turns: int
    n_killed: int
    n_unfinished: int
    """How many were killed between the counter and their note of it."""
    handed_on: Sequence[float]
    """How long it took from the end of each turn until the one who waited next had it, in seconds."""
    seconds: float

    @property
    def text(self) -> str:
        """In a few lines."""
        return (
            f"{self.n_processes} processes, {self.n_turns} acquisitions of {self.n_resources} "
            f"resources, {self.n_killed} processes killed, in {self.seconds:.0f} s "
            f"({self.n_turns / self.seconds:.0f} a second). Granted twice: 0. Lost: 0. Counters that "
            f"are wrong: 0; {self.n_unfinished} were killed after they had counted and before they "
            f"wrote it down. Who waited got it in the order of the queue, each of {len(self.handed_on)} "
            f"times, {1_000 * quantiles(self.handed_on, n=100)[49]:.1f} ms after the one before had "
            f"done (median; 99 of 100 within {1_000 * quantiles(self.handed_on, n=100)[98]:.0f} ms)"
        )


def main(arguments: Sequence[str]) -> int:
    """Do what `arguments` ask for; returns 1 at the first broken promise."""
    parser = argparse.ArgumentParser(prog="PYTHONPATH=tests python -m proofs.crash.locks")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--turns", type=int, default=10_000, help="acquisitions of each process")
    parser.add_argument("--resources", type=int, default=100)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        seen = run(
            Path(directory),
            n_processes=options.processes,
            n_turns=options.turns,
            n_resources=options.resources,
            n_kills=options.kills,
            random=Random(options.seed),
        )
    print(seen if isinstance(seen, str) else seen.text)
    return int(isinstance(seen, str))


def run(
    directory: Path,
    *,
    n_processes: int,
    n_turns: int,
    n_resources: int,
    n_kills: int,
    random: Random,
) -> Seen | str:
    """Have processes take locks; returns what was seen, or what promise was broken.

    The first ones begin together, however long each takes to start. Whoever is killed is followed by another one, who does what he had left to do.
    """
    with ContextStore.open(directory / "store") as store:
        store.locks.acquire("made").release()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["proofs.crash.locks"])

    def start(number: int, n_left: int) -> BaseProcess:
        arguments = (str(directory), number, n_left, n_resources, n_processes)
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        return process

    crew = {number: (start(number, n_turns), n_turns) for number in range(n_processes)}
    began, n_killed, n_all = time.monotonic(), 0, n_processes * n_turns
    at = [n_all * (one + 1) // (n_kills + 2) for one in range(n_kills)]
    while any(process.is_alive() for process, _ in crew.values()):
        if time.monotonic() - began > _PATIENCE_SECONDS:
            return f"not done after {_PATIENCE_SECONDS} seconds"
        if n_killed < n_kills and _n_written(directory) >= at[n_killed]:
            victim = random.choice(
                [one for one, (process, _) in crew.items() if process.is_alive()]
            )
            process, n_left = crew.pop(victim)
            process.kill()
            process.join()
            n_killed += 1
            n_left -= len([*_turns_of(directory, victim)])
            number = n_processes + n_killed
            crew[number] = (start(number, n_left), n_left)
        time.sleep(0.02)
    seconds = time.monotonic() - began
    if failed := [number for number, (process, _) in crew.items() if process.exitcode]:
        return f"ended by an error: process {failed}"
    turns = [
        turn for one in directory.glob("*.turns") for turn in _turns_of(directory, int(one.stem))
    ]
    counters = {one.stem: int(one.read_text()) for one in directory.glob("*.counter")}
    broken = _broken(turns, counters, n_killed=n_killed, n_all=n_all)
    if broken is not None:
        return broken
    with ContextStore.open(directory / "store") as store:
        if held := [one for one in store.locks.list() if not one.is_stale]:
            return f"held or waited for after all have ended: {held[:3]}"
    n_unfinished = sum(counters.values()) - len(turns)
    return Seen(
        *(n_processes, n_resources, len(turns), n_killed, n_unfinished, _handed_on(turns), seconds)
    )


def work(place: str, number: int, n_turns: int, n_resources: int, n_processes: int) -> None:
    """Count under locks, `n_turns` times, once so many are ready, and write each turn down."""
    directory, random = Path(place), Random(number)
    with (
        ContextStore.open(directory / "store") as store,
        (directory / f"{number}.turns").open("a", encoding="utf-8") as file,
    ):
        while len([*directory.glob("*.turns")]) < n_processes:
            time.sleep(0.01)
        for _ in range(n_turns):
            # Some are wanted by many.
            resource = f"r{int(n_resources * random.random() ** 3)}"
            with store.locks.acquire(resource) as lock:
                turn = _counted(directory, number, resource, lock)
                file.write(" ".join(map(str, turn)) + "\n")
                file.flush()


def _counted(directory: Path, number: int, resource: str, lock: Lock) -> Turn:
    """Count one more; whole, or not at all, also where the process is killed."""
    granted = time.monotonic()
    counter = directory / f"{resource}.counter"
    count = int(counter.read_text()) + 1 if counter.exists() else 1
    new = directory / f"{resource}.{number}.new"
    new.write_text(str(count))
    os.replace(new, counter)  # noqa: PTH105 - of thousands, half the time
    place = lock._aio._seq
    return Turn(number, resource, lock.token, count, place, granted, time.monotonic())


def _turns_of(directory: Path, number: int) -> Iterator[Turn]:
    path = directory / f"{number}.turns"
    # Who was killed may have left a part of a line.
    for line in path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else ():
        process, resource, token, count, place, *times = line.split()
        numbers = (int(token), int(count), int(place))
        yield Turn(int(process), resource, *numbers, *map(float, times))


def _n_written(directory: Path) -> int:
    return sum(one.read_bytes().count(b"\n") for one in directory.glob("*.turns"))


def _broken(
    turns: Sequence[Turn], counters: Mapping[str, int], *, n_killed: int, n_all: int
) -> str | None:
    """Which promise is broken; None if none."""
    if len(turns) != n_all:
        return f"{len(turns)} acquisitions were written down, not {n_all}"
    for before, after in _pairs(turns):
        if before.token == after.token:
            return f"granted twice: {before} and {after}"
        if before.done > after.granted:
            return f"held at the same time: {before} and {after}"
        if before.count >= after.count:
            return f"counted twice: {before} and {after}"
        if before.place >= after.place:
            return f"had it before one who came earlier: {before} and {after}"
    n_missing = sum(counters.values()) - len(turns)
    if not 0 <= n_missing <= n_killed:
        return f"{n_missing} were counted and not written down, {n_killed} were killed"
    last = {one.resource: one.count for one in sorted(turns, key=lambda one: one.token)}
    # The last of a resource may be one who was killed.
    if wrong := [one for one in last if not 0 <= counters[one] - last[one] <= n_missing]:
        return f"counters that are wrong: {wrong[:5]}"
    return None


def _handed_on(turns: Sequence[Turn]) -> list[float]:
    """How long it took each time until the next one had it, who was waiting by then."""
    return [
        after.granted - before.done
        for before, after in _pairs(turns)
        # Whoever waits has a place from before the lock was given back, but a token from after it.
        if after.place < after.token
    ]


def _pairs(turns: Sequence[Turn]) -> Iterator[tuple[Turn, Turn]]:
    """Each turn on a resource with the next one there."""
    by_resource: dict[str, list[Turn]] = defaultdict(list)
    for turn in sorted(turns, key=lambda one: one.token):
        by_resource[turn.resource].append(turn)
    for some in by_resource.values():
        yield from pairwise(some)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

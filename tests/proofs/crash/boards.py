"""Workers share a board and are killed: `PYTHONPATH=tests python -m proofs.crash.boards`.

Each task is to be done once, by its last claimer, and never before what it depends on. With `--many`
workers claim and complete several in one commit.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from lance_context_core import ContextStore
from lance_context_core.errors import ConflictError
from lance_context_core.results import Task, TaskEvent

BOARD = "proof"
_PATIENCE_SECONDS = 1_800
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of one run."""

    n_tasks: int
    n_claims: int
    n_killed: int
    seconds: float

    @property
    def text(self) -> str:
        """In a line."""
        return (
            f"{self.n_tasks} tasks, {self.n_claims} claims, {self.n_killed} workers killed, in "
            f"{self.seconds:.1f} s: {self.n_claims / self.seconds:.0f} claims a second, each with its "
            "completion"
        )


def main(arguments: Sequence[str]) -> int:
    """Do what `arguments` ask for; returns 1 at the first broken promise."""
    parser = argparse.ArgumentParser(prog="PYTHONPATH=tests python -m proofs.crash.boards")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        seen = run(
            Path(directory),
            n_tasks=options.tasks,
            n_workers=options.workers,
            n_kills=options.kills,
            n_at_once=_AT_ONCE if options.many else 1,
            random=Random(options.seed),
        )
    if isinstance(seen, str):
        print(seen)
        return 1
    print(seen.text)
    return 0


def run(
    directory: Path,
    *,
    n_tasks: int,
    n_workers: int,
    n_kills: int,
    random: Random,
    n_at_once: int = 1,
) -> Seen | str:
    """Have a board of random tasks worked off; returns what was seen, or what promise was broken.

    Workers take so many tasks at once; if that is one, each by a claim and a completion of its own.
    """
    place = directory / "store"
    with ContextStore.open(place) as store:
        board = store.tasks.board(BOARD)
        board.add_many(
            {"title": f"task {n}", "id": str(n), "depends_on": _needs(n, random)}
            for n in range(n_tasks)
        )
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["proofs.crash.boards"])

    def start(number: int) -> BaseProcess:
        arguments = (str(place), f"worker {number}", str(directory / f"{number}.log"))
        target, more = (work, ()) if n_at_once == 1 else (work_on_many, (n_at_once,))
        process = context.Process(target=target, args=(*arguments, *more), daemon=True)
        process.start()
        return process

    crew = [start(number) for number in range(n_workers)]
    began, n_killed = time.monotonic(), 0
    done_before_kill = [n_tasks * (one + 1) // (n_kills + 2) for one in range(n_kills)]
    while any(one.is_alive() for one in crew):
        if time.monotonic() - began > _PATIENCE_SECONDS:
            return f"not done after {_PATIENCE_SECONDS} seconds"
        if n_killed < n_kills and _n_told(directory) >= done_before_kill[n_killed]:
            victim = random.randrange(n_workers)
            crew[victim].kill()
            crew[victim].join()
            n_killed += 1
            crew[victim] = start(n_workers + n_killed)
        time.sleep(0.02)
    with ContextStore.open(place) as store:
        board = store.tasks.board(BOARD)
        tasks, history = board.list(), board.history()
    told = [json.loads(line) for one in directory.glob("*.log") for line in _lines(one)]
    if (broken := _broken(tasks, history, told)) is not None:
        return broken
    claims = [one.at for one in history if one.after == "in_progress"]
    # From the first claim on: processes take their time to begin.
    seconds = (max(one.at for one in history) - min(claims)).total_seconds()
    return Seen(n_tasks, len(claims), n_killed, seconds)


def work(place: str, name: str, log: str) -> None:
    """Take one task after the other until none is left; tell of each that is done."""
    with ContextStore.open(place) as store, Path(log).open("a", encoding="utf-8") as file:
        board = store.tasks.board(BOARD)
        while True:
            if (task := board.claim(name)) is None:
                if board.progress() == 1:
                    return
                time.sleep(0.01)
                continue
            try:
                board.complete(task.id, attempt=task.attempt)
            except ConflictError:
                continue
            file.write(f"{json.dumps([task.id, task.attempt])}\n")
            file.flush()


def work_on_many(place: str, name: str, log: str, n_at_once: int) -> None:
    """As `work`, with so many tasks at once: each commit completes some and claims the next."""
    with ContextStore.open(place) as store, Path(log).open("a", encoding="utf-8") as file:
        board = store.tasks.board(BOARD)
        at: list[Task] = []
        while True:
            done, at = at, board.claim_many(name, limit=n_at_once, completed=at)
            file.writelines(f"{json.dumps([one.id, one.attempt])}\n" for one in done)
            file.flush()
            if not at:
                if board.progress() == 1:
                    return
                time.sleep(0.01)


def _needs(n: int, random: Random) -> list[str]:
    return sorted({str(random.randrange(n)) for _ in range(random.randrange(3))}) if n else []


def _n_told(directory: Path) -> int:
    return sum(len(_lines(one)) for one in directory.glob("*.log"))


def _lines(path: Path) -> list[str]:
    """Its whole lines: who was killed may have left a part of one."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def _broken(
    tasks: Sequence[Task], history: Sequence[TaskEvent], told: Sequence[tuple[str, int]]
) -> str | None:
    """Which promise the history breaks; None if none."""
    done: dict[str, int] = {}
    begun: dict[str, int] = {}
    needs = {one.id: one.depends_on for one in tasks}
    for event in history:
        if event.after == "in_progress":
            early = [one for one in needs[event.task_id] if one not in done]
            if early:
                return f"task {event.task_id} was begun before {early}"
            if event.attempt != begun.get(event.task_id, 0) + 1:
                return f"task {event.task_id} was begun twice as attempt {event.attempt}"
            begun[event.task_id] = event.attempt
        elif event.after == "completed":
            if event.task_id in done:
                return f"task {event.task_id} was done twice"
            if event.attempt != begun[event.task_id]:
                return f"task {event.task_id} was done by attempt {event.attempt}, not the last"
            done[event.task_id] = event.attempt
    if missing := [one.id for one in tasks if one.id not in done or one.status != "completed"]:
        return f"never done: {missing[:5]}"
    if lost := [one for one in told if done[one[0]] != one[1]]:
        return f"told as done, and done otherwise: {lost[:5]}"
    return None if len({id for id, _ in told}) == len(told) else "told as done twice"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

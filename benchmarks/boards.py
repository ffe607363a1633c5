"""How fast workers claim and complete the tasks of one board, whose dependencies are random.

    python -m benchmarks.boards [--tasks 10000] [--workers 8]

Each worker is a process. Claims a second by the clock, each with its completion, from the moment when all
workers are ready; and milliseconds of CPU of all of them, by the claim. A worker claims one task after the
other, or `claim_many` at once, which completes what it claimed before. Beside a store's board: a table
of SQLite made for nothing else, with the same dependencies, from which a task is claimed by one
`UPDATE … RETURNING`. That one knows nothing of leases, of workers who died, of subtasks and retries, and
keeps no history. Both wait for the disk as little as the store does by default.
"""

import argparse
import multiprocessing
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path
from random import Random
from typing import NamedTuple

from lance_context_core import ContextStore
from lance_context_core.results import Task, TaskBoard

_AT_ONCE = 16

_PAUSE_SECONDS = 0.001
"""How long who finds nothing ready waits."""

Needs = dict[int, list[int]]


class Turn(NamedTuple):
    """What one worker did."""

    n_claims: int
    began: float
    ended: float
    cpu_seconds: float


class Queue(NamedTuple):
    """A board as one worker has it."""

    take: Callable[[], int]
    """Claim and complete; returns how many tasks were claimed, 0 if nothing is ready."""
    is_done: Callable[[], bool]


Side = Callable[[Path], Iterator[Queue]]


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boards")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args(arguments)
    random = Random(0)
    needs = {
        n: sorted({random.randrange(n) for _ in range(random.randrange(3))}) if n else []
        for n in range(options.tasks)
    }
    print(
        f"{options.tasks:,} tasks, {options.workers} workers, {os.cpu_count()} processors, ", end=""
    )
    print(f"load {os.getloadavg()[0]:.1f} before\n")
    print("| board | claims a second | ms of CPU a claim |\n|---|---:|---:|")
    for _ in range(options.repeats):
        for name, (fill, work) in _SIDES.items():
            with tempfile.TemporaryDirectory() as directory:
                fill(Path(directory), needs)
                turns = _together(work, Path(directory), options.workers)
            n_claims = sum(turn.n_claims for turn in turns)
            assert n_claims == options.tasks, (n_claims, options.tasks)
            seconds = max(turn.ended for turn in turns) - min(turn.began for turn in turns)
            cpu = sum(turn.cpu_seconds for turn in turns) / n_claims * 1_000
            print(f"| {name} | {n_claims / seconds:,.0f} | {cpu:.2f} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} after")
    return 0


def _together(work: Side, folder: Path, n_workers: int) -> list[Turn]:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(n_workers)
    turns: multiprocessing.Queue[Turn] = context.Queue()
    crew = [
        context.Process(target=_work, args=(work, folder, ready, turns)) for _ in range(n_workers)
    ]
    for one in crew:
        one.start()
    told = [turns.get() for _ in crew]
    for one in crew:
        one.join()
    return told


def _work(work: Side, folder: Path, ready: Barrier, turns: "multiprocessing.Queue[Turn]") -> None:
    with contextmanager(work)(folder) as queue:
        ready.wait()
        began, cpu, n, ended = time.time(), _cpu_seconds(), 0, time.time()
        while True:
            if n_taken := queue.take():
                n, ended = n + n_taken, time.time()
            elif queue.is_done():
                break
            else:
                time.sleep(_PAUSE_SECONDS)
        turns.put(Turn(n, began, ended, _cpu_seconds() - cpu))


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# A board of a store


def _fill_store(folder: Path, needs: Needs) -> None:
    with ContextStore.open(folder / "store") as store:
        board = store.tasks.board("board")
        for n, some in needs.items():
            board.add(f"task {n}", id=str(n), depends_on=[str(one) for one in some])
        store.flush()


def _work_store(folder: Path) -> Iterator[Queue]:
    with ContextStore.open(folder / "store") as store:
        board = store.tasks.board("board")
        is_done, name = _done_of(board), f"worker {os.getpid()}"

        def take() -> int:
            if (task := board.claim(name)) is None:
                return 0
            board.complete(task.id, attempt=task.attempt)
            return 1

        yield Queue(take, is_done)


def _work_store_with_many(folder: Path) -> Iterator[Queue]:
    with ContextStore.open(folder / "store") as store:
        board = store.tasks.board("board")
        is_done, name = _done_of(board), f"worker {os.getpid()}"
        at: list[Task] = []

        def take() -> int:
            at[:] = board.claim_many(name, limit=_AT_ONCE, completed=at)
            return len(at)

        yield Queue(take, is_done)


def _done_of(board: TaskBoard) -> Callable[[], bool]:
    last = str(len(board.list()) - 1)

    def is_done() -> bool:
        # The last one that is looked for: most of the time, others are at some before it.
        return board.get(last).status == "completed" and board.progress() == 1

    return is_done


# A table of SQLite

_TABLES = """
PRAGMA journal_mode=WAL;
CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, status TEXT, n_open INTEGER, worker TEXT);
CREATE INDEX tasks_next ON tasks (status, id);
CREATE TABLE needs (needed INTEGER, id INTEGER, PRIMARY KEY (needed, id)) WITHOUT ROWID;
"""
_CLAIM = """
UPDATE tasks SET status = 'in_progress', worker = ?
WHERE id = (SELECT id FROM tasks WHERE status = 'pending' ORDER BY id LIMIT 1) RETURNING id
"""
_DONE = "UPDATE tasks SET status = 'completed' WHERE id = ?"
_UNBLOCK = (
    "UPDATE tasks SET n_open = n_open - 1 WHERE id IN (SELECT id FROM needs WHERE needed = ?)"
)
_READY = """
UPDATE tasks SET status = 'pending' WHERE status = 'blocked' AND n_open = 0
AND id IN (SELECT id FROM needs WHERE needed = ?)
"""


def _connected(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "tasks.db", isolation_level=None, timeout=60)
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def _fill_sqlite(folder: Path, needs: Needs) -> None:
    connection = _connected(folder)
    connection.executescript(_TABLES)
    connection.execute("BEGIN")
    for n, some in needs.items():
        status = "blocked" if some else "pending"
        values = (n, f"task {n}", status, len(some), None)
        connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?)", values)
        pairs: Iterable[tuple[int, int]] = [(one, n) for one in some]
        connection.executemany("INSERT INTO needs VALUES (?, ?)", pairs)
    connection.execute("COMMIT")
    connection.close()


def _work_sqlite(folder: Path) -> Iterator[Queue]:
    connection = _connected(folder)
    do = connection.execute

    def take() -> int:
        do("BEGIN IMMEDIATE")
        found = do(_CLAIM, (str(os.getpid()),)).fetchone()
        do("COMMIT")
        if found is None:
            return 0
        do("BEGIN IMMEDIATE")
        for statement in (_DONE, _UNBLOCK, _READY):
            do(statement, found)
        do("COMMIT")
        return 1

    def is_done() -> bool:
        left = "SELECT count(*) FROM tasks WHERE status IN ('pending', 'blocked', 'in_progress')"
        return bool(do(left).fetchone()[0] == 0)

    yield Queue(take, is_done)
    connection.close()


_SIDES: dict[str, tuple[Callable[[Path, Needs], None], Side]] = {
    "of a store": (_fill_store, _work_store),
    f"of a store, {_AT_ONCE} at once": (_fill_store, _work_store_with_many),
    "a table of SQLite": (_fill_sqlite, _work_sqlite),
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Writers are killed inside transactions: `PYTHONPATH=tests python -m proofs.crash.transactions`.

Each transaction writes the same number to six stores. After each kill a number is in all of them or in
none, every number that was acknowledged is there, and at most one more: that of the one that was begun.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from lance_context_core import ContextStore, Document, Item, Message
from lance_context_core.settings import JournalPolicy

AGENT, USER, SESSION = "agent", "ada", "1"
COUNT = (("counts",), "n")
_JOURNALS = (JournalPolicy(), JournalPolicy(rows=20))
_LIFE_SECONDS = (0.0, 0.06)
_PATIENCE_SECONDS = 120
_ROUNDS_A_STORE = 10

# The server that forks the workers has loaded the engine, but never run it.
warnings.filterwarnings("ignore", message="lancedb fork support is experimental")


def main(arguments: Sequence[str]) -> int:
    """Run the rounds that `arguments` ask for; returns 1 at the first broken promise."""
    parser = argparse.ArgumentParser(prog="PYTHONPATH=tests python -m proofs.crash.transactions")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["proofs.crash.transactions"])
    n_killed = n_written = 0
    for first in range(0, options.rounds, _ROUNDS_A_STORE):
        with tempfile.TemporaryDirectory(prefix="transactions-") as folder:
            place, n_before = str(Path(folder) / "store"), 0
            for number in range(first, min(first + _ROUNDS_A_STORE, options.rounds)):
                random = Random(options.seed + number)
                here, there = context.Pipe(duplex=False)
                journal = random.choice(_JOURNALS)
                worker = context.Process(target=work, args=(place, journal, there), daemon=True)
                worker.start()
                there.close()
                n_told = _life(here, worker.pid, random)
                worker.join(_PATIENCE_SECONDS)
                n_killed += worker.exitcode == -signal.SIGKILL
                n_now, broken = look(place)
                if broken or not max(n_before, n_told) <= n_now <= max(n_before, n_told) + 1:
                    print(f"round {number}: {broken or f'{n_now} are there, {n_told} were told'}")
                    return 1
                n_before = n_now
            n_written += n_before
    print(f"{n_killed} writers killed with SIGKILL, {n_written} transactions. In part or lost: 0.")
    return 0


def work(place: str, journal: JournalPolicy, said: Connection) -> None:
    """Make one transaction after another until the process is killed; sends each number once written."""
    with ContextStore.open(place, journal=journal) as store:
        while True:
            said.send(write(store))


def write(store: ContextStore) -> int:
    """Write the next number to all stores; returns it."""
    with store.scope(user_id=USER).transaction() as tx:
        (count,) = tx.kv().get([COUNT])
        n = 1 if count is None else (count.value or {})["n"] + 1
        tx.history.append(AGENT, Message.user(f"turn {n}"), session_id=SESSION)
        tx.kv().write(
            puts=[Item(namespace=COUNT[0], key=COUNT[1], value={"n": n})],
            expected={COUNT: count and count.revision},
        )
        tx.memory.add([Message.user(f"fact {n}")])
        tx.sessions.create(f"s{n}")
        tx.vectors().upsert([Document(id=str(n), text=f"text {n}", embedding=[1.0, n])])
        tx.tasks.board().add(f"task {n}", id=str(n))
    return n


def look(place: str) -> tuple[int, str | None]:
    """Up to which number all is there, and what is there in part, if anything is."""
    with ContextStore.open(place) as whole:
        store = whole.scope(user_id=USER)
        (count,) = store.kv().get([COUNT])
        n = 0 if count is None else (count.value or {})["n"]
        numbers = range(1, n + 1)
        turns = store.history.get_messages(AGENT, session_id=SESSION)
        seen = {
            "history": [one.text for one in turns] == [f"turn {n}" for n in numbers],
            "memory": store.memory.list(page_size=1).total == n,
            "sessions": {one.id for one in store.sessions.list()} - {SESSION}
            == {f"s{n}" for n in numbers},
            "vectors": [one.id for one in store.vectors().list()] == [str(n) for n in numbers],
            "tasks": [one.id for one in store.tasks.board().list()] == [str(n) for n in numbers],
        }
    wrong = [name for name, is_same in seen.items() if not is_same]
    return n, f"kv has {n} numbers, and others not the same: {wrong}" if wrong else None


def _life(said: Connection, pid: int | None, random: Random) -> int:
    """Let a worker live for a moment after its first transaction, and kill it; the last number it sent."""
    n_told = 0
    if not said.poll(_PATIENCE_SECONDS) or pid is None:
        return n_told
    until = time.monotonic() + random.uniform(*_LIFE_SECONDS)
    while (left := until - time.monotonic()) > 0:
        if said.poll(left):
            n_told = said.recv()
    os.kill(pid, signal.SIGKILL)
    try:
        while True:
            n_told = said.recv()
    except EOFError:
        return n_told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

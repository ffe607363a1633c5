"""A process that works under locks: `python worker.py ROLE URI NAME DIRECTORY N`.

What it does is told line by line: see `WORK`.
"""

import json
import os
import random
import sys
import time
from datetime import timedelta
from pathlib import Path

from lance_context_core.coordination import locks
from lance_context_core.errors import ConflictError, StaleLockError
from lance_context_core.messages import Message
from lance_context_core.sync import ContextStore

DAY = timedelta(days=1)
SHORT = timedelta(seconds=1)


def say(*words):
    sys.stdout.write(f"{json.dumps(words)}\n")
    sys.stdout.flush()


def hear():
    return sys.stdin.readline()


def hold(store, name, directory, n):
    """Take a lock for a day, and keep it; who does not look for `n` seconds while it waits is passed by."""
    locks._LEASE_SECONDS = float(n)
    lock = store.locks.acquire("r", lease=DAY, owner=name)
    say("held", lock.token)
    hear()


def write_late(store, name, directory, n):
    """Take a lock for a second, and write once it is told to."""
    lock = store.locks.acquire("r", lease=SHORT, owner=name)
    say("held", lock.token)
    hear()
    with lock.fencing():
        try:
            store.history.append(name, Message.user("late"), session_id="s")
        except StaleLockError:
            say("refused")
        else:
            say("written")


def complete_late(store, name, directory, n):
    """Begin a task for a second, or for `n` days, and complete it once it is told to."""
    board = store.tasks.board("b")
    task = board.claim(name, lease=n * DAY or SHORT)
    say("claimed", task.attempt)
    hear()
    try:
        board.complete(task.id, attempt=task.attempt)
    except ConflictError:
        say("refused")
    else:
        say("completed")


def count(store, name, directory, n):
    """Add lines to files that locks protect, `n` of them; a second one inside is told."""
    for _ in range(n):
        resource = random.choice("abc")
        with store.locks.acquire(resource, owner=name) as lock:
            inside = directory / f"{resource}.inside"
            try:
                there = inside.read_text()
            except FileNotFoundError:
                there = ""
            if there and Path(f"/proc/{there}").exists() and not is_zombie(there):
                say("together", resource, there)
            inside.write_text(str(os.getpid()))
            lines = directory / f"{resource}.lines"
            before = lines.read_text() if lines.exists() else ""
            time.sleep(random.random() / 1_000)
            # Whole or not at all, also where the process is killed.
            new = directory / f"{resource}.{name}"
            new.write_text(f"{before}{lock.token} {name}\n")
            new.replace(lines)
            say("line", resource, lock.token)
            inside.write_text("")


def is_zombie(pid):
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


WORK = {"hold": hold, "write_late": write_late, "complete_late": complete_late, "count": count}

if __name__ == "__main__":
    role, uri, name, directory, n = sys.argv[1:]
    with ContextStore.open(uri) as store:
        say("ready")
        hear()
        WORK[role](store, name, Path(directory), int(n))
    say("done")

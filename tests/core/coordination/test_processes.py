"""Locks between processes that are killed, or stopped, while they hold one."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from lance_context_core.storage import leases
from lance_context_core.storage.wal import sqlite
from lance_context_core.sync import ContextStore

WORKER = Path(__file__).with_name("worker.py")
PATIENCE = timedelta(seconds=120)


class Worker:
    """A process of `worker.py`."""

    def __init__(self, role, directory, name, n=0):
        self.name = name
        self.store = directory / "store"
        self.said = []
        arguments = [role, self.store, name, directory, n]
        self.process = subprocess.Popen(
            [sys.executable, WORKER, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self, word):
        """Whatever it says with that word next; None if it ends before."""
        for line in self.process.stdout:
            said = json.loads(line)
            self.said.append(said)
            if said[0] == word:
                return said
        return None

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def send(self, how):
        self.process.send_signal(how)

    def stop(self):
        """Stop it, but not amid a write to the journal: nobody else could write until it goes on."""
        while True:
            self.send(signal.SIGSTOP)
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
            if can_write(self.store / sqlite.NAME):
                return
            self.send(signal.SIGCONT)
            time.sleep(0.001)


def can_write(journal):
    """Whether nobody is at a write to the journal that goes on for ever."""
    connection = sqlite3.connect(journal, timeout=1, isolation_level=None)
    with closing(connection):
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


@contextmanager
def workers(*arguments):
    """These, ready to begin; all of them are gone in the end."""
    made = [Worker(*one) for one in arguments]
    try:
        for worker in made:
            assert worker.hear("ready")
        yield made
    finally:
        for worker in made:
            worker.process.kill()
            worker.process.communicate()


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "store") as opened:
        yield opened


def test_the_lock_of_a_process_that_was_killed_is_free_at_once(tmp_path, store):
    with workers(("hold", tmp_path, "ann", 1)) as (ann,):
        ann.go()
        _, token = ann.hear("held")
        assert store.locks.try_acquire("r") is None
        # Nor is it for who only bears the same name.
        assert store.locks.try_acquire("r", owner="ann") is None
        # It is not waited for: what its parent has not noticed yet is dead all the same.
        ann.send(signal.SIGKILL)
        with store.locks.acquire("r", wait=PATIENCE) as lock:
            assert lock.token > token


def test_a_late_write_of_a_process_that_was_stopped_past_its_lease_is_refused(tmp_path, store):
    with workers(("write_late", tmp_path, "ann")) as (ann,):
        ann.go()
        assert ann.hear("held")
        ann.stop()
        with store.locks.acquire("r", wait=PATIENCE):
            ann.go()
            ann.send(signal.SIGCONT)
            assert ann.hear("refused")
        assert store.history.count("ann", session_id="s") == 0


def test_a_late_completion_of_a_process_that_was_stopped_past_its_lease_is_refused(tmp_path, store):
    board = store.tasks.board("b")
    board.add("t", id="t")
    with workers(("complete_late", tmp_path, "ann")) as (ann,):
        ann.go()
        _, attempt = ann.hear("claimed")
        ann.stop()
        while (task := board.claim("ben")) is None:
            time.sleep(0.01)
        ann.go()
        ann.send(signal.SIGCONT)
        assert ann.hear("refused")
    assert task.attempt == attempt + 1
    assert board.get("t").assigned_to == "ben"
    board.complete("t", attempt=task.attempt)


def test_the_task_of_a_process_that_was_killed_is_taken_over_at_once(tmp_path, store):
    board = store.tasks.board("b")
    board.add("t", id="t")
    with workers(("complete_late", tmp_path, "ann", 1)) as (ann,):
        ann.go()
        _, attempt = ann.hear("claimed")
        assert board.claim("ben") is None
        ann.send(signal.SIGKILL)
        # It is not waited for, nor is its lease, of a day.
        while (task := board.claim("ben")) is None:
            time.sleep(0.01)
    assert task.attempt == attempt + 1


def test_who_waits_behind_a_process_that_was_stopped_while_it_waited_gets_on(tmp_path, store):
    lock = store.locks.acquire("r")
    with workers(("hold", tmp_path, "ann", 1)) as (ann,):
        ann.go()
        while not any(one.token is None for one in store.locks.list()):
            time.sleep(0.01)
        ann.stop()
        lock.release()
        with store.locks.acquire("r", wait=PATIENCE):
            pass


def test_no_lock_is_granted_twice_and_none_is_lost_while_processes_are_killed(tmp_path, store):
    n = 40
    crew = [("count", tmp_path, name, n) for name in ("ann", "ben", "eve", "kim")]
    with workers(*crew) as made:
        for worker in made:
            worker.go()
        ann, ben, *others = made
        for worker, lines in ((ann, 3), (ben, 9)):
            for _ in range(lines):
                assert worker.hear("line")
            worker.send(signal.SIGKILL)
        for worker in others:
            assert worker.hear("done")
        for worker in (ann, ben):
            worker.hear("nothing more")
    told = [(said, worker.name) for worker in made for said in worker.said]
    assert not [said for said, _ in told if said[0] == "together"]
    kept = {}
    for resource in "abc":
        lines = (tmp_path / f"{resource}.lines").read_text().splitlines()
        tokens = [int(line.split()[0]) for line in lines]
        assert tokens == sorted(set(tokens))
        kept |= {
            (resource, token): line.split()[1] for token, line in zip(tokens, lines, strict=True)
        }
    said = {(one[1], one[2]): name for one, name in told if one[0] == "line"}
    assert kept.items() >= said.items()
    # One that was killed may have written a line without telling it.
    assert {name for key, name in kept.items() if key not in said} <= {"ann", "ben"}
    assert sum(name in ("eve", "kim") for name in kept.values()) == 2 * n
    assert not [one for one in store.locks.list() if not one.is_stale]


# Which process it is


def of(boot=None, namespace=None, pid=None, began=None):
    parts = json.loads(leases.mine())
    given = (boot, namespace, pid, began)
    return json.dumps([old if new is None else new for old, new in zip(parts, given, strict=True)])


def test_a_process_that_has_the_number_of_a_dead_one_is_another():
    assert not leases.is_dead(leases.mine())
    assert leases.is_dead(of(began=1))


def test_nobody_knows_of_a_process_of_another_container_or_machine():
    nobody = 2**22 - random.randrange(5)
    assert leases.is_dead(of(pid=nobody))
    assert not leases.is_dead(of(pid=nobody, namespace="pid:[1]"))
    assert not leases.is_dead(of(pid=nobody, boot="another"))
    assert not leases.is_of_this_boot(of(boot="another"))


def test_a_process_of_another_user_is_alive(monkeypatch):
    def refuse(pid, how):
        raise PermissionError

    parent = os.getppid()
    other = of(pid=parent, began=leases._status(parent)[1])
    monkeypatch.setattr(leases.os, "kill", refuse)
    assert not leases.is_dead(other)


def test_that_a_process_lives_is_not_asked_again_for_as_long_as_is_said(monkeypatch):
    parent, asked = os.getppid(), []
    other = of(pid=parent, began=leases._status(parent)[1])
    monkeypatch.setattr(leases.os, "kill", lambda *_: asked.append(1))
    leases._seen.clear()
    for within, n in ((3600, 1), (3600, 1), (0, 2), (3600, 2)):
        assert not leases.is_dead(other, within_seconds=within)
        assert len(asked) == n

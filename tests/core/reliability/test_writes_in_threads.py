"""Blocking writes in the caller's own thread, where the journal is locked, full, forked or its process killed."""

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from core.reliability.rights import run

from lance_context_core import ContextStore, Item, StorageError
from lance_context_core.storage.wal import waiting

KEYS = [(("n",), "a"), (("n",), "b")]
N_ACKNOWLEDGED = 40
"""So many writes are acknowledged until a process is killed."""


@pytest.fixture
def kv(tmp_path):
    """Items of which the next few are written in the caller's thread."""
    with ContextStore.open(tmp_path, maintenance=None) as store:
        kv = store.kv("k")
        kv.put([item("a", 1)])
        yield kv


def item(key, n, text=""):
    return Item(namespace=("n",), key=key, value={"n": n, "text": text})


def values(kv):
    return [found and found.value["n"] for found in kv.get(KEYS)]


@contextmanager
def locked(path):
    """The journal while somebody else writes."""
    connection = sqlite3.connect(path / "journal.sqlite", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


WRITES = {
    "put": lambda kv: kv.put([item("b", 2)]),
    "add": lambda kv: kv.add([item("b", 2)]),
    "delete": lambda kv: kv.delete(KEYS[:1]),
    "write": lambda kv: kv.write(puts=[item("b", 2)], expected={KEYS[1]: None}),
}


@pytest.mark.parametrize("way", WRITES)
def test_a_journal_that_stays_locked_is_an_error_and_nothing_is_written(
    kv, tmp_path, monkeypatch, way
):
    monkeypatch.setattr(waiting, "_PATIENCE_SECONDS", 0.2)
    with locked(tmp_path), pytest.raises(StorageError, match=r"locked by another process.*end it"):
        WRITES[way](kv)
    assert values(kv) == [1, None]
    WRITES[way](kv)
    assert values(kv) == ([None, None] if way == "delete" else [1, 2])


def test_a_write_waits_for_one_who_is_at_the_journal_for_a_moment(kv, tmp_path):
    # A transaction that is left open ends with its connection.
    writing = threading.Thread(target=WRITES["put"], args=[kv])
    with locked(tmp_path):
        writing.start()
        time.sleep(0.05)
        assert writing.is_alive()
    writing.join(timeout=60)
    assert values(kv) == [1, 2]


@pytest.mark.parametrize("way", ["put", "add", "write"])
def test_a_journal_without_room_is_an_error_that_names_it_and_nothing_is_written(kv, tmp_path, way):
    given = {
        "put": lambda: kv.put([item("b", 2, "tea " * 10_000)]),
        "add": lambda: kv.add([item("b", 2, "tea " * 10_000)]),
        "write": lambda: kv.write(deletes=KEYS[:1], puts=[item("b", 2, "tea " * 10_000)]),
    }[way]
    journal = kv._aio._resources.database.connection.journal
    connection = journal.log.session.connection
    # What SQLite says is what it says of a full disk.
    connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(StorageError, match=r"journal.sqlite'.*disk is full: free some space"):
        given()
    connection.execute("PRAGMA max_page_count = 100000")
    assert values(kv) == [1, None]
    given()
    assert values(kv) == [None if way == "write" else 1, 2]


FORK = """
import os, sys, warnings
from lance_context_core import ContextStore, Item
from lance_context_core.errors import StoreClosedError
warnings.simplefilter("ignore")
kv = ContextStore.open(sys.argv[1], maintenance=None).kv("k")
key = (), "a"
kv.put([Item(key="a", value={"n": 0})])
calls = [
    lambda: kv.put([Item(key="child")]),
    lambda: kv.add([Item(key="child")]),
    lambda: kv.delete([key]),
    lambda: kv.write(puts=[Item(key="child")], expected={key: None}),
    lambda: kv.get([key]),
]
for n, call in enumerate(calls, start=1):
    if not (child := os.fork()):
        try:
            call()
        except StoreClosedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, n
    kv.put([Item(key="a", value={"n": n})])
print([(one.key, one.value) for one in kv.list()])
os._exit(0)
"""


def test_a_forked_child_writes_nothing_and_its_parent_goes_on(tmp_path):
    assert run(FORK, tmp_path / "store") == ["[('a', {'n': 5})]"]


PUT_AND_TELL = """
import sys, threading
from lance_context_core import ContextStore, Item
from lance_context_core.errors import ConflictError
from lance_context_core.settings import JournalPolicy
kv = ContextStore.open(sys.argv[1], journal=JournalPolicy(rows=16)).kv("k")
def work(thread):
    for n in range(100_000):
        pair = [Item(namespace=(thread,), key=f"{n} {half}", value={"n": n}) for half in "ab"]
        kv.write(adds=pair, deletes=[((thread,), f"{n - 1} a")] if n else [])
        told = f"{thread} {n}"
        with telling:
            print(told, flush=True)
telling = threading.Lock()
for thread in "xyz":
    threading.Thread(target=work, args=[thread]).start()
"""


@pytest.mark.parametrize("number", [pytest.param(0, id="once"), *(
    pytest.param(n, marks=pytest.mark.long, id=f"again {n}") for n in range(1, 20)
)])  # fmt: skip
def test_what_threads_were_told_is_there_whole_after_their_process_is_killed(tmp_path, number):
    told: dict[str, int] = {}
    with subprocess.Popen(
        [sys.executable, "-c", PUT_AND_TELL, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as running:
        for line, _ in zip(running.stdout, range(N_ACKNOWLEDGED + 7 * number), strict=False):
            thread, n = line.split()
            told[thread] = int(n)
        running.kill()
        for line in running.stdout:
            if line.endswith("\n"):
                thread, n = line.split()
                told[thread] = int(n)
    with ContextStore.open(tmp_path) as store:
        there = [(one.namespace[0], one.key) for one in store.kv("k").list()]
    for thread, n in told.items():
        ours = {key for where, key in there if where == thread}
        # The last one that was told of, or one more, whose answer was cut off.
        last = max(int(key.split()[0]) for key in ours)
        assert last in (n, n + 1)
        assert ours == {f"{last} a", *(f"{one} b" for one in range(last + 1))}
    assert len(there) == len(set(there))


@pytest.mark.long
def test_ten_thousand_opens_and_closes_leave_no_handle_and_no_thread(tmp_path):
    def held():
        threads = [one for one in threading.enumerate() if not one.name.startswith("asyncio_")]
        return len(list(Path("/proc/self/fd").iterdir())), len(threads)

    before = None
    for n in range(10_000):
        with ContextStore.open(tmp_path, maintenance=None) as store:
            store.kv("k").put([item("a", n)])
            assert values(store.kv("k")) == [n, None]
        before = before or (n == 20 and held())
    assert all(now <= then for now, then in zip(held(), before, strict=True))

"""What is erased is not in the journal's files either: neither in its log nor in what it let go of."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import time

import pytest

from lance_context_core import AsyncContextStore, ContextStore, Item, Message
from lance_context_core.storage.lance import purge
from lance_context_core.storage.wal import journal as journals

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(place):
    with ContextStore.open(place) as store:
        yield store


def holding(place, marker):
    """The files that hold the bytes.

    Another process reads them: one that holds the store and closed them would lose its locks.
    """
    told = subprocess.run(
        ["grep", "-rlaF", marker, place], capture_output=True, text=True, check=False
    )
    return [name.removeprefix(f"{place}/") for name in told.stdout.splitlines()]


def live(store, n=150):
    """Say, change and take back a lot, with the marker in every corner, and other things between."""
    ada, bob = store.scope(user_id="ada"), store.scope(user_id="bob")
    for number in range(n):
        ada.history.append("h", Message.user(f"zqvx said {number}"), session_id="zqvx-session")
        ada.kv("app").put([Item(key="state", value={"zqvx": number}, data=b"zqvx" * number * 10)])
        ada.kv("app").put([Item(key=f"zqvx{number}", value={"of": 1})])
        ada.kv("app").delete([((), f"zqvx{number}")])
        bob.kv("app").put([Item(key=f"{number}", value={"n": number})])
    ada.context().upsert("user", "zqvx first", id="u", key="id")
    ada.context().upsert("user", "zqvx later", id="u", key="id")
    ada.context().delete(id="u")


@pytest.mark.parametrize("sole_writer", [False, True])
def test_nothing_of_a_long_life_is_left_in_the_journal(store, place, sole_writer):
    live(store)
    assert {name for name in holding(place, "zqvx") if name.startswith("journal.")}
    report = store.scope(user_id="ada").erase(sole_writer=sole_writer)
    assert holding(place, "zqvx") == []
    assert report.may_linger is not sole_writer
    assert store.scope(user_id="bob").kv("app").count() == 150


def test_what_came_and_went_before_any_table_had_it_leaves_the_journal(store, place):
    items = store.scope(user_id="ada").kv("app")
    items.put([Item(key="k", value={"v": "zqvx"})])
    items.delete([((), "k")])
    assert holding(place, "zqvx")
    assert not store.scope(user_id="ada").erase()
    assert holding(place, "zqvx") == []


def live_until_killed(place, ready):
    store = ContextStore.open(place)
    live(store, n=40)
    ready.set()
    time.sleep(600)


def test_what_a_killed_process_left_in_the_journal_is_erased(place):
    ready = SPAWN.Event()
    process = SPAWN.Process(target=live_until_killed, args=(place, ready))
    process.start()
    assert ready.wait(300)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert "journal.sqlite-wal" in holding(place, "zqvx")
    with ContextStore.open(place) as store:
        assert store.scope(user_id="ada").erase(sole_writer=True).records == 40 + 1
        assert holding(place, "zqvx") == []
        assert store.scope(user_id="bob").kv("app").count() == 40


@pytest.mark.parametrize("sole_writer", [False, True])
def test_what_others_write_meanwhile_stays(store, place, monkeypatch, sole_writer):
    live(store, n=20)
    real = purge.scour

    async def scour(table, gone, **options):
        async with AsyncContextStore.open(place) as other:
            await other.kv("app").put([Item(key="meanwhile", value={"n": 1})])
            await other.history.append("h", Message.user("meanwhile"), session_id="s")
        return await real(table, gone, **options)

    monkeypatch.setattr(purge, "scour", scour)
    store.scope(user_id="ada").erase(sole_writer=sole_writer)
    assert holding(place, "zqvx") == []
    with ContextStore.open(place) as again:
        assert again.kv("app").get([((), "meanwhile")])[0].value == {"n": 1}
        assert "meanwhile" in [m.text for m in again.history.get_messages("h", session_id="s")]


def test_it_is_said_if_somebody_who_reads_the_journal_kept_it_from_being_wiped(
    store, place, monkeypatch
):
    monkeypatch.setattr(journals, "_WIPE_SECONDS", 0.1)
    live(store, n=5)
    reader = sqlite3.connect(place / "journal.sqlite")
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM rows").fetchall()
        assert store.scope(user_id="ada").erase(sole_writer=True).may_linger
    finally:
        reader.close()
    assert not store.scope(user_id="ada").erase(sole_writer=True).may_linger
    assert holding(place, "zqvx") == []

"""What `durability="fsync"` promises: what a call wrote is on the disk before the call returns."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest
from core.sync.syncing import Witness

from lance_context_core import AsyncContextStore, ContextStore, Message, StorageError
from lance_context_core.storage.wal.table_log import TableLog
from lance_context_core.types import Document, Item


@pytest.fixture
def witness(tmp_path, monkeypatch):
    return Witness(tmp_path, monkeypatch)


@pytest.fixture
def place(tmp_path):
    """Two folders above the store are missing too."""
    return tmp_path / "new" / "newer" / "store"


def opened(place, **options):
    return AsyncContextStore.open(place, durability="fsync", **options)


async def _write_on_branch(store):
    branch = await store.branch("b")
    await branch.history.append("a", Message.user("there"), session_id="s")
    await branch.vectors("new").add([Document(id="d", text="t", embedding=[1.0])])


CALLS = [
    ("the first append", lambda s: s.history.append("a", Message.user("tea"), session_id="s")),
    ("an append", lambda s: s.history.append("a", Message.user("cup"), session_id="s")),
    ("an insert", lambda s: s.history.append("a", Message.user("x", id="x"), session_id="s")),
    ("a record with a vector", lambda s: s.context().add("user", "v", embedding=[1.0, 0.0])),
    ("an upsert", lambda s: s.context().upsert("user", "y", external_id="y")),
    ("a replacement", lambda s: s.context().upsert("user", "z", external_id="y")),
    ("a session", lambda s: s.sessions.create("s")),
    ("documents", lambda s: s.vectors("C").add([Document(id="d", text="t", embedding=[1.0])])),
    ("a tag", lambda s: s.tag("t")),
    ("the upkeep", lambda s: s.maintain()),
    ("a deletion", lambda s: s.history.clear("a", session_id="s")),
    ("a restored tag", lambda s: s.restore("t")),
    ("an append after it", lambda s: s.history.append("a", Message.user("9"), session_id="s")),
    ("a branch", lambda s: s.create_branch("b")),
    ("what is on it", _write_on_branch),
    ("a merge", lambda s: s.merge("b")),
    ("a branch that goes", lambda s: s.delete_branch("b")),
    ("an item", lambda s: s.kv("k").put([Item(key="k", value={"a": 1})])),
    ("an erasure", lambda s: s.erase(ids=["x"])),
    ("a tag that goes", lambda s: s.delete_tag("t")),
    ("a collection that goes", lambda s: s.vectors("C").delete_collection()),
    ("it made anew", lambda s: s.vectors("C").add([Document(id="d", text="t", embedding=[1.0])])),
]


@pytest.mark.slow
@pytest.mark.usefixtures("each_write_commits")
async def test_whatever_a_call_writes_is_synced_when_it_returns(place, witness):
    async with opened(place) as store:
        for what, call in CALLS:
            n_before = witness.n_syncs
            with witness.expects_all_synced(what):
                await call(store)
            assert witness.n_syncs > n_before, what


@pytest.mark.usefixtures("each_write_commits")
async def test_one_sync_serves_all_callers_of_a_commit(place, witness):
    async with opened(place) as store:
        await store.history.append("a", Message.user("the table is there"), session_id="s")
        version, n_before = await store.version(), witness.n_syncs
        with witness.expects_all_synced():
            await asyncio.gather(
                *(
                    store.history.append("a", Message.user(f"{n}"), session_id="s")
                    for n in range(50)
                )
            )
        # Data, transaction, manifest and hint, and the folders of the first three.
        assert witness.n_syncs - n_before <= 7 * (await store.version() - version)
        assert await store.version() - version < 25


async def test_the_name_of_the_journal_is_on_the_disk_when_it_acknowledges(place, witness):
    async with opened(place) as store:
        await store.history.append("a", Message.user("first"), session_id="s")
        assert "journal.sqlite" in witness.listed(place)


WRITE = """
import sys
from lance_context_core import ContextStore, Message
with ContextStore.open(sys.argv[1], journal=None) as store:
    for n in range(3):
        store.history.append("a", Message.user(f"other {n}"), session_id="s")
"""


@pytest.mark.usefixtures("each_write_commits")
async def test_what_others_wrote_and_a_commit_refers_to_is_synced_with_it(place, witness):
    async with opened(place) as store:
        with witness.expects_all_synced():
            await store.history.append("a", Message.user("first"), session_id="s")
            await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", WRITE, place], check=True
            )
            await store.history.append("a", Message.user("last"), session_id="s")


@pytest.mark.usefixtures("each_write_commits")
async def test_a_store_that_was_written_without_is_synced_by_the_first_write(place, witness):
    async with AsyncContextStore.open(place) as store:
        for n in range(3):
            await store.history.append("a", Message.user(f"{n}"), session_id="s")
    async with opened(place) as store:
        with witness.expects_all_synced():
            await store.history.append("a", Message.user("last"), session_id="s")
    data = {file.stat().st_ino for file in (place / "records.lance" / "data").iterdir()}
    assert data <= witness.files()


@pytest.mark.parametrize(("durability", "synchronous"), [("fsync", 2), ("process", 1)])
async def test_the_journal_is_synced_by_sqlite_before_a_call_returns(
    place, durability, synchronous
):
    async with AsyncContextStore.open(place, durability=durability) as store:
        await store.history.append("a", Message.user("tea"), session_id="s")
        journal = store._resources.database.connection.journal
        assert await journal.parts()
        (told,) = journal.log.shared().connection.execute("PRAGMA synchronous").fetchone()
    assert told == synchronous  # FULL, or NORMAL: https://www.sqlite.org/pragma.html


async def test_what_is_folded_is_synced_before_the_journal_forgets_it(place, witness, monkeypatch):
    async def forget(*_, **__):
        raise OSError("not yet")

    async with opened(place) as store:
        await store.history.append("a", Message.user("tea"), session_id="s")
        monkeypatch.setattr(TableLog, "forget", forget)
        n_before = witness.n_syncs
        with witness.expects_all_synced(), pytest.raises(OSError, match="not yet"):
            await store.flush()
        assert witness.n_syncs > n_before


async def test_what_the_journal_comes_to_know_is_synced_before(place, witness):
    async with AsyncContextStore.open(place, journal=None) as store:
        for n in range(2):
            await store.history.append("a", Message.user(f"{n}"), session_id="s")
    assert witness.n_syncs == 0
    async with opened(place) as store:
        await store.history.append("a", Message.user("in the journal"), session_id="s")
    data = {file.stat().st_ino for file in (place / "records.lance" / "data").iterdir()}
    assert len(data) == 2
    assert data <= witness.files()


@pytest.mark.usefixtures("each_write_commits")
async def test_a_collection_that_is_emptied_for_a_branch_has_it_is_synced(place, witness):
    async with opened(place) as store:
        await store.vectors("c").add([Document(id="d", text="t", embedding=[1.0])])
        await store.create_branch("b")
        with witness.expects_all_synced():
            await store.vectors("c").delete_collection()


async def test_without_it_nothing_is_synced(place, witness):
    async with AsyncContextStore.open(place) as store:
        await store.history.append("a", Message.user("tea"), session_id="s")
    assert witness.n_syncs == 0


async def test_no_event_loop_waits_for_the_disk(place, monkeypatch):
    threads = set()
    real = os.fsync

    def fsync(descriptor):
        threads.add(threading.get_ident())
        real(descriptor)
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()

    monkeypatch.setattr(os, "fsync", fsync)
    async with opened(place) as store:
        await store.history.append("a", Message.user("tea"), session_id="s")
        await store.sessions.create("s")
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.usefixtures("each_write_commits")
async def test_a_sync_that_fails_reaches_all_callers_and_ends_the_writing(place, monkeypatch):
    store = opened(place)
    await store.history.append("a", Message.user("sound"), session_id="s")

    def failing(_descriptor):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        told = await asyncio.gather(
            *(store.history.append("a", Message.user(f"{n}"), session_id="s") for n in range(5)),
            return_exceptions=True,
        )
    for error in told:
        assert type(error) is StorageError
        assert "Input/output error" in str(error)
    # Those of the commit after it are turned back before anything is written.
    [first, *_] = [str(one) for one in told if "nothing was written" not in str(one)]
    assert str(place / "records.lance") in first
    assert "may or may not survive a power cut" in first
    # The system forgets the failure once it is told: only opening anew begins anew.
    version = await store.version()
    with pytest.raises(StorageError, match="nothing was written: an earlier sync"):
        await store.history.append("a", Message.user("more"), session_id="s")
    assert await store.version() == version
    assert "sound" in [m.text for m in await store.history.get_messages("a", session_id="s")]
    await store.close()
    async with opened(place) as store:
        await store.history.append("a", Message.user("again"), session_id="s")
        texts = [m.text for m in await store.history.get_messages("a", session_id="s")]
    assert texts[0] == "sound"
    assert texts[-1] == "again"


@pytest.mark.usefixtures("each_write_commits")
def test_both_apis_promise_it(place, witness):
    with ContextStore.open(place, durability="fsync") as store, witness.expects_all_synced():
        store.history.append("a", Message.user("tea"), session_id="s")
    assert witness.n_syncs


async def test_an_object_store_is_durable_by_itself(s3_backend, witness):
    async with s3_backend.open(durability="fsync") as store:
        await store.history.append("a", Message.user("tea"), session_id="s")
        assert len(await store.history.get_messages("a", session_id="s")) == 1
    assert witness.n_syncs == 0

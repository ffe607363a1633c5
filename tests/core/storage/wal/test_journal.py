"""Small writes wait in the journal: nothing is lost or doubled on their way into the tables."""

import asyncio
import sqlite3
import threading

import pytest
from core.storage.journaling import SMALL, in_the_table, n_versions, opened, read, say

from lance_context_core import Document, InvalidRequestError, Item
from lance_context_core.storage.lance.committer import Committer
from lance_context_core.storage.wal.policy import JournalPolicy
from lance_context_core.storage.wal.sqlite import NAME
from lance_context_core.storage.wal.sqlite_log import SqliteLog


@pytest.fixture
def plain(open_store):
    """One beside it that writes no journal."""
    return open_store(maintenance=None, journal=None)


# What goes in, and comes out


async def test_what_is_said_is_read_before_it_is_in_a_table_and_after(store):
    await say(store, "one")
    await say(store, "two")
    assert await in_the_table(store) == []
    assert await read(store) == ["one", "two"]
    await store.flush()
    assert [row["text"] for row in await in_the_table(store)] == ["one", "two"]
    assert await read(store) == ["one", "two"]


async def test_many_small_writes_are_one_commit(store):
    await say(store, "first")
    await store.flush()
    before = await n_versions(store)
    for n in range(20):
        await say(store, f"{n}")
    await store.flush()
    assert await n_versions(store) == before + 1


async def test_a_flush_of_nothing_commits_nothing(store):
    await store.flush()
    await say(store, "one")
    await store.flush()
    before = await n_versions(store)
    await store.flush()
    assert await n_versions(store) == before


async def test_a_full_journal_is_folded_by_itself(open_store):
    store = open_store(maintenance=None, journal=JournalPolicy(rows=4))
    for n in range(4):
        await say(store, f"{n}")
    async with asyncio.timeout(300):
        while not await in_the_table(store):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    assert await read(store) == ["0", "1", "2", "3"]


async def test_it_waits_for_the_fold_when_there_is_far_too_much(open_store, monkeypatch):
    store = open_store(maintenance=None, journal=JournalPolicy(rows=1))
    monkeypatch.setattr("lance_context_core._loop.store_loop.spawn", lambda work: work.close())
    for n in range(20):
        await say(store, f"{n}")
    assert len(await in_the_table(store)) >= 8
    assert await read(store) == [f"{n}" for n in range(20)]


async def test_bulk_and_small_writes_keep_their_order_in_a_session(store, other):
    await say(store, "1")
    await say(other, "2", "3", "4", "5")
    await say(store, "6")
    await say(other, "7")
    await say(store, "8", "9", "10", "11")
    await say(store, "12")
    wanted = [f"{n}" for n in range(1, 13)]
    for one in (store, other):
        assert await read(one) == wanted
        assert await read(one, last=3) == wanted[-3:]
    await store.flush()
    assert await read(other) == wanted


async def test_what_waits_is_there_when_the_store_is_opened_again(open_store):
    async with open_store() as store:
        await say(store, "one")
        await store.kv().put([Item(key="k", value={"n": 1})])
    async with open_store() as store:
        await say(store, "two")
        assert await read(store) == ["one", "two"]
        assert (await store.kv().get([((), "k")]))[0].value == {"n": 1}


async def test_what_does_not_fit_the_table_is_refused_at_once_and_not_by_the_fold(store, other):
    await store.vectors().add([Document(id="a", text="x", embedding=[1.0, 0.0])])
    for one in (store, other):
        with pytest.raises(InvalidRequestError, match="3"):
            await one.vectors().add([Document(id="b", text="x", embedding=[1.0, 0.0, 0.0])])
    await store.flush()
    assert await other.vectors().count() == 1


# Others beside


async def test_two_stores_in_one_directory_see_each_other_s_writes_at_once(store, other):
    for n in range(6):
        await say((store, other)[n % 2], f"{n}")
        await store.kv().put([Item(key="k", value={"n": n})])
        for one in (store, other):
            assert await read(one) == [f"{m}" for m in range(n + 1)]
            assert (await one.kv().get([((), "k")]))[0].value == {"n": n}
            assert await one.history.count("a", session_id="s") == n + 1
        if n == 3:
            await other.flush()


async def test_a_store_without_a_journal_beside_others_reads_what_waits_and_writes_behind_it(
    store, plain
):
    await say(store, "1")
    assert await read(plain) == ["1"]
    await say(store, "2")
    await say(plain, "3")
    await say(store, "4")
    for one in (store, plain):
        assert await read(one) == ["1", "2", "3", "4"]
    await store.kv().put([Item(key="k", value={"of": "store"})])
    await plain.kv().put([Item(key="k", value={"of": "plain"})])
    assert (await store.kv().get([((), "k")]))[0].value == {"of": "plain"}
    await store.kv().delete([((), "k")])
    assert await plain.kv().get([((), "k")]) == [None]


async def test_without_a_journal_each_write_is_in_the_table_and_no_file_of_one_is_made(
    plain, tmp_path
):
    await say(plain, "one")
    await say(plain, "two")
    assert len(await in_the_table(plain)) == 2
    assert not list((tmp_path / "store").glob("journal.sqlite*"))


async def test_closing_moves_what_is_in_the_log_beside_the_event_loop(open_store, monkeypatch):
    store = open_store()
    await say(store, "one")
    threads = []
    let_go = SqliteLog._let_go

    def watched(self):
        if self.session is not None:
            threads.append(threading.get_ident())
        let_go(self)

    monkeypatch.setattr(SqliteLog, "_let_go", watched)
    await store.close()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_who_finds_the_journal_locked_waits_for_it_and_sees_what_comes_later(
    open_store, store, other, tmp_path
):
    async with open_store(maintenance=None) as first:
        await say(first, "one")
    holder = sqlite3.connect(tmp_path / "store" / NAME, isolation_level=None)
    holder.execute("PRAGMA journal_mode=DELETE")  # in which a lock keeps readers out, too
    holder.execute("BEGIN EXCLUSIVE")
    reading = asyncio.create_task(read(other))
    await asyncio.wait([reading], timeout=0.3)
    assert not reading.done()
    holder.execute("COMMIT")
    holder.close()
    assert await reading == ["one"]
    await say(store, "two")
    assert await read(other) == ["one", "two"]


async def test_the_version_of_items_changes_with_them_alone_and_for_everybody(store, other):
    seen = [await store.kv().version()]
    for n in range(3):
        await store.kv().put([Item(key="k", value={"n": n})])
        seen += {await one.kv().version() for one in (store, other)}
        await store.kv().get([((), "k")])
        await other.flush()
        assert await store.kv().version() == await other.kv().version() == seen[-1]
    await other.kv().delete([((), "k")])
    seen.append(await store.kv().version())
    assert len(seen) == 5
    assert seen == sorted(set(seen))


async def test_of_two_who_add_one_key_at_the_same_time_one_does(store, other):
    stores = [store, other] * 10
    told = await asyncio.gather(
        *(one.kv().add([Item(key="k", value={"n": n})]) for n, one in enumerate(stores))
    )
    assert [one for (one,) in told].count(True) == 1
    (n,) = [n for n, (one,) in enumerate(told) if one]
    assert (await other.kv().get([((), "k")]))[0].value == {"n": n}


async def test_a_commit_that_began_before_there_was_a_journal_is_seen_by_the_first_who_has_one(
    plain, store, monkeypatch
):
    await plain.kv().put([Item(key="other", value={})])
    is_held, may_go_on = threading.Event(), threading.Event()
    insist = Committer.insist

    async def insist_late(self, *args):
        is_held.set()
        while not may_go_on.is_set():  # noqa: ASYNC110 - it may be another loop's
            await asyncio.sleep(0.001)
        return await insist(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "insist", insist_late)
        first = asyncio.ensure_future(plain.kv().add([Item(key="k", value={"of": "plain"})]))
        assert await asyncio.to_thread(is_held.wait, 60)
    second = asyncio.ensure_future(store.kv().add([Item(key="k", value={"of": "store"})]))
    # If it does not wait, it has it by then.
    await asyncio.wait([second], timeout=0.3)
    may_go_on.set()
    assert (await first, await second) == ([True], [False])
    for one in (plain, store):
        (item,) = await one.kv().get([((), "k")])
        assert item.value == {"of": "plain"}


# What names a version


async def test_a_version_that_is_tagged_has_what_waited(store):
    await say(store, "one")
    await store.tag("first")
    await say(store, "two")
    assert await read(await store.checkout("first")) == ["one"]
    assert await read(store) == ["one", "two"]


async def test_a_version_shows_what_was_written_before_it_into_other_tables(open_store):
    store = open_store(maintenance=None, journal=SMALL, search_cache=None)
    await store.context().add("user", "tea")
    await store.flush()
    await store.kv().put([Item(key="k", value={"n": 1})])
    await store.context().add("user", "milk")
    assert len(await store.search("milk", mode="text")) == 1
    await store.kv().put([Item(key="k", value={"n": 2})])
    view = await store.checkout(await store.version())
    assert [one["text"] for one in await view.context().list()] == ["tea", "milk"]
    assert [one.value for one in await view.kv().list()] == [{"n": 1}]


async def test_a_commit_beside_the_journal_has_what_was_written_before_it_into_other_tables(store):
    await store.kv().put([Item(key="k", value={"n": 1})])
    await store.vectors("c").add([Document(id="a", text="a", embedding=[1.0, 0.0])])
    # More than is small: these are a version at once.
    await say(store, "one", "two", "three", "four")
    number = await store.version()
    await store.kv().put([Item(key="k", value={"n": 2})])
    view = await store.checkout(number)
    assert await read(view) == ["one", "two", "three", "four"]
    assert [one.value for one in await view.kv().list()] == [{"n": 1}]
    assert len(await view.vectors("c").list()) == 1


async def test_what_is_written_while_other_tables_are_folded_is_in_no_version_without_the_rest(
    store,
):
    commits = store._resources.records.access.commits
    fold_others = commits.before

    async def others_write_meanwhile():
        commits.before = fold_others
        await fold_others()
        await store.kv().put([Item(key="k", value={"n": 1})])
        await say(store, "two")

    await store.kv().put([Item(key="j", value={"n": 1})])
    await say(store, "one")
    commits.before = others_write_meanwhile
    await commits.settle()
    view = await store.checkout(int(await (await opened(store, "records")).version()))
    assert await read(view) == ["one"]
    assert [one.key for one in await view.kv().list()] == ["j"]
    assert await read(store) == ["one", "two"]


async def test_the_number_that_a_write_returns_leads_to_what_was_written(store):
    done = await store.context().add("user", "one")
    await store.context().add("user", "two")
    earlier = await (await store.checkout(done.version)).context().list()
    assert "one" in [one["text"] for one in earlier]


async def test_a_restored_version_leaves_nothing_waiting_that_came_after_it(store):
    await say(store, "one")
    await store.tag("first")
    await say(store, "two")
    await store.restore("first")
    await store.flush()
    assert await read(store) == ["one"]
    await say(store, "three")
    assert await read(store) == ["one", "three"]

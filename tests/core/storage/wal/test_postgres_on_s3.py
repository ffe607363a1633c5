"""A store on an object store whose log is in PostgreSQL: what only these two together can break."""

import asyncio
import gc
from contextlib import suppress
from datetime import timedelta

import obstore
import pytest
from core.storage.journaling import in_the_table, read, say

from lance_context_core import ContextStore
from lance_context_core._util.crowd import FairLock
from lance_context_core.errors import NotFoundError, StorageError
from lance_context_core.settings import JournalPolicy
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.wal import object_id, sqlite_log
from lance_context_core.storage.wal.object_id import ObjectId
from lance_context_core.storage.wal.postgres import server as servers


@pytest.fixture
def place(s3_server):
    """A new place in an object store."""
    return s3_server.backend()


@pytest.fixture
def database(postgres_server, request):
    """The address of a database of its own."""
    name = f"o{abs(hash(request.node.nodeid))}"
    yield postgres_server.database(name)
    servers._server_of.cache_clear()
    for known in [one for one in gc.get_objects() if isinstance(one, servers.Server)]:
        known.close()


@pytest.fixture
def open_there(place):
    """Opens asynchronous stores in that place, and closes them in the end."""
    opened = []

    def open_(address, **options):
        store = ContextStore.open(
            place.uri,
            **{"storage_options": place.storage_options, "journal": address, "maintenance": None}
            | options,
        ).aio
        opened.append(store)
        return store

    yield open_
    for store in opened:
        asyncio.run(store.close())


def id_of(place):
    return ObjectId(place.uri, place.storage_options)


async def test_another_handle_reads_what_was_written_before_and_after_a_flush(database, open_there):
    one, other = open_there(database), open_there(database)
    await say(one, "a", "b")
    assert await read(other) == ["a", "b"]
    assert await in_the_table(one) == []
    await other.flush()
    assert len(await in_the_table(one)) == 2
    await say(other, "c")
    assert await read(one) == ["a", "b", "c"]
    assert (await one.verify()).problems == ()


async def test_a_small_write_makes_no_request_to_the_object_store(
    database, open_there, monkeypatch
):
    store = open_there(database)
    await say(store, "a")
    monkeypatch.setattr(TableHandle, "opened", None)
    monkeypatch.setattr(TableHandle, "peek", None)
    await say(store, "b")


@pytest.mark.parametrize("journal", [None, JournalPolicy()], ids=["no-log", "no-address"])
async def test_without_the_address_the_store_is_refused(database, open_there, journal):
    await say(open_there(database), "a")
    with pytest.raises(StorageError, match="has its write-ahead log in PostgreSQL: open it with"):
        await read(open_there(journal))
    with pytest.raises(StorageError, match="has its write-ahead log in PostgreSQL: open it with"):
        await say(open_there(journal), "b")


async def test_a_store_that_is_only_read_reads_the_log_and_is_refused_if_absent(
    database, open_there
):
    absent = open_there(database, read_only=True)
    with pytest.raises(NotFoundError, match="no store exists"):
        await read(absent)
    await say(open_there(database), "a")
    assert await read(open_there(database, read_only=True)) == ["a"]


async def test_the_log_is_no_table_of_the_store(database, open_there):
    store = open_there(database)
    await say(store, "a")
    names = await store._resources.database.table_names()
    assert "records" in names
    assert object_id.TABLE not in names


async def test_of_two_creators_with_two_databases_one_has_the_store(
    postgres_server, open_there, request
):
    name = f"t{abs(hash(request.node.nodeid))}"
    stores = [open_there(postgres_server.database(f"{name}{n}")) for n in range(2)]
    done = await asyncio.gather(*(say(one, "a") for one in stores), return_exceptions=True)
    (loser,) = [n for n, one in enumerate(done) if isinstance(one, Exception)]
    assert "has no write-ahead log of this store" in str(done[loser])
    assert await read(stores[1 - loser]) == ["a"]
    with pytest.raises(StorageError, match="has no write-ahead log of this store"):
        await read(stores[loser])


async def test_creators_at_the_same_time_lose_nothing(database, open_there):
    stores = [open_there(database) for _ in range(5)]
    await asyncio.gather(*(say(one, f"{n}", session="s") for n, one in enumerate(stores)))
    assert sorted(await read(stores[0])) == ["0", "1", "2", "3", "4"]


def test_an_id_is_written_once(place):
    assert asyncio.run(id_of(place).read()) is None
    assert asyncio.run(id_of(place).write("one"))
    assert not asyncio.run(id_of(place).write("two"))
    assert asyncio.run(id_of(place).read()) == "one"
    id_of(place).forget()
    assert asyncio.run(id_of(place).read()) is None


def test_options_that_only_the_engine_knows_are_left_out(place):
    options = {**place.storage_options, "new_table_enable_stable_row_ids": "true"}
    assert asyncio.run(ObjectId(place.uri, options).write("one"))
    assert asyncio.run(id_of(place).read()) == "one"


def test_a_damaged_id_is_an_error_that_names_the_object(place):
    id = id_of(place)
    assert asyncio.run(id.write("one"))
    obstore.put(id._objects, object_id._OBJECT, b"postgres-one 00000000\n")
    with pytest.raises(StorageError, match=r"'journal\.lance/journal\.id' .* is damaged"):
        asyncio.run(id_of(place).read())


def test_an_object_store_without_access_is_an_error_without_a_secret(place):
    options = {**place.storage_options, "aws_endpoint": "http://127.0.0.1:1"}
    options |= {"aws_secret_access_key": "s3cret-of-the-bucket"}
    with pytest.raises(StorageError, match="check the bucket") as error:
        asyncio.run(ObjectId(place.uri, options).read())
    assert "s3cret" not in repr(error.value)
    assert error.value.__cause__ is None


async def test_a_flush_that_lost_its_lock_commits_nothing(
    database, open_there, postgres_server, monkeypatch
):
    """Its connection ends between its last look at the lock and its commit, as if it was stopped."""
    # Another machine, as far as the queue of this process goes.
    monkeypatch.setattr(sqlite_log, "_queue", lambda _: FairLock())
    slow, other = open_there(database), open_there(database)
    await say(slow, "a", "b")
    await read(other)
    loop = asyncio.get_running_loop()
    reached, go_on = loop.create_future(), loop.create_future()
    committing = slow._resources.database.records.access.commits.fold.__self__
    commit = committing._commit

    async def late(*given, **named):
        if not reached.done():
            reached.set_result(None)
            await go_on
        return await commit(*given, **named)

    monkeypatch.setattr(committing, "_commit", late)
    flushing = asyncio.ensure_future(slow.flush())
    await asyncio.wait_for(reached, 30)
    postgres_server.run(
        "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
        f"WHERE l.locktype = 'advisory' AND d.datname = '{database.split('/')[3].split('?')[0]}'"
    )
    await other.flush()
    await say(other, "c")
    go_on.set_result(None)
    with pytest.raises(StorageError, match="lost its lock of the store"):
        await flushing
    assert await read(other) == await read(slow) == ["a", "b", "c"]
    await slow.flush()
    assert await in_the_table(other) == await in_the_table(slow)
    assert len(await in_the_table(other)) == 3
    assert await read(other) == await read(slow) == ["a", "b", "c"]


async def test_what_a_killed_committer_left_unnoted_is_not_written_twice(
    database, open_there, monkeypatch
):
    store = open_there(database)
    await say(store, "a", "b")

    async def die(*_, **__):
        raise KeyboardInterrupt

    ledger = store._resources.database.records.access.ledger
    monkeypatch.setattr(ledger, "forget", die)
    with suppress(KeyboardInterrupt):
        await store.flush()
    assert len(await in_the_table(store)) == 2
    other = open_there(database, read_consistency=timedelta(0))
    assert await read(other) == ["a", "b"]
    await other.flush()
    assert len(await in_the_table(other)) == 2
    assert await read(other) == ["a", "b"]

"""A store in a directory whose log is in PostgreSQL: what users see of it, and of its failures."""

import asyncio
import gc
import logging
import shutil
import subprocess
import sys
import threading
import traceback
from contextlib import nullcontext, suppress
from datetime import timedelta

import postgres
import psycopg
import pytest
from core.storage.journaling import in_the_table, read, say

from lance_context_core import ContextStore, Item, Message
from lance_context_core.errors import (
    InvalidRequestError,
    StorageError,
    StoreFormatError,
)
from lance_context_core.settings import JournalPolicy
from lance_context_core.storage.wal.postgres import schema
from lance_context_core.storage.wal.postgres import server as servers

PATIENCE = 2
KEY = (("n",), "k")
ITEM = Item(namespace=("n",), key="k", value={"n": 1})


@pytest.fixture
def database(postgres_server, request):
    """The address of a database of its own."""
    name = f"d{abs(hash(request.node.nodeid))}"
    yield postgres_server.database(name)
    for known in all_servers():
        known.close()


def all_servers():
    """Those that this process has connections to."""
    servers._server_of.cache_clear()
    return [one for one in gc.get_objects() if isinstance(one, servers.Server)]


@pytest.fixture
def open_there(tmp_path):
    """Opens asynchronous stores in directories of the test, and closes them in the end."""
    opened = []

    def open_(address, name="store", **options):
        store = ContextStore.open(tmp_path / name, journal=address, maintenance=None, **options).aio
        opened.append(store)
        return store

    yield open_
    for store in opened:
        asyncio.run(store.close())


async def test_another_handle_reads_what_was_written_before_and_after_a_flush(database, open_there):
    one, other = open_there(database), open_there(database)
    await say(one, "a", "b")
    assert await read(other) == ["a", "b"]
    assert await in_the_table(one) == []
    await other.flush()
    assert len(await in_the_table(one)) == 2
    await say(other, "c")
    assert await read(one) == ["a", "b", "c"]


async def test_writers_that_outrun_each_other_lose_and_reorder_nothing(database, open_there):
    stores = [open_there(database) for _ in range(3)]

    async def write(number, store):
        for n in range(25):
            await say(store, f"{number}-{n}", session="all")
            await say(store, f"{n}", session=f"s{number}")

    await asyncio.gather(*(write(*one) for one in enumerate(stores)))
    found = await read(stores[0], "all")
    assert sorted(found) == sorted(f"{k}-{n}" for k in range(3) for n in range(25))
    for number, store in enumerate(stores):
        mine = [one for one in found if one.startswith(f"{number}-")]
        assert mine == [f"{number}-{n}" for n in range(25)]
        assert await read(store, "all") == found
        assert await read(stores[0], f"s{number}") == [str(n) for n in range(25)]


async def test_a_transaction_of_two_tables_is_written_whole_or_not_at_all(database, open_there):
    store, other = open_there(database), open_there(database)
    async with store.transaction() as tx:
        await tx.history.append("a", Message.user("one"), session_id="s")
        await tx.kv().put([ITEM])
    assert (await other.kv().get([KEY]))[0].value == {"n": 1}
    with suppress(ZeroDivisionError):
        async with store.transaction() as tx:
            await tx.history.append("a", Message.user("two"), session_id="s")
            raise ZeroDivisionError
    assert await read(other) == ["one"]


async def test_a_writer_that_was_outrun_by_a_write_to_another_table_shows_its_row_once(
    database, open_there
):
    store, other = open_there(database), open_there(database)
    await other.kv().put([ITEM])
    said = [str(n) for n in range(8)]
    for text in said:
        await say(store, text)
    assert store._resources.database.connection.journal.log.session._hopes
    await other.kv().put([ITEM])
    await say(store, "mine")
    await say(other, "of another")
    assert await read(store) == await read(other) == [*said, "mine", "of another"]


async def test_no_call_of_the_server_is_made_in_the_thread_of_an_event_loop(
    database, open_there, monkeypatch
):
    threads, borrow = set(), servers.Server.borrow

    def noted(self):
        threads.add(threading.get_ident())
        return borrow(self)

    monkeypatch.setattr(servers.Server, "borrow", noted)
    store, other = open_there(database), open_there(database)
    await say(store, "a", "b")
    await other.kv().put([ITEM])
    assert (await store.kv().get([KEY]))[0].value == {"n": 1}
    await asyncio.gather(*(say(one, "c") for one in (store, other) * 4))
    await store.flush()
    await other.erase(filter={"session_id": "s"})
    assert await read(store) == []
    assert threads
    assert threading.get_ident() not in threads


async def test_a_write_and_a_read_are_one_call_each_and_two_after_a_lost_race(
    database, open_there, monkeypatch
):
    trips, execute, pipeline = [], psycopg.Connection.execute, psycopg.Connection.pipeline
    store, other = open_there(database), open_there(database)
    for n in range(8):
        await say(store, str(n))
    await read(store)
    await read(store)

    def executed(self, statement, *given, **named):
        if self.pgconn.pipeline_status == psycopg.pq.PipelineStatus.OFF:
            trips.append(statement)
        return execute(self, statement, *given, **named)

    monkeypatch.setattr(psycopg.Connection, "execute", executed)
    monkeypatch.setattr(
        psycopg.Connection, "pipeline", lambda self: trips.append("pipeline") or pipeline(self)
    )

    async def n_trips(doing):
        trips.clear()
        await doing
        return len(trips)

    assert await n_trips(say(store, "a")) == 1
    assert await n_trips(read(store)) == 1
    await say(other, "b")
    await say(store, "c")
    # The lock with a look at what is new, and the commit with all that was written.
    assert await n_trips(say(store, "d")) == 2, trips
    assert await read(other) == [*map(str, range(8)), "a", "b", "c", "d"]


async def test_no_text_shows_the_password(database, open_there, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    store = open_there(database)
    await say(store, "a")
    texts = [repr(store), repr(await store.stats()), str(JournalPolicy(address=database))]
    texts += [repr(store._resources.database.connection.journal.log.path)]
    for address in (
        database.replace("/d", "/missing"),
        database.replace("postgres:", "nobody_here:"),
        database.replace("host=", "host=%2Fnowhere"),
        f"postgresql://u:{postgres.PASSWORD}@x@127.0.0.1/db",
        f"mysql://u:{postgres.PASSWORD}@127.0.0.1/db",
        f"postgresql://u:{postgres.PASSWORD}@127.0.0.1:port/db",
    ):
        with pytest.raises((StorageError, InvalidRequestError)) as caught:
            await say(open_there(f"{address}", name=f"s{len(texts)}"), "a")
        texts += ["".join(traceback.format_exception(caught.value))]
    assert len(texts) == 10
    assert not [one for one in [*texts, caplog.text] if postgres.PASSWORD in one]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        pytest.param("{database}_gone", "has no database", id="a database that does not exist"),
        pytest.param("postgresql://nobody_here@/postgres?host={host}", "has no role", id="a role"),
        pytest.param(
            "postgresql://u@127.0.0.1:1/db?connect_timeout=2", "does not answer", id="a closed port"
        ),
    ],
)
async def test_a_wrong_address_is_refused_and_nothing_is_made(
    address, words, database, postgres_server, open_there, tmp_path
):
    name = database.partition("@/")[2].partition("?")[0]
    host = postgres_server.folder
    given = address.format(database=f"postgresql://postgres@/{name}", host=host)
    if given.endswith("_gone"):
        given += f"?host={host}"
    store = open_there(given)
    with pytest.raises(StorageError, match=words):
        await say(store, "a")
    assert not [*tmp_path.glob("store/journal.*")]


async def test_a_server_of_an_older_or_newer_version_is_refused(database, open_there, monkeypatch):
    monkeypatch.setattr(servers, "NEWEST", 17)
    with pytest.raises(StorageError, match=r"version 18, .*version 15 to 17"):
        await say(open_there(database), "a")


@pytest.mark.process
@pytest.mark.parametrize("version", [15, 16])
async def test_an_older_server_that_is_supported_serves_a_store(version, open_there):
    if postgres.programs(version) is None:
        pytest.skip(f"PostgreSQL {version} is not installed")
    with postgres.PostgresServer(version=version) as server:
        store = open_there(server.address())
        await say(store, "a")
        await store.kv().put([ITEM])
        await store.flush()
        await say(store, "b")
        assert await read(open_there(server.address())) == ["a", "b"]


async def test_a_schema_of_a_newer_release_is_refused(database, postgres_server, open_there):
    store = open_there(database)
    await say(store, "a")
    name = database.partition("@/")[2].partition("?")[0]
    postgres_server.run("UPDATE lance_context.format SET number = 99", name)
    with pytest.raises(StoreFormatError, match=r"format 99.*upgrade"):
        await read(open_there(database))


async def test_a_role_without_rights_is_refused_and_one_with_the_schema_suffices(
    database, postgres_server, open_there, tmp_path
):
    name = database.partition("@/")[2].partition("?")[0]
    role = f"r{name}"
    postgres_server.run(f"CREATE ROLE {role} LOGIN", name)
    address = database.replace("//postgres:", f"//{role}:")
    with pytest.raises(StorageError, match=rf"role '{role}'.*grant it CREATE"):
        await say(open_there(address), "a")
    assert not (tmp_path / "store" / "journal.id").exists()
    postgres_server.run(f"CREATE SCHEMA lance_context AUTHORIZATION {role}", name)
    store = open_there(address)
    await say(store, "a")
    await store.flush()
    assert await read(store) == ["a"]


async def test_a_copy_with_the_same_id_is_refused_until_the_loss_is_accepted(
    database, open_there, tmp_path
):
    store = open_there(database)
    await say(store, "a")
    await store.flush()
    await say(store, "b")
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    copy = open_there(database, "copy")
    with pytest.raises(StorageError, match="is in another place, too"):
        await read(copy)
    await copy.accept_loss()
    await say(copy, "c")
    assert await read(copy) == ["a", "c"]
    assert await read(store) == ["a", "b"]


async def test_a_store_that_was_moved_keeps_its_log(database, open_there, tmp_path):
    store = open_there(database)
    await say(store, "a")
    await store.close()
    (tmp_path / "store").rename(tmp_path / "moved")
    assert await read(open_there(database, "moved")) == ["a"]


async def test_a_database_that_does_not_know_the_store_is_refused(
    database, postgres_server, open_there
):
    await say(open_there(database), "a")
    other = postgres_server.database(f"o{abs(hash(database))}")
    with pytest.raises(StorageError, match="has no write-ahead log of this store"):
        await read(open_there(other))


async def test_a_store_is_opened_with_the_kind_of_log_that_it_has(database, open_there):
    await say(open_there(database), "a")
    with pytest.raises(StorageError, match="has its write-ahead log in PostgreSQL"):
        await read(open_there(JournalPolicy()))
    await say(open_there(JournalPolicy(), "in a file"), "a")
    with pytest.raises(StorageError, match=r"has a write-ahead log there, journal\.sqlite"):
        await say(open_there(database, "in a file"), "b")


def test_memory_has_no_log_elsewhere():
    with pytest.raises(InvalidRequestError, match="memory://") as error:
        ContextStore.open("memory://", journal=f"postgresql://u:{postgres.PASSWORD}@127.0.0.1/db")
    assert postgres.PASSWORD not in str(error.value)


async def test_a_schema_of_the_first_format_is_brought_up_to_date(
    database, open_there, postgres_server
):
    await say(open_there(database), "a")
    name = database.split("/")[3].split("?")[0]
    postgres_server.run("ALTER TABLE lance_context.stores DROP COLUMN is_free", name)
    postgres_server.run("DROP FUNCTION lance_context.append", name)
    postgres_server.run("UPDATE lance_context.format SET number = 1", name)
    store = open_there(database)
    assert await read(store) == ["a"]
    await store.flush()
    assert postgres_server.run("SELECT number FROM lance_context.format", name) == [
        str(schema.FORMAT)
    ]


@pytest.mark.process
async def test_while_the_server_is_gone_writes_fail_reads_may_be_old_and_it_comes_back(open_there):
    with postgres.PostgresServer() as server:
        address = server.address(connect_timeout=PATIENCE)
        store = open_there(address)
        relaxed = open_there(address, read_consistency=timedelta(hours=1))
        await say(store, "a")
        assert await read(relaxed) == ["a"]
        server.stop()
        with pytest.raises(StorageError, match="does not answer, nothing was written"):
            await say(store, "lost")
        with pytest.raises(StorageError, match="does not answer"):
            await read(store)
        assert await read(relaxed) == ["a"]
        server.start()
        await say(store, "b")
        assert await read(store) == ["a", "b"]


async def test_a_write_that_is_cut_off_says_what_is_in_doubt_and_may_be_repeated(
    database, open_there, monkeypatch
):
    store = open_there(database)
    await say(store, "a")
    for n in range(5):
        await say(store, f"{n}")

    def cut_off(server):
        raise server.meaning(psycopg.OperationalError("closed"))

    session = store._resources.database.connection.journal.log.session
    with monkeypatch.context() as patched:
        patched.setattr(type(session._server), "borrow", cut_off)
        with pytest.raises(StorageError, match="may have been committed or not"):
            await say(store, "in doubt")
    await say(store, "after")
    assert await read(store) in (
        ["a", *map(str, range(5)), "after"],
        ["a", *map(str, range(5)), "in doubt", "after"],
    )


@pytest.mark.process
async def test_fsync_asks_for_commits_that_wait_for_the_disk(open_there):
    with postgres.PostgresServer(settings=["synchronous_commit=off"]) as server:
        for durability, setting in (("process", "off"), ("fsync", "on")):
            store = open_there(server.address(), durability, durability=durability)
            await say(store, "a")
            log = store._resources.database.connection.journal.log
            with log._server.connection() as connection:
                assert connection.execute("SHOW synchronous_commit").fetchone() == (setting,)


async def test_a_log_that_went_back_is_refused_until_the_loss_is_accepted(
    database, postgres_server, open_there
):
    store = open_there(database)
    await say(store, "a", "b", "c")
    name = database.partition("@/")[2].partition("?")[0]
    # As after a failover that lost the last transaction.
    postgres_server.run("DELETE FROM lance_context.entries WHERE seq > 1", name)
    postgres_server.run("UPDATE lance_context.stores SET last = 1", name)
    with pytest.raises(StorageError, match="went back from position 3 to 1"):
        await read(store)
    with pytest.raises(StorageError, match="went back"):
        await say(store, "d")
    await store.accept_loss()
    await say(store, "d")
    assert await read(store) == ["a", "d"]


async def test_a_flush_that_lost_its_lock_commits_nothing(database, postgres_server, open_there):
    store, other = open_there(database), open_there(database)
    await say(store, "a", "b")
    log = store._resources.database.connection.journal.log
    name = database.partition("@/")[2].partition("?")[0]
    begun, go_on = threading.Event(), threading.Event()
    flushing = type(log).require_held

    async def pause(self):
        begun.set()
        await asyncio.to_thread(go_on.wait, 30)
        await flushing(self)

    # As on two machines: the file that excludes the processes of one is left out.
    for one in (log, other._resources.database.connection.journal.log):
        one._guard = lambda **_: nullcontext()
    log.require_held = pause.__get__(log)
    flush = asyncio.create_task(store.flush())
    await asyncio.to_thread(begun.wait, 30)
    ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    postgres_server.run(ended, name)
    await other.flush()
    go_on.set()
    with pytest.raises(StorageError, match="lost its lock"):
        await flush
    del log.require_held
    assert [row["text"] for row in await in_the_table(other)] == ["a", "b"]
    assert await read(store) == await read(other) == ["a", "b"]


async def test_an_erasure_takes_the_entries_out_of_the_database(
    database, postgres_server, open_there
):
    store = open_there(database)
    mine = store.scope(user_id="ann")
    await say(mine, "a secret")
    name = database.partition("@/")[2].partition("?")[0]
    held = "SELECT count(*) FROM lance_context.entries WHERE position('a secret'::bytea IN payload) > 0"
    assert postgres_server.run(held, name) == ["1"]
    await mine.erase()
    assert postgres_server.run(held, name) == ["0"]


WRITER = """
import sys
from lance_context_core import ContextStore, Message

place, address, name = sys.argv[1:]
with ContextStore.open(place, journal=address) as store:
    for n in range(60):
        store.history.append("agent", Message.user(f"{name}-{n}"), session_id=name)
        store.history.append("agent", Message.user(f"{name}-{n}"), session_id="shared")
"""


@pytest.mark.process
def test_processes_that_write_at_once_lose_and_reorder_nothing(database, tmp_path):
    names = ["ann", "ben", "cid"]
    place = str(tmp_path / "store")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, place, database, name]) for name in names
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    with ContextStore.open(place, journal=database) as store:
        shared = [one.text for one in store.history.get_messages("agent", session_id="shared")]
        for name in names:
            wanted = [f"{name}-{n}" for n in range(60)]
            own = store.history.get_messages("agent", session_id=name)
            assert [one.text for one in own] == wanted
            assert [one for one in shared if one.startswith(name)] == wanted
    assert len(shared) == 180

"""Operations on a whole store whose log is in PostgreSQL take turns, on whichever machines they are."""

import asyncio
import gc
import json
import sys
from contextlib import nullcontext
from contextvars import Context

import pytest
from core.storage.journaling import say

from lance_context_core import ContextStore
from lance_context_core.errors import ConflictError, StorageError
from lance_context_core.maintenance import maintenance
from lance_context_core.maintenance.maintenance import Upkeep
from lance_context_core.settings import Maintenance
from lance_context_core.storage import file_locks
from lance_context_core.storage.wal.postgres import server as servers
from lance_context_core.versioning.locations import turn
from lance_context_core.versioning.merge import _Merge


@pytest.fixture
def database(postgres_server, request):
    """The address of a database of its own."""
    name = f"l{abs(hash(request.node.nodeid))}"
    yield postgres_server.database(name)
    servers._server_of.cache_clear()
    for known in [one for one in gc.get_objects() if isinstance(one, servers.Server)]:
        known.close()


@pytest.fixture(params=["directory", "object-store"])
def place(request, tmp_path):
    """The address and the options of a new place."""
    if request.param == "directory":
        return str(tmp_path / "store"), None
    found = request.getfixturevalue("s3_server").backend()
    return found.uri, found.storage_options


@pytest.fixture
def open_there(place, database, monkeypatch):
    """Opens asynchronous stores in that place, as on one machine each, and closes them in the end."""
    opened = []
    # A file excludes those of one machine alone.
    monkeypatch.setattr(file_locks, "locked", lambda *_, **__: nullcontext())

    def open_():
        uri, options = place
        opened.append(
            ContextStore.open(uri, storage_options=options, journal=database, maintenance=None).aio
        )
        return opened[-1]

    yield open_
    for store in opened:
        asyncio.run(store.close())


def connection_of(store):
    return store._resources.database.connection


def begun(work):
    """A task of another one, who is in no turn of this one."""
    return asyncio.get_running_loop().create_task(work, context=Context())


async def is_free(store):
    try:
        async with turn(connection_of(store), patience_seconds=0):
            return True
    except ConflictError:
        return False


async def wait_for_the_turn(store):
    async with turn(connection_of(store)):
        pass


async def texts(store):
    return sorted(one["content"] for one in await store.context().list())


async def put(store, *ids):
    for one in ids:
        await store.context().add("user", f"text of {one}", id=one)


def paused(monkeypatch):
    """Merges wait once they have the rows to write; returns the future of one that does, and what ends it."""
    loop = asyncio.get_running_loop()
    reached, go_on = loop.create_future(), loop.create_future()
    changes = _Merge._changes

    async def late(self):
        found = await changes(self)
        if not reached.done():
            reached.set_result(None)
        await asyncio.wait_for(asyncio.shield(go_on), 60)
        return found

    monkeypatch.setattr(_Merge, "_changes", late)
    return reached, go_on


async def branched(store):
    """A branch with a row that main lacks."""
    await put(store, "a")
    branch = await store.create_branch("b")
    await put(branch, "secret")
    return branch


async def test_one_store_at_a_time_has_the_turn(open_there):
    one, other = open_there(), open_there()
    await say(one, "a")
    async with turn(connection_of(one)):
        assert not await begun(is_free(other))
        assert not await begun(is_free(one))
        assert await is_free(one)  # an operation that calls another one
        waiting = begun(other.thin())
        await asyncio.wait([waiting], timeout=0.3)
        assert not waiting.done()
    await waiting
    assert await begun(is_free(one))


async def test_a_cancelled_waiter_leaves_the_turn_free(open_there):
    one, other = open_there(), open_there()
    await say(one, "a")
    async with turn(connection_of(one)):
        waiting = begun(wait_for_the_turn(other))
        await asyncio.wait([waiting], timeout=0.1)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert await begun(is_free(one))


@pytest.mark.parametrize("verb", ["erase", "thin"])
async def test_a_verb_waits_for_a_merge_and_nothing_erased_comes_back(
    open_there, monkeypatch, verb
):
    one, other = open_there(), open_there()
    branch = await branched(one)
    reached, go_on = paused(monkeypatch)
    merging = begun(one.merge("b"))
    await asyncio.wait_for(reached, 30)
    work = begun(other.erase(ids=["secret"]) if verb == "erase" else other.thin())
    await asyncio.wait([work], timeout=0.5)
    assert not work.done()
    go_on.set_result(None)
    await merging
    await work
    left = [] if verb == "erase" else ["text of secret"]
    assert await texts(one) == await texts(other) == ["text of a", *left]
    assert await texts(branch) == ["text of a", *left]


async def test_a_merge_that_lost_its_turn_brings_nothing_erased_back(
    open_there, monkeypatch, database, postgres_server
):
    one, other = open_there(), open_there()
    await branched(one)
    reached, go_on = paused(monkeypatch)
    merging = begun(one.merge("b"))
    await asyncio.wait_for(reached, 30)
    name = database.partition("@/")[2].partition("?")[0]
    ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    postgres_server.run(ended, name)
    assert (await begun(other.erase(ids=["secret"]))).records == 1
    go_on.set_result(None)
    with pytest.raises(StorageError, match="lost its lock"):
        await merging
    assert await texts(other) == await texts(one) == ["text of a"]


async def test_who_holds_a_table_keeps_other_machines_from_maintaining_it(open_there, monkeypatch):
    monkeypatch.setattr(maintenance, "_PATIENCE_SECONDS", 0.2)
    one, other = open_there(), open_there()
    await say(one, "a")
    await one.flush()
    ours, theirs = (
        Upkeep(store._resources.database, store._resources.clock, settings=Maintenance())
        for store in (one, other)
    )
    asked = {"policy": None, "only_due": False}
    async with ours.hold([one._resources.records]):
        (done,) = await theirs.maintain([other._resources.records], **asked)
        assert done.skipped == "another process maintains it"
    (done,) = await theirs.maintain([other._resources.records], **asked)
    assert done.skipped is None


async def test_the_locks_of_a_store_need_one_connection(open_there, database, postgres_server):
    one = open_there()
    await say(one, "a")
    names = ["records", "sessions", "documents"]
    upkeep = Upkeep(one._resources.database, one._resources.clock, settings=None)
    tables = [one._resources.database.table(name, one._resources.records.spec) for name in names]
    name = database.partition("@/")[2].partition("?")[0]
    pids = "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    async with turn(connection_of(one)), upkeep.hold(tables):
        assert postgres_server.run(pids, name) == ["1"]
    assert postgres_server.run(pids, name) == ["0"]


HOLDER = """
import asyncio, json, sys
from lance_context_core import ContextStore
from lance_context_core.versioning.locations import turn

async def main():
    uri, options, address = json.loads(sys.argv[1])
    store = ContextStore.open(uri, storage_options=options, journal=address).aio
    async with turn(store._resources.database.connection):
        print("held", flush=True)
        await asyncio.sleep(120)

asyncio.run(main())
"""


@pytest.mark.process
async def test_a_killed_process_keeps_no_turn(open_there, place, database):
    store = open_there()
    await say(store, "a")
    given = ["-c", HOLDER, json.dumps([*place, database])]
    holder = await asyncio.create_subprocess_exec(
        sys.executable, *given, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert (await holder.stdout.readline()).strip() == b"held"
        assert not await is_free(store)
        erasing = begun(store.erase(ids=["none"]))
        await asyncio.wait([erasing], timeout=0.3)
        assert not erasing.done()
    finally:
        holder.kill()
        await holder.wait()
    await asyncio.wait_for(erasing, 30)

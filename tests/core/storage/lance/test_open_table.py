"""Many make the same table at the same moment: one does, and nothing that anybody wrote is lost."""

import asyncio
import subprocess
import sys

import lancedb
import pytest
from core.conformance.doubles import WordVectors
from proofs.soak.fates import calm
from proofs.soak.proxy import Proxy

from lance_context_core import AsyncContextStore, Message, StorageError
from lance_context_core.storage.lance import open_table
from lance_context_core.storage.lance.open_table import STABLE_ROW_IDS
from lance_context_core.storage.lance.schema import RECORDS


@pytest.fixture
def stores(local_backend):
    """Four in one place, which is empty."""
    stores = [local_backend.open(maintenance=None) for _ in range(4)]
    yield stores
    for store in stores:
        asyncio.run(store.close())


async def say(store, text):
    await store.history.append("a", Message.user(text), session_id="s")


async def read(store):
    return [one.text for one in await store.history.get_messages("a", session_id="s")]


async def test_while_one_makes_it_nobody_else_does(stores, monkeypatch):
    slow, *quick = stores
    step, others = open_table._make, []

    async def late(connection, name, **options):
        """What the engine does once it saw no table, and before it makes one."""
        monkeypatch.setattr(open_table, "_make", step)
        others.extend(asyncio.create_task(say(one, f"of {n}")) for n, one in enumerate(quick))
        done, _ = await asyncio.wait(others, timeout=0.3)
        assert not done
        return await connection.create_table(
            name, mode="overwrite", schema=options["schema"], storage_options=options["options"]
        )

    monkeypatch.setattr(open_table, "_make", late)
    await say(slow, "of the slow one")
    await asyncio.gather(*others)
    assert len(others) == 3
    await say(slow, "last")
    versions = await slow.versions()
    for store in stores:
        *first, last = await read(store)
        assert sorted(first) == ["of 0", "of 1", "of 2", "of the slow one"]
        assert last == "last"
        hits = await store.search("slow", mode="text")
        assert [hit.record.text for hit in hits] == ["of the slow one"]
    assert len({one.number for one in versions}) == len(versions)


async def test_who_gives_up_waiting_leaves_the_table_to_others(stores, monkeypatch):
    one, two, three, _ = stores
    may_go = asyncio.get_running_loop().create_future()
    step = open_table._make

    async def late(connection, name, **options):
        monkeypatch.setattr(open_table, "_make", step)
        await may_go
        return await step(connection, name, **options)

    monkeypatch.setattr(open_table, "_make", late)
    first = asyncio.create_task(say(one, "one"))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(say(two, "two"))
    await asyncio.sleep(0.05)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    may_go.set_result(None)
    await first
    await three.sessions.create("of another table")
    assert [session.id for session in await one.sessions.list()] == ["of another table", "s"]
    assert (await read(three))[0] == "one"


_HANGS = """
import asyncio, sys
from lance_context_core import AsyncContextStore, Message
from lance_context_core.storage.lance import open_table

async def hang(connection, name, **options):
    print("made", flush=True)
    await asyncio.sleep(600)

open_table._make = hang

async def main():
    async with await AsyncContextStore.open(sys.argv[1]) as store:
        await store.history.append("a", Message.user("never acknowledged"), session_id="s")

asyncio.run(main())
"""


def test_who_is_killed_while_making_it_holds_nobody_up(local_backend, run):
    with subprocess.Popen(
        [sys.executable, "-c", _HANGS, local_backend.uri], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "made\n"
        finally:
            process.kill()

    async def use():
        async with local_backend.open() as store:
            await say(store, "here")
            return await read(store)

    assert run(use()) == ["here"]


# Made twice, as it can be on an object store: the later one replaces the first


class Late:
    """The engine to one who saw no table: it makes another in the place of that which others made."""

    def __init__(self, connection, meanwhile, seen_as=lambda handle: handle):
        self._connection = connection
        self._meanwhile = meanwhile
        self._seen_as = seen_as
        self.open_table = connection.open_table

    async def create_table(self, name, **what):
        handle = await self._connection.create_table(name, mode="overwrite", **what)
        await self._meanwhile()
        return self._seen_as(handle)


class Failing:
    """A handle of the engine of which one method fails at first, before or after it has done its work."""

    def __init__(self, handle, method, error, *, n_times=1, after=None):
        self._handle = handle
        self._method = method
        self._error = error
        self._n_left = n_times
        self._after = after

    def __getattr__(self, name):
        method = getattr(self._handle, name)
        if name != self._method or not self._n_left:
            return method
        self._n_left -= 1

        async def fail(*arguments):
            if self._after is not None:
                await method(*arguments)
                await self._after()
            raise RuntimeError(self._error)

        return fail


CONFLICT = (
    "lance error: Too many concurrent writers. Attempted 6 times, but failed on retry_timeout"
)
NETWORK = "lance error: LanceError(IO): Generic S3 error: Error performing PUT"


@pytest.fixture
def plain_and_embedding(local_backend):
    """Two stores in one place, which is empty: one gives what it writes no vectors."""
    stores = [
        local_backend.open(maintenance=None, embedder=embedder, journal=None)
        for embedder in (None, WordVectors())
    ]
    yield stores
    for store in stores:
        asyncio.run(store.close())


async def make_again(store, meanwhile, **more):
    """Make the records anew, as one does who saw no table; `meanwhile` is what others do at once."""
    connection = await store._resources.database.connection.engine()
    late = Late(connection, meanwhile, **more)
    return await open_table._make(late, "records", schema=RECORDS.schema, options=STABLE_ROW_IDS)


async def near(store, text):
    """The first of those whose vectors are near; there may be none."""
    return [hit.record.text for hit in await store.search(text, mode="vector", limit=1)]


class Between:
    """A fate for no request: at one of them, and then behind a commit, something else happens first."""

    def __init__(self, at, first, then):
        self._at = at
        self._steps = [first, then]
        self.seen = []

    def __call__(self, request):
        self.seen.append(request)
        is_next = len(self.seen) == self._at if len(self._steps) == 2 else _is_commit(self.seen[-2])
        if self._steps and is_next:
            self._steps.pop(0)()


def _is_commit(request):
    return request.startswith("PUT") and "/records.lance/_versions/" in request


def _is_look(request):
    return request.startswith("GET") and "records.lance%2F_versions" in request


async def test_two_who_make_a_table_on_an_object_store_lose_nothing(s3_server):
    """The engine looks twice for it: what comes between the two looks, it replaces."""
    loop = asyncio.get_running_loop()
    with Proxy(int(s3_server.endpoint.rpartition(":")[2])) as proxy:

        async def run(at):
            there = s3_server.backend()
            options = {**there.storage_options, "aws_endpoint": proxy.endpoint}
            plain = there.open(maintenance=None)
            embedding = there.open(maintenance=None, embedder=WordVectors())
            late = AsyncContextStore.open(there.uri, storage_options=options, maintenance=None)

            def says(store, text):
                return lambda: asyncio.run_coroutine_threadsafe(say(store, text), loop).result(60)

            proxy.fate = between = Between(at, says(plain, "old"), says(embedding, "new"))
            await say(late, "late")
            proxy.fate = calm
            found = await read(plain), await near(embedding, "new")
            for store in (plain, embedding, late):
                await store.close()
            return found, between.seen

        _, seen = await run(at=None)
        made = next(place for place, one in enumerate(seen) if one.startswith("PUT"))
        last_look = max(place for place, one in enumerate(seen[:made], 1) if _is_look(one))
        found, _ = await run(at=last_look)
        assert found == (["old", "new", "late"], ["new"])


async def test_what_is_written_until_a_replaced_table_is_back_keeps_its_vectors(
    plain_and_embedding,
):
    plain, embedding = plain_and_embedding
    await say(plain, "old")
    await make_again(plain, lambda: say(embedding, "new"))
    await say(embedding, "newest")
    for store in plain_and_embedding:
        assert await read(store) == ["old", "new", "newest"]
    assert await near(embedding, "new") == ["new"]
    assert await near(embedding, "newest") == ["newest"]


async def test_a_replaced_table_in_which_nothing_was_written_is_not_put_back(plain_and_embedding):
    plain, embedding = plain_and_embedding
    await plain._resources.records.access.writer()
    await make_again(
        plain,
        lambda: say(embedding, "new"),
        seen_as=lambda handle: Failing(handle, "restore", "nobody needs that"),
    )
    assert await read(plain) == ["new"]
    assert await near(embedding, "new") == ["new"]


@pytest.mark.parametrize("method", ["checkout_latest", "restore", "add_columns"])
@pytest.mark.parametrize("error", [CONFLICT, NETWORK], ids=["conflict", "network"])
async def test_what_fails_while_a_replaced_table_is_put_back_is_tried_again(
    plain_and_embedding, method, error
):
    plain, embedding = plain_and_embedding
    await say(plain, "old")
    await make_again(
        plain,
        lambda: say(embedding, "new"),
        seen_as=lambda handle: Failing(handle, method, error, n_times=3),
    )
    assert await read(plain) == ["old", "new"]
    assert await near(embedding, "new") == ["new"]


async def test_a_table_that_is_put_back_twice_since_an_answer_was_lost_lacks_nothing(
    plain_and_embedding,
):
    plain, embedding = plain_and_embedding
    await say(plain, "old")
    await make_again(
        plain,
        lambda: say(embedding, "new"),
        seen_as=lambda handle: Failing(
            handle, "restore", NETWORK, after=lambda: say(embedding, "newer")
        ),
    )
    assert await read(plain) == ["old", "new", "newer"]
    assert await near(embedding, "newer") == ["newer"]


async def test_who_gives_up_making_a_table_still_puts_back_what_it_replaced(plain_and_embedding):
    plain, embedding = plain_and_embedding
    await say(plain, "old")
    connection = await plain._resources.database.connection.engine()

    async def meanwhile():
        task.cancel()
        await asyncio.sleep(0)
        await say(embedding, "new")

    make = {"schema": RECORDS.schema, "options": STABLE_ROW_IDS}
    making = open_table.create_table(Late(connection, meanwhile), "s3://bucket", "records", **make)
    task = asyncio.create_task(making)
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(300):
        while await read(plain) != ["old", "new"]:  # noqa: ASYNC110 - of another task
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("error", [CONFLICT, NETWORK], ids=["conflict", "network"])
async def test_where_the_former_table_cannot_be_put_back_it_is_told_where_it_is(
    plain_and_embedding, error
):
    plain, embedding = plain_and_embedding
    await say(plain, "old")
    version = await plain.version()
    with pytest.raises(StorageError, match=f"they are in version {version} of it"):
        await make_again(
            plain,
            lambda: say(embedding, "new"),
            seen_as=lambda handle: Failing(handle, "restore", error, n_times=1000),
        )
    assert await read(await plain.checkout(version)) == ["old"]
    assert await read(embedding) == ["new"]


async def test_all_that_come_first_share_one_connection(monkeypatch):
    connect, made = lancedb.connect_async, []

    async def counted(*arguments, **options):
        made.append(await connect(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(lancedb, "connect_async", counted)
    store = AsyncContextStore.open("memory://")
    connection = store._resources.database.connection
    assert (
        len({id(one) for one in await asyncio.gather(*(connection.engine() for _ in range(8)))})
        == 1
    )
    assert len(made) == 1
    await store.close()

"""Many make the same table at the same moment: one does, and nothing that anybody wrote is lost."""

import asyncio
import subprocess
import sys

import pytest

from lance_context_core import Message
from lance_context_core.engine.table import creation


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
    step, others = creation._make, []

    async def late(connection, name, **options):
        """What the engine does once it saw no table, and before it makes one."""
        monkeypatch.setattr(creation, "_make", step)
        others.extend(asyncio.create_task(say(one, f"of {n}")) for n, one in enumerate(quick))
        done, _ = await asyncio.wait(others, timeout=0.3)
        assert not done
        return await connection.create_table(
            name, mode="overwrite", schema=options["schema"], storage_options=options["options"]
        )

    monkeypatch.setattr(creation, "_make", late)
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
    step = creation._make

    async def late(connection, name, **options):
        monkeypatch.setattr(creation, "_make", step)
        await may_go
        return await step(connection, name, **options)

    monkeypatch.setattr(creation, "_make", late)
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
from lance_context_core.engine.table import creation

async def hang(connection, name, **options):
    print("made", flush=True)
    await asyncio.sleep(600)

creation._make = hang

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

"""A first look at a journal with much in it: in steps, between which others have their turn."""

import asyncio
from datetime import timedelta

import pytest

from lance_context_core import AsyncContextStore, ContextStore, Item, Message
from lance_context_core.settings import JournalPolicy
from lance_context_core.storage.wal import log_reader

LAZY = JournalPolicy(rows=100_000, idle=timedelta(hours=1))
N = 1_000


@pytest.fixture
def folder(tmp_path):
    """A store whose journal holds a thousand messages and as many items, each in an entry of its own."""
    with ContextStore.open(tmp_path, journal=LAZY) as store:
        for start in range(0, N, 100):
            said = [Message.user(f"{n}", id=f"m{n}") for n in range(start, start + 100)]
            store.history.append_many("a", said, session_id="s")
            store.kv("k").put([Item(key=f"{n}", value={"n": n}) for n in range(start, start + 100)])
    return tmp_path


async def read(store):
    return len(await store.history.get_messages("a", session_id="s"))


async def search(store):
    return len(await store.kv("k").list())


async def append(store):
    await store.history.append("a", Message.user("one more", id="new"), session_id="s")
    return await read(store) - 1


async def put_again(store):
    await store.kv("k").put([Item(key="7", value={"n": 8})])
    assert (await store.kv("k").get([((), "7")]))[0].value == {"n": 8}
    return await search(store)


@pytest.mark.parametrize("do", [read, search, append, put_again], ids=lambda do: do.__name__)
async def test_others_have_their_turn_between_steps(folder, do, monkeypatch):
    decode, decoded, most, ended = log_reader.entry_of, 0, 0, False

    def counted(*row):
        nonlocal decoded
        decoded += 1
        return decode(*row)

    async def tick():
        nonlocal decoded, most
        while not ended:
            most, decoded = max(most, decoded), 0
            await asyncio.sleep(0)

    monkeypatch.setattr(log_reader, "entry_of", counted)
    store = AsyncContextStore.open(folder, journal=LAZY)
    ticking = asyncio.create_task(tick())
    assert await do(store) == N
    ended = True
    await ticking
    assert 0 < most <= log_reader.MOST_AT_ONCE
    await store.close()


async def test_many_who_look_at_once_see_the_same(folder):
    store = AsyncContextStore.open(folder, journal=LAZY)
    looks = [do(store) for do in (read, search, read, search, put_again, read)]
    assert await asyncio.gather(*looks) == [N] * 6
    await store.close()

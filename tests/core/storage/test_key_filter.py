"""Which names a large table has is read beside those who ask, who do not wait for it."""

import asyncio
import threading
from concurrent.futures import Future
from contextlib import asynccontextmanager

import pytest

from lance_context_core import AsyncContextStore
from lance_context_core.storage import key_filter
from lance_context_core.storage.key_filter import KeyFilter, _number

N = 2_100


@asynccontextmanager
async def many(folder):
    """A store of so many records that their names are not read at once, but after one look for a name."""
    async with AsyncContextStore.open(folder, maintenance=None) as store:
        rows = [{"role": "user", "content": "said", "external_id": f"x{n}"} for n in range(N)]
        await store.context().add_many(rows)
        yield store


@pytest.fixture
def held(monkeypatch):
    """What lets the reading of names go on, and the names of records once they are read."""
    monkeypatch.setattr(key_filter, "_ROWS_PER_LOOK", 2 * N)
    learn, go_on, done = KeyFilter._learn, threading.Event(), Future()

    async def later(self, handle, column, reading):
        await asyncio.to_thread(go_on.wait)
        names = await learn(self, handle, column, reading)
        if column == "external_id":
            done.set_result(names)
        return names

    monkeypatch.setattr(KeyFilter, "_learn", later)
    yield go_on, done
    go_on.set()


async def read(go_on, done):
    """The names of records, once they are read."""
    go_on.set()
    return await asyncio.wrap_future(done)


async def counts(store, *names):
    return [len(await store.context().list(filters={"external_id": name})) for name in names]


async def test_who_asks_for_a_name_does_not_wait_until_all_are_read(tmp_path, held):
    async with many(tmp_path) as store:
        await store.context().add("user", "in the journal", external_id="y")
        assert (await store.context().get(external_id="x7"))["external_id"] == "x7"
        assert not held[1].done()
        await read(*held)
        assert await counts(store, "x7", "y", "nobody") == [1, 1, 0]


async def test_what_is_folded_while_names_are_read_is_known(tmp_path, held):
    async with many(tmp_path) as store:
        await store.context().add("user", "first", external_id="first")
        await store.context().get(external_id="x7")  # Now they are read.
        await store.context().add("user", "late", external_id="late")
        await store.flush()
        names = await read(*held)
        assert names.may_have(_number("late"))
        assert not names.may_have(_number("nobody"))
        await store.context().add("user", "in the journal", external_id="z")
        assert await counts(store, "first", "late", "x7", "z", "nobody") == [1, 1, 1, 1, 0]

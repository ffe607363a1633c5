"""A hundred tasks that write at once: others on their loop have their turn between a few of them."""

import asyncio
from types import SimpleNamespace

from lance_context_core import AsyncContextStore, Item, Message
from lance_context_core._util import cooperative as steps
from lance_context_core.storage import file_locks
from lance_context_core.storage.wal.transactions import _Brought
from lance_context_core.storage.wal_writes import WalWrites


async def test_others_have_their_turn_while_a_hundred_tasks_append(tmp_path, monkeypatch):
    do, n_written, most, now, ended = _Brought.do, 0, 0, 0.0, False

    def counted(self, connection):
        nonlocal n_written, now
        n_written += 1
        now += 0.001  # A write takes as long, as far as turns are told by this clock.
        return do(self, connection)

    async def tick():
        nonlocal n_written, most
        while not ended:
            most, n_written = max(most, n_written), 0
            await asyncio.sleep(0)

    store = AsyncContextStore.open(tmp_path)
    await store.history.append("a", Message.user("the first"), session_id="s")
    monkeypatch.setattr(_Brought, "do", counted)
    monkeypatch.setattr(steps, "time", SimpleNamespace(monotonic=lambda: now))
    ticking = asyncio.create_task(tick())
    said = [[Message.user(f"{task} {n}") for n in range(3)] for task in range(100)]

    async def talk(messages):
        for one in messages:
            await store.history.append("a", one, session_id="s")

    await asyncio.gather(*map(talk, said))
    ended = True
    await ticking
    assert 0 < most < 20  # A turn may begin amid one of the ticks.
    assert len(await store.history.get_messages("a", session_id="s")) == 301
    await store.close()


async def test_a_hundred_first_writes_at_once_look_at_the_table_once(tmp_path, monkeypatch):
    take, n_asked = file_locks._Locks.take, 0

    def counted(self):
        nonlocal n_asked
        n_asked += 1
        return take(self)

    async with AsyncContextStore.open(tmp_path) as store:
        await store.history.append("a", Message.user("there is a table"), session_id="s")
    store = AsyncContextStore.open(tmp_path)
    monkeypatch.setattr(file_locks._Locks, "take", counted)
    items = store.kv("k")
    await asyncio.gather(*(items.append([Item(key=f"{n}", value={})]) for n in range(100)))
    assert 0 < n_asked < 10
    assert await items.count() == 100
    await store.close()


async def test_those_who_wait_for_the_store_in_one_process_ask_the_system_one_by_one(
    tmp_path, monkeypatch
):
    take, n_asked = file_locks._Locks.take, 0

    def counted(self):
        nonlocal n_asked
        n_asked += 1
        return take(self)

    store = AsyncContextStore.open(tmp_path)
    await store.history.append("a", Message.user("the first"), session_id="s")
    journal = store._resources.database.connection.journal
    monkeypatch.setattr(file_locks._Locks, "take", counted)

    async def hold():
        async with journal.alone():
            await asyncio.sleep(0)

    await asyncio.gather(*(hold() for _ in range(50)))
    assert n_asked == 50
    await store.close()


async def test_after_a_flush_what_has_no_vectors_is_written_without_a_new_look_at_the_table(
    tmp_path, monkeypatch
):
    look, n_looks = WalWrites._look_once, 0

    def counted(self):
        nonlocal n_looks
        n_looks += 1
        return look(self)

    monkeypatch.setattr(WalWrites, "_look_once", counted)
    async with AsyncContextStore.open(tmp_path, maintenance=None) as store:
        items = store.kv("k")
        for n in range(3):
            await asyncio.gather(*(items.append([Item(key=f"{n}.{k}")]) for k in range(30)))
            await store.flush()
        assert n_looks == 1
        assert await items.count() == 90

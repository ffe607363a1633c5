"""A hundred tasks that write at once: others on their loop have their turn between a few of them."""

import asyncio
from types import SimpleNamespace

from lance_context_core import AsyncContextStore, Message
from lance_context_core._util import cooperative as steps
from lance_context_core.storage.wal.transactions import Transactions


async def test_others_have_their_turn_while_a_hundred_tasks_append(tmp_path, monkeypatch):
    write, n_written, most, now, ended = Transactions.write, 0, 0, 0.0, False

    def counted(self, part, decide):
        nonlocal n_written, now
        n_written += 1
        now += 0.001  # A write takes as long, as far as turns are told by this clock.
        return write(self, part, decide)

    async def tick():
        nonlocal n_written, most
        while not ended:
            most, n_written = max(most, n_written), 0
            await asyncio.sleep(0)

    store = AsyncContextStore.open(tmp_path)
    await store.history.append("a", Message.user("the first"), session_id="s")
    monkeypatch.setattr(Transactions, "write", counted)
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

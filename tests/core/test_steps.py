"""Long lists leave the event loop to others while they are read and written."""

import asyncio

import pytest

from lance_context_core import Message


class _Turns:
    """Counts how often the event loop comes round."""

    def __init__(self):
        self.n = 0

    async def __aenter__(self):
        self._task = asyncio.create_task(self._count())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        self._task.cancel()

    async def _count(self):
        while True:
            self.n += 1
            await asyncio.sleep(0)

    def take(self):
        n, self.n = self.n, 0
        return n


@pytest.mark.parametrize("n", [1, 31, 32, 33, 700])
async def test_what_is_converted_in_steps_keeps_its_order(store, n):
    said = [Message.user(f"{i}", id=f"m{i}") for i in range(n)]
    assert await store.history.append_many("a", said, session_id="s") == [one.id for one in said]
    read = await store.history.get_messages("a", session_id="s")
    assert [one.text for one in read] == [one.text for one in said]


async def test_the_event_loop_comes_round_at_least_once_in_a_hundred_records(store, monkeypatch):
    # Whatever waits for the engine lets the loop go round, too: the clock is asked once a record.
    turns_between = []
    records = [{"role": "user", "content": f"{i}"} for i in range(1_000)]
    async with _Turns() as turns:
        clock = store.clock
        before = clock.now

        def now():
            turns_between.append(turns.take())
            return before()

        monkeypatch.setattr(type(clock), "now", lambda _self: now())
        await store.context().add_many(records)
    longest = since = 0
    for n in turns_between:
        since = 0 if n else since + 1
        longest = max(longest, since)
    assert len(turns_between) >= 1_000
    assert longest < 100

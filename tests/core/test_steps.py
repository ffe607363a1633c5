"""Long lists leave the event loop to others while they are read and written."""

import asyncio

import pytest

from lance_context_core import Item, Message
from lance_context_core.stores import context, history, itemrows, records

N = 700


@pytest.mark.parametrize("n", [1, 31, 32, 33, N])
async def test_what_is_converted_in_steps_keeps_its_order(store, n):
    said = [Message.user(f"{i}", id=f"m{i}") for i in range(n)]
    assert await store.history.append_many("a", said, session_id="s") == [one.id for one in said]
    read = await store.history.get_messages("a", session_id="s")
    assert [one.text for one in read] == [one.text for one in said]


async def _write(store):
    await store.context().add_many([{"role": "user", "content": f"{i}"} for i in range(N)])


async def _read(store):
    await _write(store)
    await store.context().list()


async def _say(store):
    said = [Message.user(f"{i}") for i in range(N)]
    await store.history.append_many("a", said, session_id="s")


async def _recall(store):
    await _say(store)
    await store.history.get_messages("a", session_id="s")


async def _annotate(store):
    await _say(store)
    await store.history.annotate("a", {"seen": True}, session_id="s")


async def _put(store):
    items = [Item(namespace=("n",), key=f"{i}", value={"i": i}) for i in range(N)]
    await store.kv("things").put(items)


async def _take(store):
    await _put(store)
    await store.kv("things").list()


@pytest.mark.parametrize(
    ("work", "module", "convert"),
    [
        (_write, context, "draft_of"),
        (_write, records, "checked"),
        (_write, records, "to_row"),
        (_read, records, "from_row"),
        (_say, records, "key_of"),
        (_recall, history, "_message"),
        (_annotate, records, "from_row"),
        (_annotate, records, "to_row"),
        (_put, itemrows, "checked"),
        (_put, itemrows, "to_row"),
        (_take, itemrows, "from_row"),
    ],
)
async def test_the_event_loop_comes_round_while_many_are_converted(
    store, monkeypatch, work, module, convert
):
    n_rounds, rounds_before = 0, []
    function = getattr(module, convert)

    def counting(*args, **kwargs):
        rounds_before.append(n_rounds)
        return function(*args, **kwargs)

    async def go_round():
        nonlocal n_rounds
        while True:
            n_rounds += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(module, convert, counting)
    going = asyncio.create_task(go_round())
    await work(store)
    going.cancel()
    assert len(rounds_before) >= N
    # How many were converted between two rounds.
    assert max(rounds_before.count(n) for n in set(rounds_before)) <= 64

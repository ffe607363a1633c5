"""Long lists leave the event loop to others while they are read and written."""

import asyncio
import types

import pytest
from core.conformance.rounds import MOST_IN_A_ROUND, Rounds

from lance_context_core import Document, Item, Message
from lance_context_core._util import cooperative as steps
from lance_context_core.codecs import items as itemrows
from lance_context_core.memory_index.segment import Segment
from lance_context_core.stores import history, vectors
from lance_context_core.stores.records import changes, context, mappings, scoped, writes

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


async def _take_by_key(store):
    await _put(store)
    await store.kv("things").get([(("n",), f"{i}") for i in range(N)])


async def _read_by_id(store):
    await store.vectors("d").add([Document(id=f"{i}", text=f"{i}") for i in range(N)])
    await store.vectors("d").get([f"{i}" for i in range(N)])


async def _find_all_at_once(store):
    await store.vectors("d").add([Document(text=f"tea {i}") for i in range(10)])
    asked = [store.vectors("d").search("tea", mode="text") for _ in range(N // 10)]
    await asyncio.gather(*asked)


async def _recollect_all_at_once(store):
    await store.memory.add([f"tea {i}" for i in range(10)], user_id="ada")
    asked = [store.search("tea", mode="text") for _ in range(N // 10)]
    await asyncio.gather(*asked)


@pytest.mark.parametrize(
    ("work", "module", "convert"),
    [
        (_write, context, "draft_of"),
        (_write, mappings, "checked"),
        (_write, writes, "to_row"),
        (_read, scoped, "from_row"),
        (_say, writes, "key_of"),
        (_recall, history, "message_of"),
        (_annotate, changes, "from_row"),
        (_annotate, scoped, "to_row"),
        (_put, itemrows, "checked"),
        (_put, itemrows, "to_row"),
        (_take, itemrows, "from_row"),
        (_take_by_key, itemrows, "from_row"),
        (_read_by_id, vectors, "from_row"),
        (_find_all_at_once, vectors, "from_row"),
        (_recollect_all_at_once, scoped, "from_values"),
    ],
)
async def test_the_event_loop_comes_round_while_many_are_converted(
    store, monkeypatch, work, module, convert
):
    async with Rounds() as rounds:
        monkeypatch.setattr(module, convert, rounds.noting(getattr(module, convert)))
        await work(store)
    assert sum(rounds.noted.values()) >= N
    assert max(rounds.noted.values()) <= MOST_IN_A_ROUND


async def test_the_event_loop_comes_round_while_many_search_what_is_in_memory(store, monkeypatch):
    await store.memory.add([f"tea {i}" for i in range(10)], user_id="ada")
    await store.memory.search("tea", user_id="ada")
    asked = [store.memory.search("tea", user_id="ada", limit=1) for _ in range(100)]
    async with Rounds() as rounds:
        monkeypatch.setattr(Segment, "match", rounds.noting(Segment.match))
        await asyncio.gather(*asked)
        for _ in range(100):
            await store.memory.search("tea", user_id="ada", limit=1)
    assert sum(rounds.noted.values()) == 200
    assert max(rounds.noted.values()) <= 6


async def test_many_tasks_convert_no_more_in_a_round_than_one_does():
    async with Rounds() as rounds:
        negative = rounds.noting(int.__neg__)
        made = await asyncio.gather(*(steps.each(negative, range(n, n + 10)) for n in range(100)))
    assert made == [[-one for one in range(n, n + 10)] for n in range(100)]
    assert max(rounds.noted.values()) <= MOST_IN_A_ROUND


async def test_who_waits_is_not_woken_for_nothing():
    n_steps = 0

    @types.coroutine
    def counted(work):
        nonlocal n_steps
        way = work.__await__()
        while True:
            n_steps += 1
            try:
                waited = next(way)
            except StopIteration:
                return
            yield waited

    async def one():
        # More than a quarter of a turn: no more than four may go on in each.
        await counted(steps.each(str, range(steps.STEP // 4 + 1)))

    await asyncio.gather(*(one() for _ in range(64)))
    assert n_steps <= 3 * 64


async def test_what_takes_long_leaves_the_loop_to_others_however_few_they_are(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(steps.time, "monotonic", lambda: now[0])

    def dear(number):
        now[0] += 0.002
        return -number

    async with Rounds() as rounds:
        noting = rounds.noting(dear)
        made = await asyncio.gather(*(steps.each(noting, [n]) for n in range(100)))
    assert made == [[-n] for n in range(100)]
    assert max(rounds.noted.values()) <= 4


async def test_more_of_what_is_light_is_converted_in_a_round():
    async with Rounds() as rounds:
        await steps.each(lambda _: rounds.note(), range(10 * MOST_IN_A_ROUND), n_as_one=10)
    assert max(rounds.noted.values()) == 10 * steps.STEP


async def test_who_is_cancelled_while_it_waits_holds_nobody_up():
    first = asyncio.create_task(steps.each(str, range(N)))
    waiting = [asyncio.create_task(steps.each(str, range(3))) for _ in range(N)]
    await asyncio.sleep(0)
    for one in waiting[::2]:
        one.cancel()
    assert await first == [f"{n}" for n in range(N)]
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert done[1::2] == [["0", "1", "2"]] * (N // 2)
    assert all(isinstance(one, asyncio.CancelledError) for one in done[::2])


async def test_each_event_loop_has_turns_of_its_own():
    def elsewhere():
        return asyncio.run(steps.each(str, range(N)))

    texts = [f"{n}" for n in range(N)]
    here, *there = await asyncio.gather(
        steps.each(str, range(N)), *(asyncio.to_thread(elsewhere) for _ in range(3))
    )
    assert here == texts
    assert there == [texts] * 3


async def test_who_takes_all_again_and_again_leaves_others_their_turn():
    is_done = False

    async def greedy():
        while not is_done:
            await steps.take_all(steps.STEP)

    async def modest():
        for _ in range(10):
            assert await steps.may_take(3) >= 1

    taking = [asyncio.create_task(greedy()) for _ in range(2)]
    await asyncio.wait_for(asyncio.gather(*(modest() for _ in range(3))), timeout=30)
    is_done = True
    await asyncio.gather(*taking)


async def test_who_takes_a_whole_turn_without_a_pause_passes_nobody_by():
    async def some():
        for n in range(20):
            await steps.each(int.__neg__, [n])

    others = asyncio.create_task(some())
    n_rounds = 0
    while not others.done() and n_rounds < 1_000:
        await steps.each(int.__neg__, range(steps.STEP))
        await asyncio.sleep(0)
        n_rounds += 1
    others.cancel()
    assert n_rounds < 100

"""One body, two methods: a coroutine that is awaited, or that a call blocks on."""

import asyncio
import contextvars
import textwrap
import threading

import pytest

import lance_context_core.adapting.blocking as page
from lance_context_core import ContextStore, InvalidRequestError, Message
from lance_context_core.adapting import (
    begin,
    beside_the_loop,
    block_on,
    in_thread,
    one_at_a_time,
)
from lance_context_core.errors import BlockingCallError

SMALL, LARGE = 64 * 1024, 64 * 1024 + 1


class Notes:
    """What somebody writes who has a framework with blocking and asynchronous methods."""

    def __init__(self, history):
        self._history = history

    async def add(self, *texts):
        for text in texts:
            await self._history.append("notes", Message.user(text), session_id="1")
        return [one.text for one in await self._history.get_messages("notes", session_id="1")]


@pytest.fixture
def store():
    with ContextStore.open("memory://") as opened:
        yield opened


def where():
    return threading.current_thread()


async def here():
    return where()


def test_one_object_is_awaited_and_blocked_on(store):
    notes = Notes(store.aio.history)
    assert block_on(notes.add("a", "b")) == ["a", "b"]
    assert asyncio.run(notes.add("c")) == ["a", "b", "c"]
    assert begin(notes.add("d")).result() == ["a", "b", "c", "d"]


def test_a_call_blocks_beside_a_running_loop_too(store):
    async def main():
        return block_on(Notes(store.aio.history).add("a"))

    assert asyncio.run(main()) == ["a"]


def test_whoever_blocks_the_work_is_done_on_the_one_loop_of_the_store(store):
    async def from_a_store():
        return store.history.count("notes", session_id="1")

    worker = block_on(here())
    assert worker is not where()
    assert block_on(asyncio.to_thread(block_on, here())) is worker
    with pytest.raises(BlockingCallError, match=r"await .* store\.aio"):
        block_on(from_a_store())


def test_to_block_on_the_store_s_own_loop_is_refused_before_the_work_begins():
    begun = []

    async def inner():
        begun.append(True)

    async def outer():
        block_on(inner())

    with pytest.raises(BlockingCallError, match="wait for itself"):
        block_on(outer())
    assert begun == []


def test_an_error_reaches_the_caller_as_it_is(store):
    work = store.aio.history.append("no\0name", Message.user("a"), session_id="1")
    with pytest.raises(InvalidRequestError, match="agent_id"):
        block_on(work)


def test_the_work_sees_the_context_variables_of_its_caller():
    variable = contextvars.ContextVar("variable", default="nobody's")

    async def seen():
        return variable.get(), await in_thread(variable.get)()

    variable.set("the caller's")
    assert block_on(seen()) == ("the caller's", "the caller's")


def test_a_function_in_a_thread_gets_its_arguments_and_may_block_on_the_store(store):
    store.history.append("a", Message.user("x"), session_id="1")

    def counted(agent, *, session):
        return where(), store.history.count(agent, session_id=session)

    thread, count = block_on(in_thread(counted)("a", session="1"))
    assert count == 1
    assert thread not in {where(), block_on(here())}


@pytest.mark.parametrize(("n_bytes", "is_beside"), [(0, False), (SMALL, False), (LARGE, True)])
def test_only_long_work_leaves_the_loops_thread(n_bytes, is_beside):
    async def main():
        return await beside_the_loop(where, n_bytes=n_bytes) is not where()

    assert asyncio.run(main()) == is_beside


def test_the_example_of_the_page_works(store):
    shown = page.__doc__[page.__doc__.index("    class Notes") :].split("\n\nThe coroutine runs")[0]
    namespace = {"block_on": block_on}
    exec(textwrap.dedent(shown), namespace)  # noqa: S102 - our own page
    store.history.append("notes", Message.user("a"), session_id="1")
    notes = namespace["Notes"](store.aio.history)
    assert notes.count() == asyncio.run(notes.acount()) == 1


async def noted(order, name, *, pauses=3):
    async with one_at_a_time("notes", name):
        order.append(("begins", name))
        for _ in range(pauses):
            await asyncio.sleep(0)
        order.append(("ends", name))


async def test_blocks_of_one_name_do_not_overlap_and_begin_in_the_order_of_asking():
    order = []

    async def numbered(n):
        async with one_at_a_time("numbered"):
            order.append(n)
            await asyncio.sleep(0)
            order.append(n)

    await asyncio.gather(*(numbered(n) for n in range(20)))
    assert order == [n for n in range(20) for _ in range(2)]


async def test_blocks_of_other_names_overlap():
    order = []
    await asyncio.gather(noted(order, "a"), noted(order, "b"))
    assert order[:2] == [("begins", "a"), ("begins", "b")]


def test_blocks_of_several_event_loops_do_not_overlap():
    order = []
    threads = [
        threading.Thread(target=lambda: asyncio.run(noted(order, "c", pauses=200)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert order == [("begins", "c"), ("ends", "c")] * 8


async def test_one_that_is_cancelled_while_it_waits_lets_the_next_begin():
    order = []
    tasks = [asyncio.create_task(noted(order, "d")) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert tasks[1].cancelled()
    assert order == [("begins", "d"), ("ends", "d")] * 2


async def test_a_block_that_fails_lets_the_next_begin():
    with pytest.raises(ValueError, match="no"):
        async with one_at_a_time("e"):
            raise ValueError("no")
    async with asyncio.timeout(5), one_at_a_time("e"):
        pass

"""One body, two faces: awaited on an event loop, or run to its end on the caller's thread."""

import asyncio
import re
import textwrap
import threading

import pytest

import lance_context_core.adapting.faces as page
from lance_context_core import ContextStore, InvalidRequestError, Message
from lance_context_core.adapting import (
    Blocking,
    as_awaited,
    at_a_stretch,
    at_once,
    beside_the_loop,
    in_place,
    in_steps,
)

SMALL, LARGE = 64 * 1024, 64 * 1024 + 1


class Notes:
    """What somebody writes who has a framework with both faces."""

    def __init__(self, history):
        self._history = history

    async def add(self, *texts):
        for text in texts:
            await self._history.append("notes", Message.user(text), session_id="1")
        return await self.read()

    async def read(self):
        return [one.text for one in await self._history.get_messages("notes", session_id="1")]


def where():
    return threading.current_thread()


def test_one_class_serves_both_faces():
    with ContextStore.open("memory://") as store:
        awaiting, blocking = Notes(store.aio.history), Notes(Blocking(store.history))
        assert at_once(blocking.add("a", "b")) == ["a", "b"]
        assert asyncio.run(awaiting.add("c")) == ["a", "b", "c"]
        assert at_once(blocking.read()) == ["a", "b", "c"]


def test_the_synchronous_face_works_beside_a_running_loop():
    async def main(store):
        return at_once(Notes(Blocking(store.history)).add("a"))

    with ContextStore.open("memory://") as store:
        assert asyncio.run(main(store)) == ["a"]


def test_work_at_once_never_leaves_the_thread():
    async def work():
        return [where(), await as_awaited(where)(), await in_place(where, n_bytes=LARGE)]

    assert at_once(work()) == [where()] * 3


def test_an_error_of_the_store_reaches_the_caller_as_it_is():
    with (
        ContextStore.open("memory://") as store,
        pytest.raises(InvalidRequestError, match="agent_id"),
    ):
        at_once(Blocking(store.history).append("no\0name", Message.user("a"), session_id="1"))


def test_what_takes_parameters_gets_them():
    def joined(first, *others, end):
        return "".join([first, *others, end])

    assert at_once(as_awaited(joined)("a", "b", end="c")) == "abc"


def test_a_name_that_is_not_there_is_missed_when_it_is_asked_for():
    with pytest.raises(AttributeError, match="no_such"):
        Blocking(object()).no_such  # noqa: B018 - the question is the test


@pytest.mark.parametrize("is_beside_a_loop", [False, True])
def test_work_that_waits_is_ended_and_refused(is_beside_a_loop):
    steps = []

    async def waits():
        try:
            steps.append("began")
            await asyncio.sleep(0)
            steps.append("went on")
        finally:
            steps.append("ended")

    async def main():
        at_once(waits())

    with pytest.raises(RuntimeError, match="waits for something"):
        asyncio.run(main()) if is_beside_a_loop else at_once(waits())
    assert steps == ["began", "ended"]


@pytest.mark.parametrize(("n_bytes", "is_beside"), [(0, False), (SMALL, False), (LARGE, True)])
def test_only_long_work_leaves_the_loops_thread(n_bytes, is_beside):
    async def main():
        return await beside_the_loop(where, n_bytes=n_bytes) is not where()

    assert asyncio.run(main()) == is_beside


def test_the_example_of_the_page_works():
    shown = textwrap.dedent(page.__doc__[page.__doc__.index("    class Notes") :])
    classed, awaited, called = re.fullmatch(
        r"(.*\n)await (.*)\n(at_once.*)\n", shown, re.DOTALL
    ).groups()
    namespace = {"at_once": at_once, "Blocking": Blocking}
    exec(classed, namespace)  # noqa: S102 - our own page
    with ContextStore.open("memory://") as store:
        store.history.append("notes", Message.user("a"), session_id="1")
        namespace["store"] = store
        assert eval(called, namespace) == 1  # noqa: S307 - our own page
        assert asyncio.run(eval(awaited, namespace)) == 1  # noqa: S307 - our own page


async def test_many_are_converted_alike_with_and_without_a_loop():
    def twice(number):
        return 2 * number

    assert at_once(at_a_stretch(twice, range(100), n_as_one=3)) == list(range(0, 200, 2))
    assert await in_steps(twice, range(100), n_as_one=3) == list(range(0, 200, 2))

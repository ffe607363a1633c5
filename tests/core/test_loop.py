"""The loop behind the blocking calls, and what exits, interrupts and forks do to it."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import CancelledError
from contextvars import ContextVar

import pytest

from lance_context_core import ContextStore
from lance_context_core._loop import StoreLoop, block_on, on_a_loop
from lance_context_core.messages import Message


def test_a_stopped_loop_cancels_what_runs_and_starts_again_when_it_is_needed():
    own = StoreLoop()
    running = own.spawn(asyncio.sleep(60))
    own.stop()
    with pytest.raises(CancelledError):
        running.result(timeout=300)
    assert own.run(asyncio.sleep(0, "again")) == "again"
    own.stop()
    own.stop()


# Work that begins where its caller stands


async def where_it_runs(wait):
    """In which thread work begins, and in which it is after it has awaited `wait()`."""
    began = threading.current_thread()
    await wait()
    return began, threading.current_thread()


async def nothing():
    """Wait for nothing."""


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param(lambda: asyncio.sleep(0), id="for a turn of the loop"),
        pytest.param(lambda: asyncio.sleep(0.001), id="for some time"),
        pytest.param(lambda: asyncio.to_thread(int), id="for a thread"),
        pytest.param(lambda: asyncio.gather(asyncio.sleep(0), nothing()), id="for tasks"),
        pytest.param(lambda: asyncio.wait([asyncio.ensure_future(nothing())]), id="for a task"),
        pytest.param(lambda: asyncio.wait([asyncio.Future()], timeout=0.001), id="in vain"),
        pytest.param(on_a_loop, id="to be a task"),
    ],
)
def test_work_that_begins_here_goes_on_on_the_loop_once_it_waits(wait):
    began, ended = block_on(where_it_runs(wait), begins_here=True)
    assert began is threading.current_thread()
    assert ended.name == "lance-context"


def test_work_that_waits_for_nothing_ends_where_it_begins():
    here = threading.current_thread()
    assert block_on(where_it_runs(nothing), begins_here=True) == (here, here)


def test_a_call_beside_a_running_loop_leaves_that_loop_running():
    async def call():
        block_on(asyncio.sleep(0.001), begins_here=True)
        block_on(nothing(), begins_here=True)
        await asyncio.sleep(0)
        return asyncio.current_task() is not None

    assert asyncio.run(call())


def test_work_sees_its_callers_variables_and_takes_back_its_own_after_it_has_waited():
    said = ContextVar("said", default="nothing")
    said.set("the caller's")

    async def work():
        token = said.set("its own")
        await asyncio.sleep(0)
        seen = said.get()
        said.reset(token)
        return seen, said.get()

    assert block_on(work(), begins_here=True) == ("its own", "the caller's")
    assert said.get() == "the caller's"


def test_what_work_raises_reaches_its_caller_before_and_after_it_has_waited():
    async def fail(wait):
        await wait()
        raise LookupError("gone")

    for wait in (nothing, lambda: asyncio.sleep(0)):
        with pytest.raises(LookupError, match="gone"):
            block_on(fail(wait), begins_here=True)


def test_an_interrupt_in_the_callers_thread_is_raised_there_and_the_loop_goes_on():
    async def work():
        try:
            raise KeyboardInterrupt
        finally:
            await asyncio.sleep(0)

    with pytest.raises(KeyboardInterrupt):
        block_on(work(), begins_here=True)
    assert block_on(asyncio.sleep(0, "still there")) == "still there"


def test_others_asynchronous_code_finds_itself_in_a_task(tmp_path):
    class Embedder:
        model, dimension = "asks for its task", 2

        async def aembed_documents(self, texts):
            async with asyncio.timeout(60):
                await asyncio.sleep(0)
            return [[1.0, 0.0] for _ in texts]

        async def aembed_query(self, text):
            return (await self.aembed_documents([text]))[0]

    with ContextStore.open(tmp_path / "store", embedder=Embedder()) as store:
        for text in ("the first makes the table", "the next waits for nothing before"):
            store.history.append("ada", Message.user(text), session_id="s")
        assert store.history.count("ada", session_id="s") == 2


# Exits and forks, in interpreters of their own


def run(script, *options):
    """What a fresh interpreter prints while it runs `script`; fails if it complains or hangs."""
    command = [sys.executable, *options, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def test_an_interpreter_exits_in_silence_with_a_store_left_open(tmp_path):
    script = f"""
        from lance_context_core.messages import Message
        from lance_context_core.sync import Context, ContextStore

        store = ContextStore.open({str(tmp_path / "store")!r})
        store.history.append("ada", Message.user("hello"), session_id="s")
        context = Context.create(
            {str(tmp_path / "other")!r},
            enable_background_compaction=True,
            compaction_interval_secs=0.001,
            compaction_min_fragments=2,
        )
        for _ in range(5):
            context.add("user", "x")
        print(store.history.count("ada", session_id="s"), context.entries())
    """
    assert run(script, "-W", "error") == "1 5\n"


def test_an_exit_ends_background_work_in_good_order():
    script = """
        import asyncio
        from lance_context_core._loop import store_loop

        async def work():
            try:
                await asyncio.sleep(60)
            finally:
                print("ended")

        store_loop.spawn(work())
        store_loop.run(asyncio.sleep(0))
    """
    assert run(script, "-W", "error") == "ended\n"


def test_ctrl_c_ends_the_wait_and_cancels_the_work():
    script = """
        import asyncio, signal, sys, threading
        from lance_context_core._loop import store_loop

        # Where the tests run in the background, the shell has it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        cancelled = threading.Event()

        async def work():
            main = threading.main_thread().ident
            while sys._current_frames()[main].f_code.co_name != "wait":
                await asyncio.sleep(0.01)  # until the main thread waits
            signal.pthread_kill(main, signal.SIGINT)
            try:
                await asyncio.sleep(60)
            finally:
                cancelled.set()

        try:
            store_loop.run(work())
        except KeyboardInterrupt:
            print("interrupted", cancelled.wait(300))
    """
    assert run(script, "-W", "error") == "interrupted True\n"


def test_a_forked_child_is_refused_instead_of_crashing_in_the_engine(tmp_path):
    # Not with warnings as errors: Python 3.12 warns of forks in a process with threads.
    script = f"""
        import os, signal
        from lance_context_core.errors import StoreClosedError
        from lance_context_core.messages import Message
        from lance_context_core.sync import ContextStore

        store = ContextStore.open({str(tmp_path / "store")!r})
        history = store.history
        history.append("ada", Message.user("hello"), session_id="s")
        past = store.checkout(store.version())
        past.context().entries()

        def refusal(work):
            try:
                return f"answered {{work()!r}}"
            except StoreClosedError as error:
                return "forked" if "forked" in str(error) else str(error)

        def refusals():
            yield refusal(lambda: history.count("ada", session_id="s"))
            yield refusal(lambda: history.append("ada", Message.user("x"), session_id="s"))
            yield refusal(lambda: store.vectors().count())
            yield refusal(lambda: past.context().entries())

        if (child := os.fork()) == 0:
            signal.alarm(30)  # a child that hangs would outlive the test
            print(*refusals(), flush=True)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, history.count("ada", session_id="s"))
    """
    assert run(script, "-W", "ignore") == "forked forked forked forked\n0 1\n"

"""The loop behind the blocking calls, and what exits, interrupts and forks do to it."""

import asyncio
import gc
import subprocess
import sys
import textwrap
from concurrent.futures import CancelledError

import pytest

from lance_context_core import ContextStore
from lance_context_core._loop import StoreLoop
from lance_context_core.messages import Message


def test_a_stopped_loop_cancels_what_runs_and_starts_again_when_it_is_needed():
    own = StoreLoop()
    running = own.spawn(asyncio.sleep(60))
    own.stop()
    with pytest.raises(CancelledError):
        running.result(timeout=300)
    assert own.run(lambda: asyncio.sleep(0, "again")) == "again"
    own.stop()
    own.stop()


# Exits and forks, in interpreters of their own


def run(script, *options):
    """What a fresh interpreter prints while it runs `script`; fails if it complains or hangs."""
    command = [sys.executable, *options, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def test_at_the_exit_the_loop_ends_before_the_engine_that_it_calls(tmp_path):
    """The engine waits for its threads there, and each would wait for the other for ever."""
    script = f"""
        import atexit
        ends, register, unregister = [], atexit.register, atexit.unregister

        def note(end):
            ends.append(end)
            return register(end)

        def forget(end):
            ends[:] = [one for one in ends if one != end]
            unregister(end)

        atexit.register, atexit.unregister = note, forget
        from lance_context_core import ContextStore
        ContextStore.open({str(tmp_path)!r}).close()
        print(*(f"{{end.__module__}}.{{end.__qualname__}}" for end in reversed(ends)), sep="\\n")
    """
    of_both = ("lancedb._lancedb", "lance_context_core._loop")
    assert [one for one in run(script).split("\n") if one.startswith(of_both)] == [
        "lance_context_core._loop._end",
        "lancedb._lancedb.shutdown_runtime",
        "lance_context_core._loop.StoreLoop.close",
    ]


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
        from lance_context_core._loop import block_on, store_loop

        async def work():
            try:
                await asyncio.sleep(60)
            finally:
                print("ended")

        store_loop.spawn(work())
        block_on(asyncio.sleep(0))
    """
    assert run(script, "-W", "error") == "ended\n"


def test_ctrl_c_ends_the_wait_and_cancels_the_work():
    script = """
        import asyncio, signal, sys, threading
        from lance_context_core._loop import block_on

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
            block_on(work())
        except KeyboardInterrupt:
            print("interrupted", cancelled.wait(300))
    """
    assert run(script, "-W", "error") == "interrupted True\n"


def interrupted_at(step, call):
    """Whether `call` was interrupted at the n-th beginning or end of a function of ours in this thread.

    Not before a function in C: Python looks for signals after it.
    """
    n = 0

    def count(frame, event, argument):
        nonlocal n
        n += event != "c_call" and "lance_context_core" in frame.f_code.co_filename
        if n == step:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.mark.filterwarnings(
    "error"
)  # Also of what pytest cannot raise, such as a coroutine that is lost.
@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.history.append_many("ada", [Message.user("tea")] * 2, session_id="s"),
        lambda store: [*store.context().scan(batch_size=2)],
        lambda store: store.locks.try_acquire("kitchen"),
    ],
    ids=["write", "scan", "lock"],
)
def test_an_interrupt_between_any_two_steps_of_a_call_leaves_nothing_behind(tmp_path, call):
    """As Ctrl-C does, which the main thread sees between any two of its steps."""
    with ContextStore.open(tmp_path) as store:
        call(store)  # What the first call of all sets up is not in question.
        step = 1
        while interrupted_at(step, lambda: call(store)):
            step += 1
        gc.collect()
        assert step > 20
        count = store.history.count("ada", session_id="s")
        store.history.append("ada", Message.user("tea"), session_id="s")
        assert store.history.count("ada", session_id="s") == count + 1


def test_an_interrupt_is_raised_when_what_cannot_be_cancelled_has_ended_and_a_second_at_once():
    script = """
        import asyncio, signal, threading
        from lance_context_core._loop import block_on
        signal.signal(signal.SIGINT, signal.default_int_handler)

        main, may_end, done = threading.main_thread().ident, threading.Event(), []

        async def work(is_stubborn):
            try:
                await asyncio.sleep(0.5)  # The caller has begun to wait by now.
                signal.pthread_kill(main, signal.SIGINT)
                await asyncio.sleep(300)
            except asyncio.CancelledError:
                if is_stubborn:
                    signal.pthread_kill(main, signal.SIGINT)
                while is_stubborn and not may_end.is_set():
                    await asyncio.sleep(0.01)
                done.append(is_stubborn)
                raise

        for is_stubborn in (False, True):
            try:
                block_on(work(is_stubborn))
            except KeyboardInterrupt:
                print(is_stubborn in done)
        may_end.set()
    """
    assert run(script, "-W", "error") == "True\nFalse\n"


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

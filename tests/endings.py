"""Scripts that end in different ways: each prints what was acknowledged, and ends in silence.

`python tests/endings.py` runs them with the interpreter that it is run with.
"""

import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

from lance_context_core import ContextStore

_BEGIN = """
    import asyncio, atexit, signal, sys, threading, time
    from lance_context_core import AsyncContextStore, ContextStore, Item
    PLACE = sys.argv[1]

    def write(store, n=3):
        for i in range(n):
            text = f"tea {threading.get_ident()} {time.monotonic_ns()}"
            store.memory.add([text], user_id="ada")
            print(text, flush=True)

    async def awrite(store, n=3):
        for i in range(n):
            text = f"tea {time.monotonic_ns()}"
            await store.memory.add([text], user_id="ada")
            print(text, flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """One script."""

    code: str
    exit_code: int = 0
    complaint: str = ""
    """The last line of the one traceback that it is to print; empty if it prints none."""
    is_interrupted: bool = False
    """Whether it is sent a Ctrl-C once it has acknowledged something."""
    is_left_open: bool = False
    """Whether a store is never closed: with `-W error` Python 3.13 complains of its database."""


ENDINGS = {
    "closed": Ending(code="with ContextStore.open(PLACE) as store: write(store)"),
    "never closed": Ending(
        code="store = ContextStore.open(PLACE); write(store); store.search('tea')",
        is_left_open=True,
    ),
    "folding": Ending(
        code="""
        from lance_context_core.settings import JournalPolicy
        store = ContextStore.open(PLACE, journal=JournalPolicy(rows=8))
        write(store, 200)
        """,
        is_left_open=True,
    ),
    "kept by a global that closes it": Ending(
        code="""
        class Owner:
            def __init__(self):
                self.store = ContextStore.open(PLACE)
            def __del__(self):
                self.store.close()
        owner = Owner()
        write(owner.store)
        """,
        is_left_open=True,
    ),
    "an exception": Ending(
        code="store = ContextStore.open(PLACE); write(store); raise OSError('meant')",
        is_left_open=True,
        exit_code=1,
        complaint="OSError: meant",
    ),
    "an exception in the block": Ending(
        code="""
        with ContextStore.open(PLACE) as store:
            write(store)
            raise OSError("meant")
        """,
        exit_code=1,
        complaint="OSError: meant",
    ),
    "sys.exit": Ending(
        code="store = ContextStore.open(PLACE); write(store); sys.exit(3)",
        exit_code=3,
        is_left_open=True,
    ),
    "asynchronous": Ending(
        code="""
        async def main():
            async with AsyncContextStore.open(PLACE) as store:
                await awrite(store)
        asyncio.run(main())
        """
    ),
    "asynchronous and never closed": Ending(
        code="asyncio.run(awrite(AsyncContextStore.open(PLACE), 50))", is_left_open=True
    ),
    "daemon threads": Ending(
        code="""
        store = ContextStore.open(PLACE)
        def work():
            while True:
                store.context().list()
                store.kv("box").put([Item(key="k", value={})])
                store.search("tea")
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        write(store)
        """,
        is_left_open=True,
    ),
    "a thread that outlives the main one": Ending(
        code="""
        store = ContextStore.open(PLACE)
        def work():
            threading.main_thread().join()
            write(store)
            store.flush()
            store.search("tea")
            store.close()
        write(store)
        store.flush()
        threading.Thread(target=work).start()
        """
    ),
    "an exit handler that closes": Ending(
        code="store = ContextStore.open(PLACE); atexit.register(store.close); write(store)"
    ),
    "an exit handler that writes": Ending(
        code="""
        def end():
            write(store)
            store.flush()
            store.search("tea")
            store.close()
        store = ContextStore.open(PLACE)
        write(store)
        atexit.register(end)
        """
    ),
    "Ctrl-C": Ending(
        code="store = ContextStore.open(PLACE)\nwrite(store, 10**9)",
        is_left_open=True,
        exit_code=-signal.SIGINT,
        complaint="KeyboardInterrupt",
        is_interrupted=True,
    ),
    "Ctrl-C in the block": Ending(
        code="with ContextStore.open(PLACE) as store: write(store, 10**9)",
        exit_code=-signal.SIGINT,
        complaint="KeyboardInterrupt",
        is_interrupted=True,
    ),
    "Ctrl-C while asynchronous": Ending(
        code="""
        async def main():
            async with AsyncContextStore.open(PLACE) as store:
                await awrite(store, 10**9)
        asyncio.run(main())
        """,
        exit_code=-signal.SIGINT,
        complaint="KeyboardInterrupt",
        is_interrupted=True,
    ),
}


def problems(python: str, name: str, folder: Path) -> list[str]:
    """What is wrong with that ending; `folder` is empty, and then has what it has acknowledged."""
    ending = ENDINGS[name]
    handled = (
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # Ignored in the background.
    )
    script = textwrap.dedent(_BEGIN) + handled + textwrap.dedent(ending.code)
    warnings = ["-W", "error", *(["-W", "ignore::ResourceWarning"] if ending.is_left_open else [])]
    with (folder / "said").open("w") as said:
        running = subprocess.Popen(
            # As anybody's script: without what the tests have their processes do, which is in variables.
            [python, *warnings, "-c", script, str(folder / "store")],
            stdout=said,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            if ending.is_interrupted:
                while not (folder / "said").stat().st_size and running.poll() is None:
                    time.sleep(0.001)
                running.send_signal(signal.SIGINT)
            _, complaints = running.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            return ["it hangs"]
        finally:
            running.kill()
            running.wait()
    found = [] if running.returncode == ending.exit_code else [f"exit code {running.returncode}"]
    # What interrupted a coroutine is told with the cancellation that it became.
    n_told = complaints.count("Traceback") - complaints.count("\nDuring handling")
    if (complaints.rstrip().rpartition("\n")[2], n_told) != (
        ending.complaint,
        bool(ending.complaint),
    ):
        found.append(complaints)
    return found


def lost(folder: Path) -> list[str]:
    """What was acknowledged there and is gone, and what of the store is not whole."""
    acknowledged = {*(folder / "said").read_text().splitlines()}
    with ContextStore.open(folder / "store") as store:
        gone = acknowledged - {one["text"] for one in store.context().list()}
        broken = map(str, store.verify().problems)
        return [*sorted(gone), *broken] if acknowledged else ["nothing was acknowledged"]


def main() -> None:
    """Says what is wrong with which ending, and ends with an exit code other than 0 if anything is."""
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place, name) for name in ENDINGS}
        for folder in folders.values():
            folder.mkdir()
        found = {
            name: problems(sys.executable, name, one) + lost(one) for name, one in folders.items()
        }
        for name, wrong in found.items():
            print(f"{name}: {'; '.join(wrong) or 'ok'}")  # noqa: T201 - a program, not a test
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()

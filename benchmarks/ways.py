"""How long the way of one warm call is: `python -m benchmarks.ways [--output PAGE] [CALL …]`.

Of each call: how many files of `lance_context_core` it enters, how many functions it calls there and in an
adapter, and how many of these calls lead from a lower layer to a higher one (climbs). Beside what it may
enter, and what is wanted. Nothing is timed, and the least of three equal calls counts, so two runs say
the same, but for what others of the process do meanwhile. A framework's calls are made where it is
installed, and named where not. With `--output` the table of that page is written anew; what could
not be counted keeps its line.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from types import FrameType

from benchmarks.made_part import replaced
from lance_context_core import AsyncContextStore, Item, Message

_OURS = re.compile(r".*/((?:lance_context_core|\w+_lance_context)/.*)")
_LAYERS = dict.fromkeys(("storage",), 0) | dict.fromkeys(
    ("codecs", "erasure", "maintenance", "search", "stores", "versioning"), 1
)
_LAYERS |= dict.fromkeys(("store", "sync"), 2)
"""From the bottom up. Packages outside of this list are used by all: no call to or from them counts as upward."""

Call = Callable[[], Awaitable[object]]
Place = Callable[[str], AbstractAsyncContextManager[Call]]


def main(arguments: Sequence[str]) -> None:
    """Print a line for each call, or for those that are named."""
    parser = argparse.ArgumentParser(prog="benchmarks.ways")
    parser.add_argument("--output", type=Path, help="a page whose table is rewritten")
    parser.add_argument("calls", nargs="*", metavar="CALL")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.calls) - set(CALLS):
        sys.exit(f"unknown calls {sorted(unknown)}: there are {', '.join(CALLS)}")
    threading.setprofile(_seen)  # Before the threads of the store and of its engine are there.
    sys.setprofile(_seen)
    lines = {}
    print(_HEAD)
    for name in asked.calls or CALLS:
        try:
            way = asyncio.run(_way(CALLS[name]))
        except ImportError as error:
            print(f"not installed: {name}: {error}")
            continue
        lines[name] = _line(name, way)
        print(lines[name], flush=True)
    if asked.output:
        page = asked.output.read_text("utf-8")
        asked.output.write_text(
            replaced(page, _table(page, lines), command="benchmarks.ways"), "utf-8"
        )


_HEAD = "| call | files | at most | wanted | at first | calls | wanted | at first | climbs |"


def _line(name: str, way: "Way") -> str:
    first = AT_FIRST[name]
    cells = [len(way.core_files), *FILES.get(name, ("", "")), first[0]]
    cells += [way.calls, N_CALLS.get(name, ""), first[1], way.climbs]
    return f"| {name} | {' | '.join(map(str, cells))} |"


def _table(page: str, lines: Mapping[str, str]) -> str:
    """The table with these lines, and those that the page has of calls that were not counted."""
    rows = re.findall(r"^\|.*\|$", page, flags=re.MULTILINE)
    known = {row.split(" | ")[0].removeprefix("| "): row for row in rows} | dict(lines)
    table = [_HEAD, "|---|" + "---:|" * 8, *(known[name] for name in CALLS if name in known)]
    return "\n".join(table)


class Way:
    """What is entered from `begin` to `end`, by all threads."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.climbs = 0
        self._frames: set[FrameType] = set()

    @property
    def calls(self) -> int:
        """How many functions were called, whatever their files."""
        return self.files.total()

    @property
    def core_files(self) -> set[str]:
        """The files of the store, without those of adapters."""
        return {file for file in self.files if file.startswith("lance_context_core/")}

    def enter(self, frame: FrameType) -> None:
        """Count one call; a coroutine that goes on is no other call."""
        file = _file(frame)
        if file is None or frame in self._frames or frame.f_code.co_name.startswith("<"):
            return
        self._frames.add(frame)
        self.files[file] += 1
        caller = frame.f_back and _file(frame.f_back)
        below, above = _layer(caller) if caller else None, _layer(file)
        if below is not None and above is not None:
            self.climbs += below < above


_way_now: Way | None = None


def _seen(frame: FrameType, event: str, _argument: object) -> None:
    if _way_now is not None and event == "call":
        _way_now.enter(frame)


def _file(frame: FrameType) -> str | None:
    """The file of a function of ours."""
    found = _OURS.match(frame.f_code.co_filename)
    return found and found[1]


def _layer(file: str) -> int | None:
    package, top, *_ = file.split("/")
    return _LAYERS.get(top) if package == "lance_context_core" else max(_LAYERS.values())


async def _way(place: Place) -> Way:
    """The shortest of the ways of three calls that come after a first one, which makes what is made once."""
    global _way_now  # noqa: PLW0603 - a hook of the interpreter's has nowhere else to look
    ways = []
    with tempfile.TemporaryDirectory() as folder:
        async with place(folder) as call:
            await call()
            for _ in range(3):
                ways.append(way := Way())
                _way_now = way
                await call()
                _way_now = None
    return min(ways, key=lambda way: (len(way.core_files), way.calls))


@asynccontextmanager
async def _append(folder: str) -> AsyncIterator[Call]:
    async with AsyncContextStore.open(folder, maintenance=None) as store:
        yield lambda: store.history.append("a", Message.user("tea"), session_id="s")


@asynccontextmanager
async def _append_embedded(folder: str) -> AsyncIterator[Call]:
    async with AsyncContextStore.open(folder, maintenance=None, embedder="local") as store:
        yield lambda: store.history.append("a", Message.user("tea"), session_id="s")


@asynccontextmanager
async def _search(folder: str) -> AsyncIterator[Call]:
    async with AsyncContextStore.open(folder, maintenance=None, embedder="local") as store:
        messages = [Message.user(f"tea number {n}") for n in range(50)]
        await store.history.append_many("a", messages, session_id="s")
        yield lambda: store.search("which tea?", limit=5)


@asynccontextmanager
async def _put(folder: str) -> AsyncIterator[Call]:
    async with AsyncContextStore.open(folder, maintenance=None) as store:
        yield lambda: store.kv("items").put([Item(namespace=("a",), key="k", value={"n": 1})])


@asynccontextmanager
async def _erase(folder: str) -> AsyncIterator[Call]:
    async with AsyncContextStore.open(folder, maintenance=None) as store:
        messages = [Message.user(f"tea number {n}", id=f"m{n}") for n in range(50)]
        await store.history.append_many("a", messages, session_id="s")
        ids = iter(["m1", "m2", "m3", "m4"])
        yield lambda: store.erase(ids=[next(ids)])


@asynccontextmanager
async def _langgraph_put(folder: str) -> AsyncIterator[Call]:
    from langchain_lance_context import LanceContextSaver
    from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint

    async with AsyncContextStore.open(folder, maintenance=None) as store:
        saver = LanceContextSaver(store)
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        metadata: CheckpointMetadata = {"source": "loop", "step": 1}
        yield lambda: saver.aput(config, empty_checkpoint(), metadata, {})


@asynccontextmanager
async def _langgraph_get(folder: str) -> AsyncIterator[Call]:
    from langchain_lance_context import LanceContextSaver
    from langgraph.checkpoint.base import empty_checkpoint

    async with AsyncContextStore.open(folder, maintenance=None) as store:
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        await LanceContextSaver(store).aput(
            config, empty_checkpoint(), {"source": "loop", "step": 1}, {}
        )
        # The one that wrote a checkpoint knows it still.
        yield lambda: LanceContextSaver(store).aget_tuple(config)


@asynccontextmanager
async def _llama_index_store(folder: str, *, is_query: bool) -> AsyncIterator[Call]:
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores import VectorStoreQuery
    from llama_index_lance_context import LanceContextVectorStore

    async with AsyncContextStore.open(folder, maintenance=None) as store:
        nodes = LanceContextVectorStore(store, collection="nodes")
        vector = [1.0, 0.0]
        await nodes.async_add([TextNode(text="tea", embedding=vector)])
        query = VectorStoreQuery(query_embedding=vector, similarity_top_k=1)
        if is_query:
            yield lambda: nodes.aquery(query)
        else:
            yield lambda: nodes.async_add([TextNode(text="tea", embedding=vector)])


CALLS: dict[str, Place] = {
    "history.append": _append,
    "history.append, local embedder": _append_embedded,
    "search, hybrid": _search,
    "kv.put": _put,
    "erase of one id": _erase,
    "LangGraph put": _langgraph_put,
    "LangGraph get_tuple": _langgraph_get,
    "LlamaIndex add": partial(_llama_index_store, is_query=False),
    "LlamaIndex query": partial(_llama_index_store, is_query=True),
}

FILES: dict[str, tuple[int, int]] = {
    "history.append": (30, 14),
    "search, hybrid": (34, 18),
    "kv.put": (27, 10),
    "erase of one id": (50, 22),
    "LangGraph put": (26, 18),
}
"""So many files of the store a call may enter, which is what it does today, and so many are wanted."""

N_CALLS = {"history.append": 110, "erase of one id": 435}
"""So many functions are wanted."""

AT_FIRST = {
    "history.append": (26, 200),
    "history.append, local embedder": (32, 237),
    "search, hybrid": (25, 197),
    "kv.put": (26, 141),
    "erase of one id": (30, 735),
    "LangGraph put": (32, 175),
    "LangGraph get_tuple": (26, 135),
    "LlamaIndex add": (28, 136),
    "LlamaIndex query": (25, 106),
}
"""The files and the functions of the first release."""

if __name__ == "__main__":
    main(sys.argv[1:])

"""How long the way of one warm call is: `python -m benchmarks.ways [CALL …]`.

Of each call: how many rooms it enters (as `docs/house.md` counts them: a folder of the store, or a file
beside them; each adapter is one), how many files of these, how many functions it calls there, and how many
of these calls lead from a lower layer to a higher one (climbs). Beside what is wanted: so many rooms and
calls. Nothing is timed, so two runs say the same, but for what others of the process do meanwhile. A
framework's calls are made where it is installed, and named where not.
"""

import asyncio
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import FrameType

from lance_context_core import AsyncContextStore, Item, Message

_OURS = re.compile(r".*/((?:lance_context_core|\w+_lance_context)/.*)")
_LAYERS = dict.fromkeys(("engine",), 0) | dict.fromkeys(
    ("erasure", "rows", "search", "stores", "upkeep", "versioning"), 1
)
_LAYERS |= dict.fromkeys(("store", "sync"), 2)
"""From the ground up. What stands beside them is used by all: no call to it or from it is a climb."""

Call = Callable[[], Awaitable[object]]
Place = Callable[[str], AbstractAsyncContextManager[Call]]


def main(names: Sequence[str]) -> None:
    """Print a line for each call, or for those that are named."""
    if unknown := set(names) - set(CALLS):
        sys.exit(f"unknown calls {sorted(unknown)}: there are {', '.join(CALLS)}")
    threading.setprofile(_seen)  # Before the threads of the store and of its engine are there.
    sys.setprofile(_seen)
    print(f"{'call':36} {'rooms':>12} {'files':>6} {'calls':>12} {'climbs':>6}")
    for name in names or CALLS:
        try:
            way = asyncio.run(_way(CALLS[name]))
        except ImportError as error:
            print(f"{name:36} not here: {error}")
            continue
        rooms, calls = map(_beside, (len(way.rooms), way.calls), WANTED.get(name, (None, None)))
        print(f"{name:36} {rooms:>12} {len(way.files):6} {calls:>12} {way.climbs:6}")


def _beside(n: int, wanted: int | None) -> str:
    return str(n) if wanted is None else f"{n} (of {wanted})"


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
    def rooms(self) -> set[str]:
        """The folders of the store, the files beside them, and the adapters."""
        return {_room(file) for file in self.files}

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


def _room(file: str) -> str:
    package, top, *_ = file.split("/")
    return top if package == "lance_context_core" else package


def _layer(file: str) -> int | None:
    package, top, *_ = file.split("/")
    return _LAYERS.get(top) if package == "lance_context_core" else max(_LAYERS.values())


async def _way(place: Place) -> Way:
    """The way of the second of two calls, when what is made once is made."""
    global _way_now  # noqa: PLW0603 - a hook of the interpreter's has nowhere else to look
    way = Way()
    with tempfile.TemporaryDirectory() as folder:
        async with place(folder) as call:
            await call()
            _way_now = way
            await call()
            _way_now = None
    return way


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
        ids = iter(["m1", "m2"])
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

WANTED: dict[str, tuple[int, int | None]] = {
    "history.append": (15, 110),
    "search, hybrid": (15, None),
    "erase of one id": (20, 340),
    "LangGraph put": (18, None),
}
"""At most so many rooms, and calls."""

if __name__ == "__main__":
    main(sys.argv[1:])

"""How long event loops stand still while the store is at work: the caller's, and the store's own."""

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from benchmarks.sides.measuring import Stalls, collecting, stalls_here
from benchmarks.sides.opened import RUNNER, opened
from benchmarks.sides.protocol import Handler
from lance_context_core import AsyncContextStore, ContextStore, Item, Message
from lance_context_core._loop import store_loop
from lance_context_core.settings import JournalPolicy

_AGENT = "bench"
_DIMENSION = 384
_ROWS = 5_000
_UNFOLDED = 3_000
_AT_ONCE = 100
_APPENDS = 1_500
_THREADS = 4
_COLLECTING = "Python looks through all objects for garbage"
_LATE = JournalPolicy(rows=100_000, bytes=1 << 30, idle=timedelta(hours=1))
"""Folds nothing by itself."""
_NUMBERS = itertools.count()
_draw = random.Random(5)
_VECTORS = [[_draw.gauss(0, 1) for _ in range(_DIMENSION)] for _ in range(_AT_ONCE)]


def loops(*, uri: str) -> dict[str, dict[str, float]]:
    """The longest stalls in seconds, by work and by loop, and what its thread worked meanwhile."""

    async def run() -> dict[str, dict[str, float]]:
        store = await opened(uri, uri)
        await _fill(store)
        await _unfolded(f"{uri}-late")
        found = {}
        for name, work in _works(store, uri).items():
            found[name] = await _watched(work)
        found[_COLLECTING] = {"longest": collecting.longest}
        return found

    return RUNNER.run(run())


def _works(store: AsyncContextStore, uri: str) -> dict[str, Callable[[], Awaitable[object]]]:
    return {
        "nothing but timers": lambda: asyncio.sleep(1),
        f"{_APPENDS:,} appends of {_AT_ONCE} tasks, and the folds": lambda: _appends(store),
        f"{_AT_ONCE} hybrid searches at once": lambda: _searches(store),
        "appends, reads, searches and maintain()": lambda: _all(store),
        f"the first read over {_UNFOLDED:,} rows that no fold has taken": lambda: _first(
            f"{uri}-late"
        ),
        f"the blocking API, in {_THREADS} threads": lambda: _blocking(f"{uri}-threads", _talk),
        f"blocking puts of items, in {_THREADS} threads": lambda: _blocking(f"{uri}-puts", _put),
    }


async def _watched(work: Callable[[], Awaitable[object]]) -> dict[str, float]:
    theirs = store_loop.spawn_apart(_started())
    watch = await asyncio.wrap_future(theirs)
    async with stalls_here() as here:
        await asyncio.sleep(0.01)
        await work()
        await asyncio.sleep(0.01)
    there: Stalls = await asyncio.wrap_future(store_loop.spawn_apart(watch.ended()))
    return {
        "caller": here.longest,
        "caller, at work": here.longest_at_work,
        "store": there.longest,
        "store, at work": there.longest_at_work,
    }


class _Watch:
    """Of the loop on which it was begun, until it is ended there."""

    def __init__(self) -> None:
        self._context = stalls_here()

    async def begin(self) -> "_Watch":
        self._stalls = await self._context.__aenter__()
        return self

    async def ended(self) -> Stalls:
        await self._context.__aexit__(None, None, None)
        return self._stalls


async def _started() -> _Watch:
    return await _Watch().begin()


async def _fill(store: AsyncContextStore) -> None:
    await store.context().add_many(
        {
            "role": "user",
            "content": f"row {number} about {number % 97}",
            "embedding": _VECTORS[number % _AT_ONCE],
            "session_id": f"s{number % 100}",
            "agent_id": _AGENT,
        }
        for number in range(_ROWS)
    )
    await _append(store)
    await store.maintain()


async def _unfolded(uri: str) -> None:
    """A store whose journal holds much."""
    async with AsyncContextStore.open(uri, journal=_LATE) as store:
        said = [Message.user(f"turn {number} " + "word " * 40) for number in range(50)]
        for start in range(0, _UNFOLDED, len(said)):
            await store.history.append_many(_AGENT, said, session_id=f"s{start}")


async def _append(store: AsyncContextStore) -> None:
    number = next(_NUMBERS)
    said = Message.user(f"turn {number}")
    await store.history.append(_AGENT, said, session_id=f"t{number % 50}")


async def _appends(store: AsyncContextStore) -> None:
    async def some() -> None:
        for _ in range(_APPENDS // _AT_ONCE):
            await _append(store)

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))


async def _searches(store: AsyncContextStore) -> None:
    await asyncio.gather(
        *(
            store.search(f"about {number}", vector=vector, limit=10)
            for number, vector in enumerate(_VECTORS)
        )
    )


async def _all(store: AsyncContextStore) -> None:
    upkeep = asyncio.ensure_future(store.maintain())
    rounds = 0
    while not upkeep.done() or rounds < 5:
        rounds += 1
        await asyncio.gather(
            *(_append(store) for _ in range(8)),
            *(
                store.history.get_messages(_AGENT, session_id=f"s{number}", last=50)
                for number in range(4)
            ),
            *(store.search(f"about {rounds}", vector=_VECTORS[one], limit=10) for one in range(4)),
        )
    await upkeep


async def _first(uri: str) -> None:
    async with AsyncContextStore.open(uri, journal=_LATE) as store:
        assert await store.history.get_messages(_AGENT, session_id="s0", last=10)


async def _blocking(uri: str, call: Callable[[ContextStore, int], object]) -> None:
    """Have each of some threads call without a pause, for two seconds."""

    def work(store: ContextStore) -> None:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            call(store, next(_NUMBERS))

    def run() -> None:
        with ContextStore.open(uri) as store:
            threads = [threading.Thread(target=work, args=[store]) for _ in range(_THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    await asyncio.to_thread(run)


def _talk(store: ContextStore, number: int) -> None:
    store.history.append(_AGENT, Message.user(f"turn {number}"), session_id="t")
    if number % 10 == 0:
        store.search(f"turn {number}", mode="text", limit=10)


def _put(store: ContextStore, number: int) -> None:
    store.kv("items").put([Item(key=f"{number % 500}", value={"number": number})])


OPERATIONS: dict[str, Handler] = {"loops": loops}

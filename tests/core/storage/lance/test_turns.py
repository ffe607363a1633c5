"""Writers of one table without a lock in common share it, on a clock and a server of the tests' own.

The server answers one request after the other, and a commit is made if nobody's came since it looked.
"""

import asyncio
import random
import selectors
from statistics import mean, median
from types import SimpleNamespace

import pytest

from lance_context_core.storage.lance import contention

LOST = "lance error: Too many concurrent writers. Attempted 1 times, but failed on retry_timeout"
LIST, GET, PUT = 0.02, 0.003, 0.003
SECONDS = 20
SEEDS = range(6)


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while all wait."""

    def __init__(self, seed):
        self.now = 1000 + seed / 7
        clock = self

        class Selector(selectors.SelectSelector):
            def select(self, timeout=None):
                clock.now += max(timeout or 0, 0)
                return super().select(0)

        super().__init__(Selector())

    def time(self):
        return self.now


class Server:
    """Answers one request at a time."""

    def __init__(self):
        self.version = 1
        self._free = 0.0

    async def answer(self, seconds):
        now = asyncio.get_running_loop().time()
        self._free = max(self._free, now) + seconds * random.uniform(0.8, 1.3)
        await asyncio.sleep(self._free - now)


class Handle:
    """Stands for the engine's handle."""

    def __init__(self, server):
        self.server = server
        self._version = 1

    async def version(self):
        return self._version

    async def checkout_latest(self):
        await self.server.answer(LIST)
        self._version = self.server.version
        await self.server.answer(GET)

    async def commit(self):
        """One try, as the engine makes it: the rows, the newest version, and then its own, if it is."""
        await asyncio.sleep(0.004)
        await self.server.answer(PUT)
        await self.server.answer(LIST)
        seen = self.server.version
        await self.server.answer(GET * (seen - self._version) + 2 * PUT)
        if self.server.version != seen:
            await self.server.answer(2 * GET)
            raise RuntimeError(LOST)
        self.server.version = self._version = seen + 1


async def writes(n_steady, n_pausing):
    """How often each writer wrote, and how long each write took it."""
    server, loop = Server(), asyncio.get_running_loop()
    end = loop.time() + SECONDS
    took = [[] for _ in range(n_steady + n_pausing)]

    async def write(i):
        handle, turns = Handle(server), contention.Turns()
        await asyncio.sleep(random.random() / 2)
        while (began := loop.time()) < end:
            await contention.insist("write", handle, lambda _: handle.commit(), turns=turns)
            took[i].append(loop.time() - began)
            if i >= n_steady:
                await asyncio.sleep(random.uniform(0.5, 1.5))

    await asyncio.gather(*(write(i) for i in range(len(took))))
    assert server.version == 1 + sum(map(len, took))
    return took


@pytest.fixture
def run(monkeypatch):
    """`writes`, with its own clock and chances that the seed decides."""

    def run(seed, n_steady=0, n_pausing=0):
        random.seed(seed)
        loop = Clock(seed)
        clock = SimpleNamespace(monotonic=loop.time, time=lambda: loop.now + 12345.25)
        monkeypatch.setattr(contention, "time", clock)
        try:
            return loop.run_until_complete(writes(n_steady, n_pausing))
        finally:
            loop.close()

    return run


@pytest.mark.parametrize(("n_writers", "share"), [(2, 0.9), (3, 0.75), (4, 0.65)])
def test_writers_that_never_pause_get_much_of_what_one_alone_does_and_none_starves(
    run, n_writers, share
):
    alone = mean(len(run(seed, 1)[0]) for seed in SEEDS)
    counts = [[len(took) for took in run(seed, n_writers)] for seed in SEEDS]
    assert mean(map(sum, counts)) > share * alone
    for n_done in counts:
        assert min(n_done) >= median(n_done) / 3, n_done


def test_writers_that_pause_by_themselves_hardly_wait_for_each_other(run):
    alone = median(run(0, n_pausing=1)[0])
    for seed in SEEDS:
        took = [one for writer in run(seed, n_pausing=3) for one in writer]
        assert median(took) < 1.5 * alone
        assert max(took) < 12 * alone


def test_who_writes_seldom_gets_in_beside_one_that_never_pauses(run):
    for seed in SEEDS:
        steady, *seldom = run(seed, 1, n_pausing=2)
        assert max(map(max, seldom)) < 3
        assert len(steady) > 120

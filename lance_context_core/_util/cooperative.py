"""Long lists, converted in steps between which others have their turn on the event loop."""

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R")

STEP = 32
"""How many items are converted in one turn of an event loop, by all of its tasks together.

To check a record, to write it out or to read it back takes 0.05 to 0.2 ms.
"""

_LONG = 8_192
"""How many characters are taken for a text of the usual length; to stem their words takes up to 20 ms."""

_MOST_SECONDS = 0.005
"""How long a turn may take until the next one begins, however few were converted in it.

Where a thread is busy, such as that of another loop, a call that lets go of the interpreter for a
moment has it back only milliseconds later.
"""


async def each(convert: Callable[[T], R], items: Iterable[T], *, n_as_one: int = 1) -> list[R]:
    """What `convert` makes of each of the items, in their order. Raises what it raises.

    `n_as_one` of them take as long as one record does.
    """
    given = list(items)
    done: list[R] = []
    if not given:
        return done
    turn = _turn()
    while n_left := len(given) - len(done):
        n = -(-n_left // n_as_one)
        step = n_as_one * (turn.take(n) or await turn.take_later(n))
        done += map(convert, given[len(done) : len(done) + step])
    return done


async def each_row(convert: Callable[[dict[str, Any]], R], table: pa.Table | list[Any]) -> list[R]:
    """As `each`, of the rows of a table, each with its values by column; or of those of a list."""
    if not isinstance(table, pa.Table):
        return await each(convert, table)
    done: list[R] = []
    while len(done) < table.num_rows:
        step = await may_take(table.num_rows - len(done))
        done += map(convert, table.slice(len(done), step).to_pylist())
    return done


async def may_take(n: int) -> int:
    """How many of `n` items may be converted before the next wait: at least one, at most `n`.

    It waits where others have already converted as many in this turn of the loop as one may hold,
    be they a hundred tasks with a few items each.
    """
    # Each look at the journal comes by here, so that it does not call for what is at hand.
    if (turn := _thread.turn) is None or turn.loop is not asyncio.get_running_loop():
        turn = _turn()
    return turn.take(n) or await turn.take_later(n)


def end_of_turn() -> float:
    """Until when what is begun now may hold up a loop, for `is_over`."""
    return time.monotonic() + _MOST_SECONDS


def is_over(end: float) -> bool:
    """Whether that moment is past."""
    return time.monotonic() > end


async def take_all(n: int) -> None:
    """Wait until as much may be done as `n` items take, or as one turn holds if that is less."""
    turn, n = _turn(), min(n, STEP)
    if not turn.take(n, least=n):
        await turn.take_later(n, least=n)


async def of_text(work: Callable[[str], R], text: str) -> R:
    """`work(text)`, which is about its words: beside the loop where there are very many."""
    return work(text) if len(text) <= _LONG else await asyncio.to_thread(work, text)


def _turn() -> "_Turn":
    loop = asyncio.get_running_loop()
    if (turn := _thread.turn) is None or turn.loop is not loop:
        turn = _thread.turn = _Turn(loop)
    return turn


class _Thread(threading.local):
    """What a thread knows."""

    turn: "_Turn | None" = None
    """That of the loop that runs in it."""


_thread = _Thread()


class _Turn:
    """What is left to be converted in a turn of one event loop, and who waits for the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._n_left = STEP
        self._until: float | None = None
        """When this turn has taken long enough; None before anything is converted in it."""
        self._is_begun = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap: who has waited longest is first; with how many each waits for."""
        self._n_woken = 0
        """Who has waited, and goes on in this turn, before all who come now."""
        self._served: set[asyncio.Task[Any] | None] = set()
        """Of these, who has been at it in this turn."""
        self._places = itertools.count()

    def take(self, n: int, *, least: int = 1, is_woken: bool = False) -> int:
        """As many of `n` as are left, or none; none while others were woken and not at it yet.

        Who has waited and is at it goes on: what is looked at is still so when it is written.
        """
        if self._n_woken and not is_woken and asyncio.current_task() not in self._served:
            return 0
        now = time.monotonic()
        is_late = self._until is not None and now > self._until
        if is_late and self._is_begun:
            return 0
        self._until = self._until or now + _MOST_SECONDS
        taken = min(n, self._n_left) if self._n_left >= least else 0
        self._n_left -= taken
        # While there is plenty, the loop need not come round for it. It may have, if it is late.
        if is_late or self._n_left <= STEP // 2:
            self._begin()
        return taken

    async def take_later(self, n: int, *, least: int = 1) -> int:
        """At least so many of `n`, as soon as they are left for who waits here."""
        # Who has not got enough keeps the place: else one who takes all, again and again, would be
        # first for ever.
        place, taken = next(self._places), 0
        while taken < least:
            future = self.loop.create_future()
            heapq.heappush(self._waiting, (place, n - taken, future))
            self._begin()
            try:
                await future
            finally:
                self._n_woken -= future.done() and not future.cancelled()
            taken += self.take(n - taken, is_woken=True)
        self._served.add(asyncio.current_task())
        return taken

    # Helpers

    def _begin(self) -> None:
        """Have the next turn begin once the loop has come round, if that is not on its way."""
        if not self._is_begun:
            self._is_begun = True
            self.loop.call_soon(self._renew)

    def _renew(self) -> None:
        """Begin the next turn: the loop has seen to everything else that was due."""
        self._n_left, self._until = STEP, None
        self._served.clear()
        # No more can find something left: to wake all others again and again would cost their square.
        n_left = STEP
        while self._waiting and n_left > 0:
            _, n, future = heapq.heappop(self._waiting)
            if not future.done():
                n_left -= n
                future.set_result(None)
                self._n_woken += 1
        self._is_begun = bool(self._waiting)
        if self._is_begun:
            self.loop.call_soon(self._renew)

"""Contention: writers of a table without a common lock take turns by the clock.

Object stores have no locks. Of concurrent commits one is made, and the others lose a race: they are
retried on top of it. Among writers that pause that is rare, and retrying soon is best. A writer
without pauses would win forever, so those divide the time. A turn ends when the wall clock shows a
multiple of its length: all know it without a message. The writer of the last turn is then silent,
the one that has waited for as many turns as others seem to exist goes first, and the next ones
check a little later whether it commits. Two that begin together find out by their first commits,
and the second takes another turn. A writer that knows of no others rests a moment at the end of
every second turn, so that another is noticed. Differing clocks cost time, nothing else: the commit
decides.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from lance_context_core._util.retry import retried
from lance_context_core.errors import ConflictError, StorageError
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.errors import asked, is_lost_race, meant

T = TypeVar("T")

_ATTEMPTS = 300
"""The maximum number of retries after lost races."""

_OTHER_ATTEMPTS = 5
"""The maximum number of retries after other errors, which seldom pass."""

_PAUSE_SECONDS = 0.1
"""The maximum delay of a loser, so that writers that lost together do not retry together."""

_TURN_SECONDS = 1.0
"""The length of a turn, doubled until `_TURN_COMMITS` fit in: commits differ, and all writers must
agree."""
_TURN_COMMITS = 12

# In turns, since the end of the last one: when the next writer begins, how much later each further
# one checks, and how long a writer that knows of no others rests.
_START = 0.04
_SLOT = 0.08
_REST = 0.12

_N_SLOTS = 2
"""A writer further back than this many does not check."""

_N_ALONE = 2
"""The number of turns that a process continues if it knows of no others."""

_LEAST_SECONDS = 0.02
"""The minimum assumed duration of a commit."""

_PAUSED = 3
"""After this many times of it without a commit a process takes no turn: its pauses suffice."""

_TRIES = 4
"""How often such a process tries a commit at once before it waits for the end of a turn."""

_KNOWN_SECONDS = 10.0
"""How long others are assumed to write after their last seen commit."""

_MOST_OTHERS = 64
"""The maximum number of other writers' turns to wait for."""


class Turns:
    """The turns of one process at one table."""

    def __init__(self) -> None:
        """Knows of no others yet."""
        self._newest = self._n_done = self._n_at_work = 0
        self._last = self._others_until = self._turn_until = 0.0
        self._took = _LEAST_SECONDS
        self._n_others = 1
        """The known number of other writers' turns between two of this process."""
        self._n_waited = 0
        self._is_first = False
        """Whether this turn is this process's: its commit was the first one in it."""
        self._is_pausing = False

    async def take(self, action: str, handle: Any) -> None:
        """Return when this process may commit: at once if it pauses, or in its turn."""
        now = time.monotonic()
        if now < self._turn_until:
            return
        is_alone = now >= self._others_until
        self._is_pausing = now - self._last > _PAUSED * self._took
        if self._is_pausing:
            self._newest = self._n_done = 0
            if not is_alone:
                return
        elif is_alone:
            await _sleep_until(self._turn_until + _REST * self._turn()[1])
        else:
            await self._wait(action, handle)
        self._begin_turn(_N_ALONE if is_alone else 1)

    async def lost(self, action: str, handle: Any, n_lost: int) -> None:
        """Return when a commit that lost that many races may be retried.

        At once if it is this process's turn, soon if it pauses anyway, otherwise in another turn.
        """
        now = time.monotonic()
        self._is_first = self._is_first and now < self._others_until
        self._others_until = now + _KNOWN_SECONDS
        if self._is_pausing and n_lost % _TRIES == 0:
            edge, seconds = self._turn()
            await _sleep_until(edge + seconds * random.uniform(1, 1 + _START))  # noqa: S311 - no secret
        elif self._is_pausing or (self._is_first and now < self._turn_until):
            most = n_lost * self._took if self._is_pausing else self._took / 2
            await asyncio.sleep(random.uniform(0, most))  # noqa: S311 - no secret
        else:
            self._yield()
            self.end()
            try:
                await self._wait(action, handle)
            finally:
                self.begin()
            self._begin_turn()
            return
        await asked(action, handle.checkout_latest())

    async def _wait(self, action: str, handle: Any) -> None:
        """Wait for this process's next turn, and refresh `handle` to the latest commit."""
        edge, seconds = self._turn()
        edge = max(edge, self._turn_until)
        has_had_it = edge < self._turn_until + _SLOT * seconds
        if not has_had_it:
            edge += seconds
        while True:
            n_before = max(0, self._n_others - self._n_waited)
            if n_before <= _N_SLOTS:
                await _sleep_until(edge + _START * seconds)
                if not has_had_it:
                    await self._hears_others(action, handle)
                if not n_before:
                    return
                await _sleep_until(edge + (_START + _SLOT * n_before) * seconds)
                if not await self._hears_others(action, handle):
                    self._n_others = max(1, self._n_waited)
                    return
            self._n_waited, has_had_it = self._n_waited + 1, False
            edge = max(edge + seconds, self._turn()[0])

    def begin(self) -> float:
        """Note the start of a commit; returns its time."""
        self._n_at_work += 1
        return time.monotonic()

    def end(self) -> None:
        """Note the end of a commit, made or not."""
        self._n_at_work -= 1

    async def done(self, handle: Any, began: float) -> None:
        """Note a commit, which shows whether others committed since the last one.

        While other tasks of this process commit it shows nothing: their versions count, too.
        """
        now, version = time.monotonic(), int(await handle.version())
        self._took = max(_LEAST_SECONDS, 0.9 * self._took + 0.1 * (now - began))
        self._n_done, self._last = self._n_done + 1, now
        if self._n_at_work > 1:
            return
        if self._newest and version > self._newest + self._n_done:
            if now >= self._others_until:
                edge, seconds = self._turn()
                self._turn_until, self._is_first = min(self._turn_until, edge + seconds), False
            elif not self._is_first:
                self._yield()
            self._others_until = now + _KNOWN_SECONDS
        elif self._newest and not self._is_first:
            self._is_first = True
            self._n_waited = 0
        self._newest, self._n_done = version, 0

    def _begin_turn(self, n_turns: int = 1) -> None:
        edge, seconds = self._turn()
        self._turn_until, self._is_first = edge + n_turns * seconds, False

    def _yield(self) -> None:
        """Leave this turn to others."""
        if self._n_waited == self._n_others < _MOST_OTHERS:
            self._n_others += 1
        self._n_waited += 1
        self._turn_until = 0.0

    async def _hears_others(self, action: str, handle: Any) -> bool:
        """Whether others have committed since this process last checked or committed."""
        await asked(action, handle.checkout_latest())
        version = int(await handle.version())
        has_others = version > self._newest + self._n_done
        if has_others:
            self._others_until = time.monotonic() + _KNOWN_SECONDS
        if self._n_at_work == 0:
            self._newest, self._n_done = version, 0
        return has_others

    def _turn(self) -> tuple[float, float]:
        """The start of the current turn, by the monotonic clock, and the turns' seconds."""
        seconds = _TURN_SECONDS
        while seconds < _TURN_COMMITS * self._took:
            seconds *= 2
        return time.monotonic() - time.time() % seconds, seconds


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(moment - time.monotonic())


_HINT_SECONDS = 0.1
_ended_at = -math.inf
"""When the last commit of this process ended, by the monotonic clock."""


def rest_at_exit() -> None:
    """Wait for the engine's write after the last commit: a hint at the newest version.

    The engine complains if the interpreter ends meanwhile.
    """
    if (left := _ended_at + _HINT_SECONDS - time.monotonic()) > 0:
        time.sleep(left)


async def insist(
    action: str,
    handle: Any,
    work: Callable[[Any], Awaitable[T]],
    *,
    turns: Turns | None = None,
) -> T:
    """Run `work`, one commit; retry it on top of other commits that prevented it.

    `turns` are given if others may commit concurrently.
    """
    global _ended_at  # noqa: PLW0603 - there is one engine in a process
    n_others = n_lost = 0
    began = time.monotonic()

    async def catch_up(error: Exception) -> None:
        nonlocal n_others, n_lost, began
        if isinstance(error, ConflictError) and is_lost_race(error):
            n_lost += 1
            if turns is not None:
                await turns.lost(action, handle, n_lost)
            else:
                await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 - no secret
                await asked(action, handle.checkout_latest())
            began = time.monotonic()
            return
        n_others += 1
        if n_others == _OTHER_ATTEMPTS:
            raise error
        if isinstance(error, ConflictError):
            await asked(action, handle.checkout_latest())
        elif not await reads.has_moved(handle, error):
            raise error

    tried = partial(
        retried,
        lambda: work(handle),
        on=(ConflictError, StorageError),
        attempts=_ATTEMPTS,
        between=catch_up,
        meant=partial(meant, action),
    )
    try:
        if turns is None:
            return await tried()
        await turns.take(action, handle)
        began = turns.begin()
        try:
            done = await tried()
            await turns.done(handle, began)
        finally:
            turns.end()
        return done
    finally:
        _ended_at = time.monotonic()

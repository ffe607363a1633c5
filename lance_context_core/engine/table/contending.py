"""Writers of one table that have no lock in common, as on an object store, take turns by listening.

Of several commits at the same time the engine lets one win, and tries the others again: after pauses
that double each time, while the winner goes on without any, and each lost try costs the winner time, too.
So the engine is told to give up soon (see `engine`), and the writers do as stations on one wire do: who
knows of others commits for a while, then listens until the table is still, and so does who lost a race.
A writer that is alone asks for nothing more than it would anyway, and rests for a twentieth of its time
where it would go on without a pause.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from lance_context_core._retrying import retried
from lance_context_core.engine.errors import asked, is_lost_race, meant
from lance_context_core.engine.table import reading
from lance_context_core.errors import ConflictError, StorageError

T = TypeVar("T")

_ATTEMPTS = 300
"""How often a commit is made again that lost a race."""

_OTHER_ATTEMPTS = 5
"""How often, where anything else prevented it: that seldom passes."""

_PAUSE_SECONDS = 0.1
"""At most so long a loser waits, so that those who lost together do not begin together."""

_TURN_SECONDS = 1.0
"""How long a turn is among others; longer where that is less than `_TURN_COMMITS` take."""
_TURN_COMMITS = 24

_ALONE_SECONDS = 2.0
"""After so long without a rest a writer that knows of no others lets others in: it cannot hear them."""

_LEAST_SECONDS = 0.02
"""What a commit is taken for at least."""

_PATIENCE_SECONDS = 3.0
"""After so long who listens tries all the same."""

_KNOWN_SECONDS = 3.0
"""For how long others are taken to write after the last commit of theirs."""


class Turns:
    """The turns of one process at one table."""

    def __init__(self) -> None:
        """Nothing is known of others."""
        self._newest = self._n_done = self._n_at_work = 0
        self._others_until = self._turn_until = 0.0
        self._took = _LEAST_SECONDS
        self._rested = self._last = 0.0

    async def take(self, action: str, handle: Any) -> None:
        """Return when it may be this process's turn; at once where it is, or no others are known.

        A writer that knows of no others and never rests pauses once in a while, for at most a
        twentieth of its time, so that others that listen find the table still.
        """
        now = time.monotonic()
        if now < self._others_until:
            if now >= self._turn_until:
                await asyncio.sleep(self._pause)
                await self.listen(action, handle)
        elif now - self._last > self._pause:
            self._rested = now
        elif now - self._rested > max(_ALONE_SECONDS, 20 * self._pause):
            await asyncio.sleep(self._pause)
            self._rested = time.monotonic()

    async def listen(self, action: str, handle: Any) -> None:
        """Wait until nobody has committed for longer than a commit takes, and take the turn."""
        until = time.monotonic() + max(_PATIENCE_SECONDS, 30 * self._pause)
        seen = -1
        while time.monotonic() < until:
            await asked(action, handle.checkout_latest())
            if seen == (newest := int(await handle.version())):
                break
            if seen >= 0:
                self.heard()
            seen = newest
            await asyncio.sleep(self._took * random.uniform(2.5, 3.5))  # noqa: S311 - no secret
        if self._n_at_work == 0:
            self._newest, self._n_done = max(self._newest, seen), 0
        self._turn_until = time.monotonic() + max(_TURN_SECONDS, _TURN_COMMITS * self._took)

    def begin(self) -> float:
        """Note that a commit is tried; returns when."""
        self._n_at_work += 1
        return time.monotonic()

    def end(self) -> None:
        """Note that it is not tried any more, whether it was made or not."""
        self._n_at_work -= 1

    async def done(self, handle: Any, began: float) -> None:
        """Note a commit that was made, which shows whether others made some since the last one.

        While more of this process are at work it shows nothing: theirs may be among the versions.
        """
        now, version = time.monotonic(), int(await handle.version())
        self._took = max(_LEAST_SECONDS, 0.8 * self._took + 0.2 * (now - began))
        self._n_done, self._last = self._n_done + 1, now
        if self._n_at_work > 1:
            return
        if self._newest and version > self._newest + self._n_done:
            if now >= self._others_until:
                self._turn_until = now  # The others have had no turn yet.
            self.heard()
        self._newest, self._n_done = version, 0

    def heard(self) -> None:
        """Note that others write, too."""
        self._others_until = time.monotonic() + _KNOWN_SECONDS

    @property
    def _pause(self) -> float:
        """Long enough for who listens to hear nothing twice."""
        return 8 * self._took


async def insist(
    action: str,
    handle: Any,
    work: Callable[[Any], Awaitable[T]],
    *,
    turns: Turns | None = None,
) -> T:
    """Do `work`, which is one commit; on top of what others committed, if that prevents it.

    `turns` are given where others may commit at the same time.
    """
    n_others = n_lost = 0
    began = time.monotonic()

    async def catch_up(error: Exception) -> None:
        nonlocal n_others, n_lost, began
        if isinstance(error, ConflictError) and is_lost_race(error):
            n_lost += 1
            if turns is not None:
                turns.heard()
            if turns is not None and n_lost % 2:
                await turns.listen(action, handle)
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
        elif not await reading.has_moved(handle, error):
            raise error

    tried = partial(
        retried,
        lambda: work(handle),
        on=(ConflictError, StorageError),
        attempts=_ATTEMPTS,
        between=catch_up,
        meant=partial(meant, action),
    )
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

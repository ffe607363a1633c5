"""A commit that other writers prevented is made again on top of theirs.

Of several commits at the same time the engine lets one win, and tries the others again: after pauses
that double each time, while the winner goes on without any. So one writer gets nearly all commits of a
table that has no lock, as on an object store. The engine is told to give up soon (see `engine`), and
the commit begins anew here, where no pause grows: each try has the same chance, so that all writers
advance alike, and as some try always wins, together they are no slower than one.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from lance_context_core._retrying import retried
from lance_context_core.engine.errors import asked, is_lost_race, meant
from lance_context_core.engine.table import reading
from lance_context_core.errors import ConflictError, StorageError

T = TypeVar("T")

_ATTEMPTS = 300
"""How often a commit is made again that lost a race. Each try lasts a quarter of a second, or longer."""

_OTHER_ATTEMPTS = 5
"""How often, where anything else prevented it: that seldom passes."""

_PAUSE_SECONDS = 0.1
"""At most so long a loser waits, so that those who lost together do not begin together."""


async def insist(action: str, handle: Any, work: Callable[[Any], Awaitable[T]]) -> T:
    """Do `work`, which is one commit; on top of what others committed, if that prevents it."""
    n_others = 0

    async def catch_up(error: Exception) -> None:
        nonlocal n_others
        if isinstance(error, ConflictError) and is_lost_race(error):
            await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 - no secret
            await asked(action, handle.checkout_latest())
            return
        n_others += 1
        if n_others == _OTHER_ATTEMPTS:
            raise error
        if isinstance(error, ConflictError):
            await asked(action, handle.checkout_latest())
        elif not await reading.has_moved(handle, error):
            raise error

    return await retried(
        lambda: work(handle),
        on=(ConflictError, StorageError),
        attempts=_ATTEMPTS,
        between=catch_up,
        meant=partial(meant, action),
    )

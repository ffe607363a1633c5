"""Renewing a lease in the background: an attempt that fails is repeated, until the lease is lost."""

import asyncio
from collections.abc import Awaitable, Callable

from lance_context_core._util.logs import log

Renew = Callable[[], Awaitable[float | None]]
"""Renews what is due; returns the seconds until the next call, or None if nothing is held any more."""


async def keep_renewed(renew: Renew, what: str, *, retry_seconds: float) -> None:
    """Call `renew` until it returns None, also after it raised an error; `what` is for the log."""
    pause: float | None = 0.0
    while pause is not None:
        await asyncio.sleep(pause)
        try:
            pause = await renew()
        except Exception as error:  # noqa: BLE001 - what fails now may succeed before the lease ends
            log.warning("%s was not renewed, it is tried again: %s", what, type(error).__name__)
            pause = retry_seconds

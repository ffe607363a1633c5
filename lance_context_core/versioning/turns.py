"""Whole-store verbs one after the other, as far as they make, remove or walk over branches and tags."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

from lance_context_core.errors import ConflictError
from lance_context_core.storage.database import RECORDS_TABLE
from lance_context_core.storage.file_locks import locked
from lance_context_core.storage.lance.connection import Connection

_PATIENCE_SECONDS = 600
"""How long a verb waits for its turn."""

_PAUSE_SECONDS = 0.005

_held: ContextVar[frozenset[object]] = ContextVar("lance_context_turns", default=frozenset())
"""The stores whose turn the caller has: verbs call others, and functions of the user's, which may."""


@asynccontextmanager
async def turn(
    connection: Connection, *, patience_seconds: float | None = None
) -> AsyncIterator[None]:
    """Make, remove, clean or walk over the branches and tags of a store in here: no other process does.

    Half of one looks like what a crash left behind, and would be removed. Object stores have no locks:
    there it is no other task or thread that has the same store open. Raises ConflictError, before
    anything is done, if others have the turn for longer than `patience_seconds`, ten minutes by default.
    """
    if patience_seconds is None:
        patience_seconds = _PATIENCE_SECONDS
    if connection.place in (held := _held.get()):
        yield
        return
    refusal = ConflictError(
        f"others have been naming, merging, thinning or erasing in {connection.uri!r} for "
        f"{patience_seconds:g} seconds: nothing was done, call again. A process that is stopped keeps "
        "its turn: end it, or let it go on"
    )
    # One of the folders of the records, since commits to them lock others.
    place = Path(connection.uri) / f"{RECORDS_TABLE}.lance" / "_transactions"
    taking = (
        locked(place, patience_seconds=patience_seconds, refusal=lambda: refusal)
        if place.is_absolute()
        else _in_this_process(connection, patience_seconds, refusal=lambda: refusal)
    )
    async with taking:
        token = _held.set(held | {connection.place})
        try:
            yield
        finally:
            _held.reset(token)


@asynccontextmanager
async def _in_this_process(
    connection: Connection, patience_seconds: float, *, refusal: Callable[[], Exception]
) -> AsyncIterator[None]:
    until = time.monotonic() + patience_seconds
    while not connection.turns.acquire(blocking=False):  # Those who wait may share no loop.
        if time.monotonic() > until:
            raise refusal()
        await asyncio.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        connection.turns.release()

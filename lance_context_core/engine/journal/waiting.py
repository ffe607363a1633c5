"""Waiting for whoever is at the journal."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lance_context_core.engine.journal import file
from lance_context_core.errors import StorageError

T = TypeVar("T")

_PAUSE_SECONDS = 0.0005
_TURNS_IN_A_ROW = 16
"""How often this is asked until the others on the loop have their turn: some milliseconds."""

_PATIENCE_SECONDS = 60
"""How long a write waits for somebody else's."""


class Waiting:
    """Does what somebody else may be at, as soon as he is done."""

    def __init__(self, path: Path) -> None:
        """Where the journal at `path` is what is waited for."""
        self._path = path
        self._n_turns = 0

    async def insist(self, work: Callable[[], T]) -> T:
        """Do `work`, as soon as nobody else is at it; without a wait that would hold up the loop."""
        until = time.monotonic() + _PATIENCE_SECONDS
        self._n_turns += 1
        if self._n_turns % _TURNS_IN_A_ROW == 0:
            # Nothing else here gives way, and a caller without a pause would hold up its loop.
            await asyncio.sleep(0)
        while True:
            try:
                return work()
            except file.BusyError as error:
                if time.monotonic() > until:
                    raise self.locked(_PATIENCE_SECONDS) from error
                await asyncio.sleep(_PAUSE_SECONDS)

    def until_free(self, work: Callable[[], T]) -> T:
        """As `insist`, in a thread of one's own."""
        try:
            return patiently(work, _PATIENCE_SECONDS)
        except file.BusyError as error:
            raise self.locked(_PATIENCE_SECONDS) from error

    def locked(self, seconds: float) -> StorageError:
        """What is raised after so many seconds."""
        return StorageError(
            f"the journal {str(self._path)!r} was locked by somebody else for {seconds} "
            "seconds: nothing was written. A process that is stopped keeps its lock: end it, or let "
            "it go on"
        )


def patiently(work: Callable[[], T], seconds: float) -> T:
    """Do `work`, in a thread of one's own; raises BusyError if somebody is at it for so long."""
    until = time.monotonic() + seconds
    while True:
        try:
            return work()
        except file.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_SECONDS)

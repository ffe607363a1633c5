"""The ways to the journal's file: whoever is at it is waited for, and it may be removed, or replaced."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from lance_context_core._util import cooperative as steps
from lance_context_core.errors import StorageError
from lance_context_core.storage.lifecycle import Lifecycle
from lance_context_core.storage.wal import identity, sqlite

P = ParamSpec("P")
T = TypeVar("T")

_SHORT_PAUSES_SECONDS = (0.00005, 0.0001, 0.0002)
"""How long who meets somebody else's write waits at first, in his thread: a small one is over by then,
and a turn of the loop costs as much."""

_PAUSE_SECONDS = 0.0005
_LONGEST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_OF_A_THREAD_SECONDS = 0.006
"""Longer than on a loop, where others go on meanwhile: many who look often keep the one from working."""

_PATIENCE_SECONDS = 60
"""How long a write waits for somebody else's."""


class Waiting:
    """Does what somebody else may be at, as soon as he is done."""

    def __init__(self, path: Path) -> None:
        """Where the journal at `path` is what is waited for."""
        self._path = path

    async def insist(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do `work`, as soon as nobody else is at it; without a wait that would hold up the loop."""
        # Nothing else here gives way: a caller without a pause, or a hundred, would hold up the loop.
        await steps.may_take(1)
        until, pause = time.monotonic() + _PATIENCE_SECONDS, 0.0
        while True:
            try:
                return (
                    self.at_first(lambda: work(*args, **kwargs))
                    if not pause
                    else work(*args, **kwargs)
                )
            except sqlite.BusyError as error:
                if time.monotonic() > until:
                    raise self.locked(_PATIENCE_SECONDS) from error
                pause = self.longer(pause)
                await asyncio.sleep(pause)

    @property
    def patience_seconds(self) -> float:
        """How long a write waits for somebody else's."""
        return _PATIENCE_SECONDS

    def at_first(self, work: Callable[[], T]) -> T:
        """Do `work`, or try it a few times more, in a shorter time than a turn of the loop takes."""
        for pause in _SHORT_PAUSES_SECONDS:
            try:
                return work()
            except sqlite.BusyError:
                time.sleep(pause)
        return work()

    def longer(self, pause_seconds: float) -> float:
        """How long is waited after one more try in vain on a loop; 0 stands for the first."""
        return min(pause_seconds * 1.5 or _PAUSE_SECONDS, _LONGEST_PAUSE_OF_A_THREAD_SECONDS)

    def until_free(self, work: Callable[[], T]) -> T:
        """As `insist`, in a thread of one's own."""
        try:
            return retry_busy(work, _PATIENCE_SECONDS)
        except sqlite.BusyError as error:
            raise self.locked(_PATIENCE_SECONDS) from error

    def locked(self, seconds: float) -> StorageError:
        """What is raised after so many seconds."""
        return StorageError(
            f"the journal {str(self._path)!r} was locked by another process for {seconds} "
            "seconds: nothing was written. A process that is stopped keeps its lock: end it, or let "
            "it go on"
        )


def retry_busy(work: Callable[[], T], seconds: float) -> T:
    """Do `work`, in a thread of one's own; raises BusyError if somebody is at it for so long."""
    until, pause = time.monotonic() + seconds, _PAUSE_SECONDS
    while True:
        try:
            return work()
        except sqlite.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(pause)
            pause = min(pause * 1.5, 0.006)


class ConnectionPool:
    """One connection that all share, in the hands of who has `lock`, and one to spare."""

    def __init__(
        self,
        path: Path,
        waiting: Waiting,
        *,
        is_synced: bool,
        life: Lifecycle,
        on_loss: Callable[[], None],
    ) -> None:
        """Nothing is opened yet; `on_loss` is called where what was read through them counts no more."""
        self.lock = threading.Lock()
        self.connection: sqlite3.Connection | None = None
        """The one that all share; None while there is none."""
        self.transaction: sqlite.Transaction | None = None
        """Through that one, for who has `lock`."""
        self._path = path
        self._waiting = waiting
        self._is_synced = is_synced
        self._life = life
        self._on_loss = on_loss
        self.identity: object | None = None
        """Of the file to which that connection is; None while there is none."""
        self._is_still = False
        """Whether the connection shows nothing that is written later."""
        self._spare: sqlite3.Connection | None = None

    def is_open(self) -> bool:
        """Whether the shared connection is there, and still to the file; see `opened`."""
        if not self._life.is_open:
            self._life.require()
        found = sqlite.identity(self._path, is_still=self._is_still)
        return found == self.identity and found is not None

    async def opened(self, *, is_made: bool = False) -> sqlite3.Connection | None:
        """The shared connection; None if there is no file, unless it is to be made.

        Raises StorageError if the file is not the store's, or is missing and was there.
        """
        if not self._life.is_open:
            self._life.require()
        found = sqlite.identity(self._path, is_still=self._is_still)
        if found == self.identity and found is not None:
            return self.connection
        # It may be gone with all of the store, or belong to another one.
        self._life.is_there()
        if found is None:
            if self.identity is not None:
                self.close()
            identity.require_none(self._path)
            if not is_made:
                return None
        return await asyncio.to_thread(self._open, is_made=is_made)

    def shared(self) -> sqlite3.Connection:
        """The shared connection, for who has the lock. Raises StorageError if it has just gone."""
        if self.connection is None:
            raise self._gone()
        return self.connection

    def begun(self) -> sqlite.Transaction:
        """One through the shared connection, for who has the lock. Raises as `shared`."""
        if self.transaction is None:
            raise self._gone()
        return self.transaction

    async def take(self) -> sqlite3.Connection:
        """A connection of one's own: a transaction through the shared one would be everybody's."""
        with self.lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            return spare
        if (way := await asyncio.to_thread(self._connected)) is None:
            raise self._gone()
        return way.connection

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Let go of a connection that was taken."""
        with self.lock:
            if (
                self._spare is None
                and self.connection is not None
                and not connection.in_transaction
            ):
                self._spare = connection
                return
        connection.close()

    def close(self) -> None:
        """Let go of the file; closing twice is no error."""
        with self.lock:
            self._let_go()

    # Helpers

    def _open(self, *, is_made: bool) -> sqlite3.Connection | None:
        with self.lock:
            found = sqlite.identity(self._path, is_still=self._is_still)
            if self.connection is not None and self.identity == found:
                return self.connection
            self._let_go()
            if sqlite.is_absent(self._path):
                identity.require_none(self._path)
            if is_made:
                self._waiting.until_free(
                    lambda: sqlite.create(self._path, is_synced=self._is_synced)
                )
            elif found is None:
                return None
            if (way := self._connected()) is None:
                return None
            self.connection, self._is_still = way
            self.transaction = sqlite.Transaction(way.connection, self._path)
            self.identity = sqlite.identity(self._path, is_still=way.is_still)
            return way.connection

    def _connected(self) -> sqlite.Way | None:
        return self._waiting.until_free(
            lambda: sqlite.connect(
                self._path, is_synced=self._is_synced, is_read_only=self._life.is_read_only
            )
        )

    def _let_go(self) -> None:
        for connection in (self.connection, self._spare):
            if connection is not None:
                connection.close()
        self.connection = self.transaction = self._spare = self.identity = None
        self._is_still = False
        self._on_loss()

    def _gone(self) -> StorageError:
        return StorageError(
            f"the journal {str(self._path)!r} was removed, or replaced, in this moment: nothing was "
            "written, try again"
        )

"""Broadcasts of agentscope's message bus, to the subscribers of all processes that open the store."""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from logging import getLogger
from time import monotonic
from typing import Any

from agentscope_lance_context.agentscope2._bus_entries import Entries
from lance_context_core.adapting import begin, going_on
from lance_context_core.errors import StoreClosedError

_log = getLogger(__name__)

_LOOKS_SECONDS = 0.05
"""The interval at which a process reads other processes' broadcasts."""
_SWEEPS_SECONDS = 600.0
"""The interval at which a process with subscribers deletes expired entries."""
_READ = 100


class Channels:
    """Broadcasts as short-lived entries; a subscriber reads those after its subscription."""

    def __init__(self, entries: Entries, *, most: int) -> None:
        """Over `entries`; each channel keeps the last `most`."""
        self._entries = entries
        self._most = most
        self._listeners: set[Listener] = set()
        self._watch: Future[None] | None = None
        self._access = threading.Lock()

    async def publish(self, key: str, payload: Mapping[str, Any]) -> None:
        """Add to a channel, and wake its subscribers in this process."""
        await self._entries.add(key, payload, most=self._most)
        for listener in self._of(key):
            listener.wake()

    @asynccontextmanager
    async def listening(self, key: str) -> AsyncIterator[AsyncIterator[Any]]:
        """Yields the broadcasts of the channel from now on, until `end`."""
        (end,) = await self._entries.ends([key])
        listener = Listener(key, end or 0)
        with self._access:
            self._listeners.add(listener)
            if self._watch is None or self._watch.done():
                self._watch = begin(self._look())
                self._watch.add_done_callback(self._stopped)
        try:
            yield self._received(listener)
        finally:
            with self._access:
                self._listeners.discard(listener)
                if not self._listeners and self._watch is not None:
                    self._watch.cancel()
                    self._watch = None

    def end(self) -> None:
        """End all subscriptions."""
        for listener in self._of():
            listener.is_ended = True
            listener.wake()

    # Helpers

    def _stopped(self, watch: "Future[None]") -> None:
        """Ends all subscriptions if the watch ended although subscribers are left."""
        if not watch.cancelled():
            self.end()

    def _of(self, key: str | None = None) -> list["Listener"]:
        """The subscribers of a channel, or all."""
        with self._access:
            return [one for one in self._listeners if key in {None, one.key}]

    async def _received(self, listener: "Listener") -> AsyncIterator[Any]:
        while not listener.is_ended:
            try:
                found = await self._next(listener)
            except StoreClosedError:
                if listener.is_ended:
                    return
                raise
            for number, payload in found:
                listener.at = number + 1
                yield payload
            if not found:
                await listener.woken()

    async def _next(self, listener: "Listener") -> list[tuple[int, Any]]:
        # A channel that was empty for long starts again, with larger numbers if no clock was set
        # back.
        (end,) = await self._entries.ends([listener.key])
        listener.at = min(listener.at, end) if end is not None else 0
        return await self._entries.read(listener.key, after=listener.at - 1, n=_READ)

    async def _look(self) -> None:
        """Wake the subscribers of channels that other processes have published to."""
        items = self._entries.handle.aio.kv(self._entries.name)
        version, swept_at = None, monotonic()
        while True:
            with going_on("log", "broadcasts of other processes are not seen", _log):
                if version != (version := await items.version()):
                    await self._wake_those_behind()
                if monotonic() - swept_at > _SWEEPS_SECONDS:
                    swept_at = monotonic()
                    await items.sweep()
            await asyncio.sleep(_LOOKS_SECONDS)

    async def _wake_those_behind(self) -> None:
        listeners = self._of()
        keys = [*{one.key for one in listeners}]
        ends = dict(zip(keys, await self._entries.ends(keys), strict=True)) if keys else {}
        for listener in listeners:
            if ends[listener.key] not in {None, listener.at}:
                listener.wake()


class Listener:
    """A subscriber of a channel, in its own event loop."""

    def __init__(self, key: str, at: int) -> None:
        """Created in that event loop; `at` is the number of the next entry to read."""
        self.key = key
        self.at = at
        self.is_ended = False
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[None] | None = None
        self._is_woken = False

    def wake(self) -> None:
        """Make it read, from any thread."""
        with suppress(RuntimeError):  # Its event loop was closed.
            self._loop.call_soon_threadsafe(self._wake)

    async def woken(self) -> None:
        """Wait for the next wake, unless one came since the last wait."""
        if not self._is_woken:
            self._waiting = self._loop.create_future()
            await self._waiting
        self._is_woken = False

    def _wake(self) -> None:
        self._is_woken = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

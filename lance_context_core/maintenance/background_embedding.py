"""Background embedding: rows that were written without vectors get them soon after."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from lance_context_core._loop import store_loop
from lance_context_core._util.logs import log
from lance_context_core.storage.table import Table

_PAUSE_SECONDS = 0.05
"""Before each pass: writes that follow each other are embedded together."""


class BackgroundEmbedding:
    """Embeds the rows of a store's tables after each write, one batch at a time.

    It runs on the store's loop, for all callers; the embedder runs in its own threads. What a
    failure or the end of the process leaves is embedded after the next write to the table.
    """

    def __init__(self) -> None:
        self.embed: Callable[[Table], Awaitable[None]] | None = None
        """Embeds one batch of a table's pending rows; its write schedules the next one."""
        self._lock = threading.Lock()
        self._waiting: dict[str, Table] = {}
        self._worker: Future[None] | None = None
        self._is_closed = False

    def written(self, table: Table) -> None:
        """Schedules a pass over the table, from any thread. Never blocks.

        Branches are left to `embed_pending`.
        """
        if table.ref is not None or not table.spec.is_searchable:
            return
        with self._lock:
            if self._is_closed:
                return
            self._waiting[table.name] = table
            if self._worker is None:
                self._worker = store_loop.spawn_apart(self._work())

    async def stop(self) -> None:
        """Starts nothing more; returns when the batch in progress is written."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            worker = self._worker
        if worker is not None:
            await asyncio.wait([asyncio.wrap_future(worker)])

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            if (table := self._next()) is None:
                return
            assert self.embed is not None
            try:
                await self.embed(table)
            except Exception as error:  # noqa: BLE001 - the rows stay pending
                log.warning("%s: embedding failed, to be tried again: %r", table.name, error)

    def _next(self) -> Table | None:
        with self._lock:
            if not self._waiting:
                self._worker = None
                return None
            return self._waiting.pop(next(iter(self._waiting)))

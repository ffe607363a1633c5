"""Compaction of the records: manual, and in the background on a schedule."""

import asyncio
from collections.abc import Coroutine, Iterable
from datetime import datetime
from typing import Any, TypedDict, TypeVar

from lance_context_core._loop import store_loop
from lance_context_core._util.checks import listed
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import CompactionInProgressError, InvalidRequestError
from lance_context_core.protocols import Clock
from lance_context_core.storage.lance import fragments
from lance_context_core.storage.lance.fragments import CompactionMetrics
from lance_context_core.storage.table import Table

T = TypeVar("T")


class CompactionStats(TypedDict):
    """Fragmentation of the records, and the compactions through this handle."""

    total_fragments: int
    """Of the table of records, which all contexts share."""
    is_compacting: bool
    last_compaction: str | None
    """ISO 8601, UTC; None before the first one."""
    last_error: str | None
    """The error of the last compaction; None if it succeeded."""
    total_compactions: int


@frozen_by_name
class CompactionSchedule:
    """The schedule of automatic compaction of the records."""

    interval_secs: float = 300
    """How often the fragments are counted."""
    min_fragments: int = 5
    """The number of fragments at which they are merged; a single one never is."""
    quiet_hours: tuple[tuple[int, int], ...] = ()
    """Hours of the machine's local day, `(22, 6)` being from 22:00 to 6:00, without compaction."""

    def __post_init__(self) -> None:
        """Raises InvalidRequestError for invalid numbers."""
        if not (isinstance(self.interval_secs, int | float) and self.interval_secs > 0):
            raise InvalidRequestError(f"compaction_interval_secs={self.interval_secs!r}: above 0")
        if not (type(self.min_fragments) is int and self.min_fragments >= 1):
            raise InvalidRequestError(
                f"compaction_min_fragments={self.min_fragments!r}: give a whole number, 1 or more"
            )
        check_hours(self.quiet_hours)

    def is_quiet(self, moment: datetime) -> bool:
        """Whether that moment is within quiet hours."""
        return is_within(self.quiet_hours, moment)


class RecordCompaction:
    """Compacts one table, never twice at once, and stores the results.

    It runs on the store's loop for all callers: it needs no lock there, and a compaction survives
    the end of a caller's loop.
    """

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._last: datetime | None = None
        self._error: str | None = None
        self._n_done = 0
        self._running: asyncio.Task[CompactionMetrics] | None = None
        self._background: asyncio.Task[None] | None = None

    async def compact(self) -> CompactionMetrics:
        """Merges fragments now. Raises CompactionInProgressError while another one runs here.

        Cancelling the call ends the wait, not the compaction.
        """
        return await _on_the_store_loop(self._compact())

    async def stats(self) -> CompactionStats:
        """Returns the table's fragmentation, and the compactions so far."""
        return CompactionStats(
            total_fragments=await fragments.count_fragments(self._table),
            is_compacting=self._is_compacting(),
            last_compaction=None if self._last is None else self._last.isoformat(),
            last_error=self._error,
            total_compactions=self._n_done,
        )

    async def start(self, schedule: CompactionSchedule) -> None:
        """Starts background compaction, until `stop`."""
        await _on_the_store_loop(self._start(schedule))

    async def stop(self) -> None:
        """Stops background compaction; returns when no compaction runs any more.

        A running one, from any caller, completes its commit first. Stopping twice is no error.
        """
        await _on_the_store_loop(self._stop())

    async def tick(self, schedule: CompactionSchedule) -> bool:
        """Does the work due at this moment; returns whether it did any."""
        if schedule.is_quiet(self._clock.now()):
            return False
        if await fragments.count_fragments(self._table) < max(schedule.min_fragments, 2):
            return False
        try:
            await self.compact()
        except CompactionInProgressError:
            return False
        return True

    # On the store's loop

    async def _compact(self) -> CompactionMetrics:
        if self._is_compacting():
            raise CompactionInProgressError("a compaction is running already: wait for its end")
        self._running = asyncio.create_task(self._merge())
        return await asyncio.shield(self._running)

    async def _merge(self) -> CompactionMetrics:
        try:
            metrics = await fragments.compact(self._table)
        except BaseException as error:
            self._error = str(error) or type(error).__name__
            raise
        self._last, self._error = self._clock.now(), None
        self._n_done += 1
        return metrics

    async def _start(self, schedule: CompactionSchedule) -> None:
        await self._stop()
        self._background = asyncio.create_task(self._keep(schedule))

    async def _stop(self) -> None:
        background, self._background = self._background, None
        if background is not None:
            background.cancel()
        running = [one for one in (background, self._running) if one is not None and not one.done()]
        if running:
            await asyncio.wait(running)

    async def _keep(self, schedule: CompactionSchedule) -> None:
        while True:
            await asyncio.sleep(schedule.interval_secs)
            try:
                await self.tick(schedule)
            except Exception as error:  # noqa: BLE001 - it is told by stats(), and tried again
                self._error = str(error) or type(error).__name__

    def _is_compacting(self) -> bool:
        return self._running is not None and not self._running.done()


async def _on_the_store_loop(work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(store_loop.spawn(work))


def check_hours(quiet_hours: object) -> None:
    """Raises InvalidRequestError unless each is a pair of hours."""
    for span in listed(quiet_hours, "quiet_hours"):
        if not _is_span(span):
            raise InvalidRequestError(
                f"quiet_hours has {span!r}: give (start, end), whole hours from 0 to 24"
            )


def is_within(quiet_hours: Iterable[tuple[int, int]], moment: datetime) -> bool:
    """Whether the moment is in one of these spans of hours of the machine's local day."""
    hour = moment.astimezone().hour
    return any(
        start <= hour < end if start <= end else hour >= start or hour < end
        for start, end in quiet_hours
    )


def _is_span(value: object) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(type(hour) is int and 0 <= hour <= 24 for hour in value)
    )

"""Group commit: rows that many callers bring at the same time are written in one commit."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from lance_context_core._loop import bridge
from lance_context_core.engine.schema import KEY
from lance_context_core.engine.table.arrow import Row
from lance_context_core.errors import ContextStoreError

R = TypeVar("R")

_MAX_ROWS = 10_000
"""What one commit takes together at most; a single batch may be larger."""
_PATIENCE = 0.25
"""For which part of the last commit's time those who wait wait for those who were just told."""
_PATIENCE_STEPS = 5


@dataclass(frozen=True, slots=True, eq=False)
class _Batch(Generic[R]):
    """What one caller brought, and what it waits for."""

    rows: Sequence[Row]
    outcome: Future[R] = field(default_factory=Future)


class Group(Generic[R]):
    """The writers of one table, from any number of tasks, loops and threads.

    A batch that arrives while nothing is written is written at once, and what arrives meanwhile is
    the next commit. This waits a moment for those whose rows were just written: who writes one thing
    after the other would always be a commit too late. Batches keep their order and are never mixed.
    """

    def __init__(
        self, commit: Callable[[Sequence[Sequence[Row]]], Awaitable[Sequence[R | Exception]]]
    ) -> None:
        """Write through `commit`, which returns what became of each batch, in order.

        What it raises reaches every caller of that commit.
        """
        self._commit = commit
        self._lock = threading.Lock()
        self._waiting: deque[_Batch[R]] = deque()
        self._drainer: Future[None] | None = None

    async def write(self, rows: Sequence[Row]) -> R:
        """Write `rows`, whose keys differ, as part of one commit; returns when it is done.

        Cancelling the caller does not take the rows back, nor those of others.
        """
        batch: _Batch[R] = _Batch(rows)
        with self._lock:
            self._waiting.append(batch)
            if self._drainer is None:
                # Not on the caller's loop, which may end before the other callers' rows are there.
                self._drainer = bridge.spawn(self._drain())
        return await asyncio.shield(asyncio.wrap_future(batch.outcome))

    async def _drain(self) -> None:
        while batches := self._next():
            began = time.monotonic()
            try:
                outcomes = await self._commit([batch.rows for batch in batches])
            except BaseException as error:
                for batch in batches:
                    batch.outcome.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                continue
            for batch, outcome in zip(batches, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    batch.outcome.set_exception(outcome)
                else:
                    batch.outcome.set_result(outcome)
            await self._let_come(len(batches), _PATIENCE * (time.monotonic() - began))

    async def _let_come(self, n_told: int, seconds: float) -> None:
        """If there is somebody waiting, let as many come as were told, but not for longer."""
        n_waiting = len(self._waiting)
        for _ in range(_PATIENCE_STEPS if n_waiting else 0):
            if len(self._waiting) >= n_waiting + n_told:
                break
            await asyncio.sleep(seconds / _PATIENCE_STEPS)

    def _next(self) -> list[_Batch[R]]:
        """The batches of the next commit, in which no key stands twice; none ends the draining."""
        taken: list[_Batch[R]] = []
        keys: set[str] = set()
        with self._lock:
            while self._waiting:
                new = {row[KEY] for row in self._waiting[0].rows}
                if taken and (len(keys) + len(new) > _MAX_ROWS or keys & new):
                    break
                taken.append(self._waiting.popleft())
                keys |= new
            if not taken:
                self._drainer = None
        return taken


def together(
    batches: Sequence[Sequence[Row]], convert: Callable[[Sequence[Row]], pa.Table]
) -> tuple[pa.Table | None, list[ContextStoreError | None]]:
    """What `convert` makes of the rows of all batches that it takes; None if it takes none.

    And for each batch why it was left out, or None.
    """
    # A conversion costs by the call far more than by the row.
    with suppress(ContextStoreError):
        return convert([row for batch in batches for row in batch]), [None] * len(batches)
    tables: list[pa.Table] = []
    refusals: list[ContextStoreError | None] = []
    for batch in batches:
        try:
            tables.append(convert(batch))
        except ContextStoreError as error:
            refusals.append(error)
        else:
            refusals.append(None)
    # Where one has a column and another has not, its rows have no value there.
    joined = pa.concat_tables(tables, promote_options="default") if tables else None
    return joined, refusals

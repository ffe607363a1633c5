"""Group commit: one commit for the rows that many callers add at the same time."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from lance_context_core._loop import store_loop
from lance_context_core.errors import ContextStoreError
from lance_context_core.storage.lance import writes
from lance_context_core.storage.lance.arrow import Row, to_table, written_as
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.fields import columns_of, declared_in
from lance_context_core.storage.lance.schema import KEY, VECTOR, TableSpec, vector_model
from lance_context_core.storage.lance.vectors import Vectors, vectors_of
from lance_context_core.storage.locks import fencing

# Group commit: rows that arrive concurrently are written in one commit.

R = TypeVar("R")

_MAX_ROWS = 10_000
"""The maximum size of one commit; a single batch may be larger."""
_PATIENCE = 0.25
"""The share of the last commit's time that waiting writers wait for those just answered."""
_PATIENCE_STEPS = 5


@dataclass(frozen=True, slots=True, eq=False)
class _Batch(Generic[R]):
    """One caller's rows, and its pending result."""

    rows: Sequence[Row]
    outcome: Future[R] = field(default_factory=Future)


class Group(Generic[R]):
    """The writers of one table, from any number of tasks, loops and threads.

    A batch that arrives while no write runs is written at once; batches that arrive meanwhile form
    the next commit. That one waits a moment for the callers just answered: a caller that writes
    sequentially would otherwise always miss it, or every second one. Batches keep their order and
    are never mixed.
    """

    def __init__(
        self, commit: Callable[[Sequence[Sequence[Row]]], Awaitable[Sequence[R | Exception]]]
    ) -> None:
        """Writes through `commit`, which returns the result of each batch, in order.

        Its errors reach every caller of that commit.
        """
        self._commit = commit
        self._lock = threading.Lock()
        self._waiting: deque[_Batch[R]] = deque()
        self._drainer: Future[None] | None = None

    async def write(self, rows: Sequence[Row]) -> R:
        """Write `rows`, whose keys differ, as part of one commit; returns when it is done.

        Cancellation undoes neither these rows nor those of others.
        """
        if fencing.are_any():
            # Other callers' rows do not depend on this caller's locks.
            (outcome,) = await self._commit([rows])
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        batch: _Batch[R] = _Batch(rows)
        with self._lock:
            self._waiting.append(batch)
            if self._drainer is None:
                # Not on the caller's loop, which may end before the other callers' rows are
                # written.
                self._drainer = store_loop.spawn(self._drain())
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
        """If some wait or several were answered, wait briefly for as many."""
        n_waiting = len(self._waiting)
        for _ in range(_PATIENCE_STEPS if n_waiting or n_told > 1 else 0):
            if len(self._waiting) >= n_waiting + n_told:
                break
            await asyncio.sleep(seconds / _PATIENCE_STEPS)

    def _next(self) -> list[_Batch[R]]:
        """The batches of the next commit, each key once; without any, draining ends."""
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


class Seen(NamedTuple):
    """The state of a handle at the last check."""

    handle: Any
    version: int
    schema: pa.Schema
    vectors: pa.Field | None
    """The column of the vectors, if it had one."""
    fields: list[pa.Field]
    """The columns of written rows."""


class Incoming:
    """Converts rows to the current columns of a table."""

    def __init__(self, spec: TableSpec, vectors: Vectors, label: str) -> None:
        """For a table of that kind, with these vectors; `label` names it in messages."""
        self.seen: Seen | None = None
        """The table, as last seen by a write or a search."""
        self.fields = written_as(spec.schema)
        """The columns of its rows in the engine's format, without vectors."""
        self._vectors = vectors
        self._label = label

    async def look_at(self, handle: Any) -> Seen:
        """The position of the handle, and its columns there, read again if it has moved."""
        version = int(await handle.version())
        if self.seen is None or self.seen[:2] != (handle, version):
            schema = await handle.schema()
            vectors = schema.field(VECTOR) if VECTOR in schema.names else None
            fields = self.fields if vectors is None else [*self.fields, vectors]
            if declared := declared_in(schema.names):
                fields = [*fields, *chain.from_iterable(map(columns_of, declared))]
            self.seen = Seen(handle, version, schema, vectors, fields)
        return self.seen

    async def prepared(
        self, handle: Any, batches: Sequence[Sequence[Row]], *, is_sparse: bool = False
    ) -> tuple[pa.Table | None, list[ContextStoreError | None]]:
        """The rows in the engine's format, and each batch's refusal, or None."""
        seen, known = await self.look_at(handle), self._vectors.column
        if known is not None and seen.vectors is None and any(map(vectors_of, batches)):
            # The table was restored to a moment without vectors after the rows were checked.
            await writes.add_column(handle, known)
            seen = await self.look_at(handle)
        is_as_checked = (
            known is None or seen.vectors is None or known.equals(seen.vectors, check_metadata=True)
        )

        def convert(rows: Sequence[Row]) -> pa.Table:
            for vector in [] if is_as_checked else vectors_of(rows):
                self._vectors.check(seen.schema, len(vector), known and vector_model(known))
            return to_table(rows, seen.fields, is_sparse=is_sparse)

        return _together(batches, convert, action=f"write to {self._label}")


def _together(
    batches: Sequence[Sequence[Row]],
    convert: Callable[[Sequence[Row]], pa.Table],
    *,
    action: str,
) -> tuple[pa.Table | None, list[ContextStoreError | None]]:
    """The rows of all valid batches, converted; None if no batch is valid.

    And for each batch why it was left out, or None; `action` names the failed action in the error.
    """
    # A conversion costs far more per call than per row.
    with suppress(Exception):  # the code below finds the rows that fail
        return convert([row for batch in batches for row in batch]), [None] * len(batches)
    tables: list[pa.Table] = []
    refusals: list[ContextStoreError | None] = []
    for batch in batches:
        try:
            with translated(action):
                tables.append(convert(batch))
        except ContextStoreError as error:
            refusals.append(error)
        else:
            refusals.append(None)
    # If only some have a column, the other rows have null there.
    joined = pa.concat_tables(tables, promote_options="default") if tables else None
    return joined, refusals

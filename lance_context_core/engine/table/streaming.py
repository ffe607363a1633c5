"""All matching rows of one moment, batch by batch: what is read of a table at length, and in no order."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from lance_context_core._util.frozen import frozen
from lance_context_core.engine.errors import translated
from lance_context_core.engine.journal.entries import Entry, View
from lance_context_core.engine.schema import VECTOR
from lance_context_core.engine.sql.clauses import UnsureError
from lance_context_core.engine.table import overlay, reading
from lance_context_core.engine.table.access import Access
from lance_context_core.errors import StorageError


@frozen
class Snapshot:
    """A table as it is now, which no later write changes; with what the journal holds of it."""

    access: Access
    handle: Any | None
    """Of the engine's, which nobody moves; None if no row is in the table itself."""
    view: View | None
    """What the journal holds; None if that is nothing."""
    is_own: bool = True
    """Whether the handle ends with this."""

    @classmethod
    async def of(cls, access: Access, *, is_settled: bool = False) -> "Snapshot":
        """The table at this moment; an absent one reads as empty.

        Where nobody may fold what the journal holds, and that `is_settled` is asked for, it is as if
        somebody had.
        """
        if is_settled and access.aside is not None:
            return cls(access, await access.aside(), None, is_own=False)
        view = await access.view()
        if view is not None and view.entries:
            if await access.presence.is_empty(view.moment):
                return cls(access, None, view)
            return cls(access, await access.at(view.version), view)
        if (handle := await access.reader()) is None:
            return cls(access, None, None)
        return cls(access, await access.at(await handle.version()), None)

    async def batches(
        self, where: str | None, *, columns: Sequence[str], batch_rows: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """The matching rows, in no order, with those of the columns that the table has.

        Batches may be shorter than `batch_rows`, which are about as many as memory holds.
        """
        mine: list[Entry] = []
        if self.view is not None:
            if not overlay.is_askable(where):
                raise UnsureError
            mine = overlay.matching(self.view, where)
            where = overlay.beneath(self.view, where)
        if self.handle is not None:
            async with self._reading():
                present = await reading.present(self.handle, columns)
                async for batch in reading.stream(self.handle, where, present, batch_rows):
                    yield batch
        if mine:
            known = self.access.spec.schema
            if VECTOR in columns:
                assert self.view is not None
                known = await self.access.schema_at(self.view.moment)
            schema = pa.schema([known.field(name) for name in columns if name in known.names])
            for batch in overlay.as_table(mine, schema).to_batches():
                yield batch

    async def in_order(
        self, where: str | None, *, columns: Sequence[str], batch_rows: int
    ) -> AsyncIterator[pa.RecordBatch]:
        """As `batches`, of what stands in the table itself, in the order of the commits.

        Memory holds eight bytes for each row beside a batch.
        """
        if self.handle is None:
            return
        async with self._reading():
            present = await reading.present(self.handle, columns)
            ids = (await reading.stored_ids(self.handle, where)).astype(np.int64)
            if len(ids) < 2 or bool(np.all(ids[1:] > ids[:-1])):
                async for batch in reading.stream(self.handle, where, present, batch_rows):
                    yield batch
                return
            ids.sort()
            for start in range(0, len(ids), batch_rows):
                rows = await reading.take(self.handle, ids[start : start + batch_rows], present)
                for batch in rows.select(present).combine_chunks().to_batches():
                    yield batch

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[None]:
        """Read through the handle in here. Raises ConflictError if others remove the version meanwhile."""
        try:
            with translated(f"read {self.access.label}"):
                yield
        except StorageError as error:
            await self.access.explain(self.handle, error)
            raise

    def close(self) -> None:
        """Let go of the engine's handle, if it is this one's own."""
        if self.handle is not None and self.is_own and not self.access.is_pinned:
            self.handle.close()

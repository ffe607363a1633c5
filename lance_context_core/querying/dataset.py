"""A view as a dataset of Arrow's: it is read as it is asked for, with its conditions where they can be."""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lance_context_core._loop import begin
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.errors import ContextStoreError
from lance_context_core.querying.pushing import pushed
from lance_context_core.storage import sql

Batches = AsyncGenerator[pa.RecordBatch]
Read = Callable[[sql.Clause, Sequence[str]], Batches]
"""The rows that match, with these columns, in this order."""


@frozen_by_name
class View:
    """What can be asked for."""

    schema: pa.Schema
    read: Read
    askable: Mapping[str, str]
    """The columns that the engine can be asked about, and what they are called there."""
    close: Callable[[], None] = lambda: None
    """Lets go of what it is read from."""


class ViewDataset(ds.Dataset):  # type: ignore[misc] # Arrow has no types
    """A view, as whoever scans datasets takes it; only to be scanned, in any thread but the store's."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.failures: list[ContextStoreError] = []
        """The errors of the store that ended a scan: whoever scans makes errors of its own of them."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the view."""
        return self._view.schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> ds.Scanner:
        """What reads these columns of the rows that meet the condition."""
        names = self.schema.names
        wanted = [one for one in names if columns is None or one in columns]
        where, asked = sql.all_of([]), wanted
        if filter is not None:
            meant = pushed(filter, self._view.askable)
            where = meant.where
            also = meant.columns
            asked = [one for one in names if also is None or one in also or one in wanted]
        schema = pa.schema([self.schema.field(one) for one in asked])
        found = _pulled(self._view.read(where, asked), self.failures)
        rows = pa.RecordBatchReader.from_batches(schema, found)
        return ds.Scanner.from_batches(rows, columns=columns or wanted, filter=filter)


def _pulled(batches: Batches, failures: list[ContextStoreError]) -> Iterator[pa.RecordBatch]:
    """The batches, each of which is read while the one before is worked on."""

    async def following() -> pa.RecordBatch | None:
        return await anext(batches, None)

    async def done() -> None:
        await batches.aclose()

    waiting = begin(following())
    try:
        while (batch := waiting.result()) is not None:
            waiting = begin(following())
            yield batch
    except ContextStoreError as error:
        failures.append(error)
        raise
    finally:
        if not waiting.cancel():  # Else that ends the reading, too.
            begin(done())

"""Brings the rows of a tenant in one store to the state that they have in another one."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lance_context_core._loop import begin
from lance_context_core._util.frozen import frozen
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.bulk import load
from lance_context_core.storage.database import RECORDS_TABLE
from lance_context_core.storage.lance.schema import (
    ACKNOWLEDGED,
    KEY,
    LINK,
    VECTOR,
    vector_length,
    vector_model,
)
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.store.store import AsyncContextStore
from lance_context_core.versioning.locations import Whole

_UNREVISED = ("expires_at", "properties", LINK)
"""The columns that change without a new revision."""

_AT_ONCE = 128
"""Keys in a write of the log, and in a condition."""

_BULK = 512
"""From this number of rows on, all are one commit."""

_BATCH_ROWS = 1_024

_State = tuple[Any, ...]


@frozen
class TenantCopy:
    """The copy of a tenant's rows in `target`, repeated until it is equal to `source`."""

    source: AsyncContextStore
    target: AsyncContextStore
    scope: Scope

    async def update(self) -> int:
        """Copies what differs; returns the number of rows that were written or deleted.

        The order of the rows becomes that of the source. Repeating it changes nothing.
        """
        names: dict[str, tuple[Table, Table]] = {}
        for store in (self.source, self.target):
            for one in await Whole(store._resources, self.scope).tables():  # noqa: SLF001
                names[one.name] = self._table(self.source, one), self._table(self.target, one)
        # The records come last, as in an import: they name rows of other tables.
        ordered = sorted(names, key=lambda name: (name == RECORDS_TABLE, name))
        return sum([await self._table_updated(*names[name]) for name in ordered])

    @staticmethod
    def _table(store: AsyncContextStore, like: Table) -> Table:
        return store._resources.database.root.table(like.name, like.spec)  # noqa: SLF001

    async def _table_updated(self, source: Table, target: Table) -> int:
        wanted, there = await self._states(source), await self._states(target)
        if wanted == there:
            return 0
        await _make_room(source, target)
        is_unique = _is_unique(wanted) and _is_unique(there)
        keys = {key for key, _ in wanted}
        kept = [one for one in there if one[0] in keys]
        # Rows with repeated keys can only be deleted together.
        n_kept = _n_same(wanted, kept) if is_unique else 0
        gone = [*(one for one in there if one[0] not in keys), *kept[n_kept:]]
        before = dict(kept[:n_kept])
        changed = [key for key, state in wanted[:n_kept] if before[key] != state]
        await _delete(target, [key for key, _ in gone])
        await self._replace(source, target, changed, before)
        await _append(source, target, [key for key, _ in wanted[n_kept:]])
        return len(gone) + len(changed) + len(wanted) - n_kept

    async def _states(self, table: Table) -> list[tuple[str, _State]]:
        """Returns the keys of the tenant's rows, in order, each with its state."""
        names = [KEY, "revision", *(one for one in _UNREVISED if one in table.spec.columns)]
        found = await table.select(sql.all_equal(self.scope.parts()), columns=names)
        columns = [found[name].to_pylist() for name in names]
        return [(key, state) for key, *state in zip(*columns, strict=True)]  # type: ignore[misc]

    async def _replace(
        self, source: Table, target: Table, keys: Sequence[str], before: dict[str, _State]
    ) -> None:
        """Put rows in the place of their earlier states."""
        for some in _pieces(keys):
            rows = await _rows(source, some)
            expect = {row[KEY]: before[row[KEY]][0] for row in rows}
            await target.write(WriteBatch(rows, mode=Mode.UPSERT, expect=expect))


async def _make_room(source: Table, target: Table) -> None:
    """Have the target accept the vectors of the source. Raises as `Vectors.ensure`."""
    schema = await source.schema()
    await target.access.writer()
    if VECTOR in schema.names:
        column = schema.field(VECTOR)
        await target.vectors.ensure(vector_length(column), vector_model(column))


async def _delete(target: Table, keys: Sequence[str]) -> None:
    for some in _pieces([*dict.fromkeys(keys)]):
        await target.write(WriteBatch(where=sql.in_list(KEY, some)))


async def _append(source: Table, target: Table, keys: Sequence[str]) -> None:
    """Append rows, in the order of the source."""
    keys = [*dict.fromkeys(keys)]
    if len(keys) < _BULK:
        for some in _pieces(keys):
            if rows := await _rows(source, some):
                await target.write(WriteBatch(rows))
        return

    def batches() -> Iterator[pa.RecordBatch]:
        for some in _pieces(keys, _BATCH_ROWS):
            found = begin(_read(source, some)).result()
            yield from found.combine_chunks().to_batches()

    await load(target, batches, kept=None)


async def _rows(source: Table, keys: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await _read(source, keys)).to_pylist()
    return rows


async def _read(source: Table, keys: Sequence[str]) -> pa.Table:
    """Returns the whole rows of these keys, in order."""
    columns = [*(name for name in source.spec.schema.names if name != ACKNOWLEDGED), VECTOR]
    found = await source.select(sql.in_list(KEY, keys), columns=columns)
    return found.drop_columns(["_rowid"])


def _is_unique(states: Sequence[tuple[str, _State]]) -> bool:
    return len({key for key, _ in states}) == len(states)


def _n_same(wanted: Sequence[tuple[str, _State]], there: Sequence[tuple[str, _State]]) -> int:
    """Returns the number of first rows with the same keys."""
    n = 0
    for (one, _), (other, _) in zip(wanted, there, strict=False):
        if one != other:
            break
        n += 1
    return n


def _pieces(keys: Sequence[str], size: int = _AT_ONCE) -> Iterator[list[str]]:
    for start in range(0, len(keys), size):
        yield [*keys[start : start + size]]

"""The declared fields of a table: adds their columns, fills them, and says which can be asked."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa

from lance_context_core._util.logs import log
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters.columns import METADATA, DeclaredField
from lance_context_core.storage.lance import reads
from lance_context_core.storage.lance.errors import translated
from lance_context_core.storage.lance.fields import columns_of, declared_in, in_sql, values
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.sql.predicates import in_list, is_absent

_ROWS = 4_096
"""The rows that are filled in one commit."""

Fields = Mapping[str, DeclaredField]
"""By their names."""


class DeclaredFields:
    """The declared fields of one table, on one ref."""

    def __init__(self, access: TableHandle) -> None:
        """Those of the table of `access`."""
        self._access = access
        self._wanted: dict[str, DeclaredField] = {}
        self._has: frozenset[DeclaredField] = frozenset()
        """Those that it had when last seen."""
        self._known: tuple[object, int, Fields] | None = None

    def want(self, fields: Collection[DeclaredField]) -> None:
        """Have `ensure` declare these, too. Raises InvalidRequestError for another type."""
        for field in fields:
            if self._wanted.get(field.name) != field:
                self._refuse_other(field, self._wanted.values())
                self._wanted[field.name] = field

    async def ensure(self) -> None:
        """Declare the wanted fields in the table, which is created if missing.

        The engine fills the columns by the metadata of all rows, in the same commit. Raises
        InvalidRequestError if the table has one with another type.
        """
        if not self._wanted or self._has.issuperset(self._wanted.values()):
            return
        self._has = await self.there()
        new = [one for one in self._wanted.values() if one not in self._has]
        for field in new:
            self._refuse_other(field, self._has)
        if not new:
            return

        async def add(handle: Any) -> None:
            await handle.checkout_latest()
            there = declared_in((await handle.schema()).names)
            for field in new:
                self._refuse_other(field, there)
            lacking = [one for one in new if one not in there]
            if not lacking:
                return
            if await handle.count_rows():
                made: dict[str, str] = {}
                for field in lacking:
                    made |= in_sql(field)
                await handle.add_columns(made)
            else:
                await handle.add_columns([each for one in lacking for each in columns_of(one)])

        handle = await self._access.writer()
        action = f"declare fields of {self._access.label}"
        await self._access.commits.commit(action, handle, add)
        self._has = await self.there()

    async def usable(self) -> Fields:
        """The fields whose columns have all that the metadata has, in the version that is read.

        For a read that begins after this call: rows that only others add meanwhile may be missed.
        """
        access, view = self._access, await self._access.view()
        if view is not None and view.version:
            handle: Any = await access.snapshot(view.moment)
        elif (handle := await access.peek()) is None:
            return {}
        with translated(f"read {access.label}"):
            version = int(await handle.version())
            known = self._known
            if known is None or known[:2] != (handle, version):
                found = {}
                for field in declared_in((await handle.schema()).names):
                    if not await handle.count_rows(is_absent(field.known)):
                        found[field.name] = field
                self._known = known = handle, version, found
        return known[2]

    async def there(self) -> frozenset[DeclaredField]:
        """The fields that the table has."""
        return frozenset(declared_in((await self._access.schema()).names))

    async def fill(self) -> int:
        """Declare the wanted fields, and fill rows whose writer did not know them; returns how many.

        Rows with a value of another type stay as they are.
        """
        await self.ensure()
        there = await self.there()
        if not there or len(await self.usable()) == len(there):
            return 0
        n_filled = 0
        with translated(f"fill fields of {self._access.label}"):
            async with self._access.separately() as handle:
                for field in there:
                    n_filled += await self._fill(handle, field)
        return n_filled

    async def _fill(self, handle: Any, field: DeclaredField) -> int:
        keys = (await reads.scan(handle, is_absent(field.known), [KEY]))[KEY].to_pylist()
        n_filled = 0
        for start in range(0, len(keys), _ROWS):
            n_filled += await _filled(handle, field, keys[start : start + _ROWS])
        if n_left := len(keys) - n_filled:
            log.warning(
                "%s: %d rows have another type than %s in %r: as long as they have, filters on it "
                "read the metadata",
                *(self._access.label, n_left, field.type, field.name),
            )
        return n_filled

    # Helpers

    def _refuse_other(self, field: DeclaredField, there: Iterable[DeclaredField]) -> None:
        for one in there:
            if one.name == field.name and one.type != field.type:
                raise InvalidRequestError(
                    f"fields={{{field.name!r}: {field.type}}}: {self._access.label} has it as "
                    f"{one.type}: declare that type, or use another key"
                )
            if one.name != field.name and one.name.lower() == field.name.lower():
                raise InvalidRequestError(
                    f"fields={{{field.name!r}: {field.type}}}: {self._access.label} has {one.name!r}, "
                    "which differs in its case alone: use one of them"
                )


async def _filled(handle: Any, field: DeclaredField, keys: list[str]) -> int:
    """Fill rows by their metadata, unless another writer changes them; returns how many it could."""
    found = await reads.scan(handle, in_list(KEY, keys), [KEY, "revision", METADATA])
    made = values(found[METADATA].to_pylist(), [field])
    schema = await handle.schema()
    kinds = [schema.field(KEY), schema.field("revision"), *columns_of(field)]
    rows = pa.Table.from_arrays(
        [
            found[KEY],
            found["revision"],
            *(pa.array(made[one.name], one.type) for one in columns_of(field)),
        ],
        schema=pa.schema(kinds),
    )
    rows = rows.filter(rows[field.known]).combine_chunks()
    if rows.num_rows:
        merge = handle.merge_insert(KEY).use_index(False)
        merge = merge.when_matched_update_all(where="target.revision = source.revision")
        await merge.execute(rows)
    return int(rows.num_rows)

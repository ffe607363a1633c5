"""Key-value stores: reading and writing of items."""

import builtins
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._handle import handle
from lance_context_core._loop import WOULD_BLOCK, WouldBlock
from lance_context_core._progress import check_progress, tell_written
from lance_context_core._resources import Resources
from lance_context_core._util import cooperative as steps
from lance_context_core._util.calls import takes
from lance_context_core._util.checks import check_span, check_time
from lance_context_core._util.lru import remembered
from lance_context_core.codecs import items as itemrows
from lance_context_core.codecs.records import alive
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import ITEM_FIELDS
from lance_context_core.protocols import CONDITIONS, LISTING, ItemConditions, ItemKey, ItemListing
from lance_context_core.scope import Scope
from lance_context_core.search import query as searching
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY, KEY_VALUES
from lance_context_core.storage.names import kv_of, kv_table_of
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import WriteBatch
from lance_context_core.stores import key_value_writes as itemwriting
from lance_context_core.stores.key_value_writes import Selection
from lance_context_core.types import Item, ItemsAppended, ItemsWritten, Progress, SearchHit

# Key-value items in namespaces; each set has its own table.

T = TypeVar("T")

_MOST_AT_ONCE = 16
"""More are read on the store's loop, which serves others in between."""


@handle
class AsyncKeyValues:
    """The items of one name; satisfies `KeyValueStore`.

    A key names one item in each scope: the same key in another scope is another item. As
    everywhere, a wider handle lists, counts, finds, sweeps and, by prefix, deletes the items of
    narrower scopes.
    """

    name: str
    _resources: Resources
    _scope: Scope

    # Reading

    async def get(
        self,
        keys: Sequence[ItemKey],
        *,
        include_data: bool = True,
        include_vectors: bool = False,
    ) -> builtins.list[Item | None]:
        """Return the items of these namespaces and keys, in order; None for absent ones.

        One read, of these rows only.
        """
        known = self._get_at_once(keys, include_data=include_data, include_vectors=include_vectors)
        if known is not WOULD_BLOCK:
            return known
        wanted = await itemwriting.row_keys(self._scope, keys)
        columns = itemrows.columns(include_data=include_data, include_vectors=include_vectors)
        where = self._where(sql.in_list(KEY, wanted))
        rows = await self._table.get(where, columns=columns)
        pairs = await steps.each_row(_with_key, rows)
        found = dict(pairs)
        return [found.get(key) for key in wanted]

    def _get_at_once(
        self,
        keys: Sequence[ItemKey],
        *,
        include_data: bool = True,
        include_vectors: bool = False,
    ) -> builtins.list[Item | None] | WouldBlock:
        """As `get`, in any thread without waiting; WOULD_BLOCK if the disk must be read."""
        if type(keys) not in (builtins.list, tuple) or len(keys) > _MOST_AT_ONCE:
            return WOULD_BLOCK
        if include_vectors:
            return WOULD_BLOCK  # They are not cached.
        wanted = itemwriting.row_keys_at_once(self._scope, keys)
        if (known := self._table.remembered.rows_of(wanted)) is None:
            return WOULD_BLOCK
        now, found = self._now(), []
        for key in wanted:
            # The key contains its scope. Of two items appended under one key the later one counts.
            rows = [row for row in known[key] if _is_alive(row, now)]
            found.append(itemrows.from_known(rows[-1], include_data=include_data) if rows else None)
        return found

    @takes(ItemListing, LISTING)
    async def list(
        self,
        *,
        include_data: bool = True,
        include_vectors: bool = False,
        **which: Unpack[ItemListing],
    ) -> builtins.list[Item]:
        """Return the items that meet all conditions, in order.

        - `prefix`, `suffix`: the first and the last segments of the namespace; `namespace`: all of
          them. None among them matches any one segment: `(None, "notes")`.
        - `key_prefix`: the beginning of the key; `after`, `before`: its exclusive bounds.
        - `filter`: on the value, and on `key`, `data_type`, `created_at`, `updated_at` and
          `expires_at`; a key of the value with such a name is `value.key`.
        - `order`: by namespace and key, by code points; or by creation or last write, then by
          namespace and key. `reverse` reverses the whole order.

        Values and data are read only for the items of the page.
        """
        selection = Selection.of(which, LISTING)
        columns = itemrows.columns(include_data=include_data, include_vectors=include_vectors)
        if selection.limit is None and selection.offset == 0:
            # Reading many rows by their ids is slower.
            rows = await self._page(selection, columns)
        else:
            page = await self._page(selection)
            rows = await self._table.take(page["_rowid"].to_pylist(), columns=columns)
        return await steps.each_row(itemrows.from_row, rows)

    @takes(ItemListing, LISTING)
    async def keys(self, **which: Unpack[ItemListing]) -> builtins.list[ItemKey]:
        """Return the namespaces and keys of the items of `list`, without reading values."""
        page = await self._page(Selection.of(which, LISTING))
        pairs = zip(page["namespace"].to_pylist(), page["id"].to_pylist(), strict=True)
        return [(itemrows.decoded(encoded), key) for encoded, key in pairs]

    @takes(ItemConditions, CONDITIONS)
    async def count(self, **which: Unpack[ItemConditions]) -> int:
        """Return the number of items that meet the conditions of `list`."""
        return await self._table.count(self._where(*Selection.of(which).clauses))

    async def namespaces(
        self,
        *,
        prefix: Sequence[str | None] = (),
        suffix: Sequence[str | None] = (),
        max_depth: int | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> builtins.list[tuple[str, ...]]:
        """Return the namespaces with items, each once, in order; see `list` for the conditions.

        `max_depth`, at least 1, truncates longer ones to that number of segments.
        """
        check_span(offset=offset, limit=limit, last=None)
        if max_depth is not None and (type(max_depth) is not int or max_depth < 1):
            raise InvalidRequestError(f"max_depth={max_depth!r}: give a whole number, 1 or more")
        selection = Selection.of({"prefix": prefix, "suffix": suffix})
        where = self._where(*selection.clauses)
        rows = await self._table.select(where, columns=["namespace"])
        names = {
            itemrows.decoded(one)[:max_depth] for one in pc.unique(rows["namespace"]).to_pylist()
        }
        return sorted(names)[offset:][:limit]

    @takes(ItemConditions, CONDITIONS)
    async def search(
        self,
        query: str | Sequence[float],
        *,
        limit: int = 10,
        offset: int = 0,
        include_data: bool = True,
        **which: Unpack[ItemConditions],
    ) -> builtins.list[SearchHit[Item]]:
        """Return the items nearest to a text or vector, best first; conditions as in `list`.

        The nearest vector of an item counts; items without vectors are not found. Returns `limit`
        hits if enough items meet the conditions after `offset`. The score is (1 + cosine) / 2; the
        cosine itself is `channels["vector"].raw`. Equal hits are in the order of their first write.
        """
        check_span(offset=offset, limit=limit, last=None)
        selection = Selection.of(which)
        searched = searching.Searched(
            table=self._table,
            resources=self._resources,
            where=self._where(*selection.clauses),
            filterable=ITEM_FIELDS,
            columns=itemrows.columns(include_data=include_data),
            read=itemrows.from_row,
            scope=self._own(*selection.within),
        )
        hits = await searching.search(
            searched, query, mode="vector", limit=limit and limit + offset
        )
        return hits[offset:]

    # Writing

    async def put(
        self, items: Sequence[Item], *, progress: Callable[[Progress], object] | None = None
    ) -> None:
        """Write items, replacing existing ones, in one commit.

        An item that replaces another keeps only its `created_at`: its vectors, data and expiry are
        those of the new one. Of two items with one key the last counts.

        `progress` is called as texts are embedded, up to 1,000 at a time, and once all is written;
        if it raises before that, for example to cancel, the call ends, and nothing is written.
        """
        await self._written(itemwriting.put, items, progress)

    def _put_at_once(
        self, items: Sequence[Item], *, progress: Callable[[Progress], object] | None = None
    ) -> WouldBlock | None:
        """As `put`, in any thread without waiting; WOULD_BLOCK if it must wait."""
        if progress is not None:
            return WOULD_BLOCK
        self._resources.writable()
        is_done = itemwriting.put_now(
            self._table, items, scope=self._scope, resources=self._resources
        )
        return None if is_done else WOULD_BLOCK

    async def add(
        self, items: Sequence[Item], *, progress: Callable[[Progress], object] | None = None
    ) -> builtins.list[bool]:
        """Write the items whose keys do not exist, in one commit; returns which were written.

        The first writer wins, also of two items with one key in the call, or in two processes.
        `progress` as in `put`.
        """
        return await self._written(itemwriting.add, items, progress)

    def _add_at_once(
        self, items: Sequence[Item], *, progress: Callable[[Progress], object] | None = None
    ) -> builtins.list[bool] | WouldBlock:
        """As `add`, in any thread without waiting; WOULD_BLOCK if it must wait."""
        if progress is not None:
            return WOULD_BLOCK
        self._resources.writable()
        done = itemwriting.add_now(self._table, items, scope=self._scope, resources=self._resources)
        return WOULD_BLOCK if done is None else done

    async def append(
        self, items: Sequence[Item], *, progress: Callable[[Progress], object] | None = None
    ) -> ItemsAppended:
        """Write items with new keys, in one commit, without a lookup of existing ones.

        For keys that cannot exist yet, such as new ids: it costs a third of `add`. An existing key
        exists twice afterwards: `get` returns the later one, until it is deleted. `progress` as in
        `put`.
        """
        return await self._written(itemwriting.append, items, progress)

    async def delete(self, keys: Sequence[ItemKey]) -> builtins.list[bool]:
        """Delete items in one commit; returns for each key whether it existed."""
        return (await self.write(deletes=keys)).deleted

    def _delete_at_once(self, keys: Sequence[ItemKey]) -> builtins.list[bool] | WouldBlock:
        """As `delete`, in any thread without waiting; WOULD_BLOCK if it must wait."""
        done = self._write_at_once(deletes=keys)
        return WOULD_BLOCK if done is WOULD_BLOCK else done.deleted

    async def write(
        self,
        *,
        puts: Sequence[Item] = (),
        adds: Sequence[Item] = (),
        deletes: Sequence[ItemKey] = (),
        expected: Mapping[ItemKey, int | None] | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> ItemsWritten:
        """Delete, add and put items, in this order and in one commit: all or none.

        Raises AlreadyExistsError, and writes nothing, if the key of one of `adds` exists, also if
        another process adds it at the same moment. A key may occur in several lists: a deleted one
        is created again, and of two puts the last counts.

        `expected` maps keys to the `revision` that an item must have, or None if it must not exist;
        it may contain keys that are not written. If one differs, or changes at the same moment,
        ConflictError is raised and nothing is written: read again, and retry.

        Concurrent writes of many callers are grouped into one commit too, except those with
        `expected`. Only if another process changes an item that is put or deleted at the same
        moment, and nothing was expected, that item takes a second commit, on top of the other's. If
        the outcome is unknown, the call may be repeated; then an AlreadyExistsError or
        ConflictError may be caused by the first call. `progress` as in `put`.
        """
        changes = itemwriting.Changes(puts, adds, deletes, {} if expected is None else expected)
        return await self._written(itemwriting.write, changes, progress)

    def _write_at_once(
        self,
        *,
        puts: Sequence[Item] = (),
        adds: Sequence[Item] = (),
        deletes: Sequence[ItemKey] = (),
        expected: Mapping[ItemKey, int | None] | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> ItemsWritten | WouldBlock:
        """As `write`, in any thread without waiting; WOULD_BLOCK if it must wait."""
        if progress is not None:
            return WOULD_BLOCK
        self._resources.writable()
        done = itemwriting.write_now(
            self._table,
            itemwriting.Changes(puts, adds, deletes, {} if expected is None else expected),
            scope=self._scope,
            resources=self._resources,
        )
        return WOULD_BLOCK if done is None else done

    async def delete_under(self, prefix: Sequence[str]) -> int:
        """Delete all items whose namespaces begin with these segments, in one commit.

        The empty prefix selects all items; wildcards are not supported. Returns their number,
        including expired ones.
        """
        self._resources.writable()
        clauses = Selection.of({"prefix": itemrows.checked_namespace(prefix, "prefix")}).clauses
        where = self._own(*clauses) or sql.EVERYTHING
        return (await self._table.write(WriteBatch(where=where))).n_removed

    async def touch(self, keys: Sequence[ItemKey], *, expires_at: datetime | None) -> int:
        """Set the expiry of items, None for never; returns the number that exist.

        One commit. `updated_at` and `revision` do not change. Expired items stay expired.
        """
        self._resources.writable()
        wanted = await itemwriting.row_keys(self._scope, keys)
        moment = None if expires_at is None else check_time(expires_at, "expires_at")
        where = self._where(sql.in_list(KEY, wanted))
        batch = WriteBatch(where=where, values={"expires_at": moment})
        return (await self._table.write(batch)).n_replaced

    async def sweep(self) -> int:
        """Delete the expired items, in one commit; returns their number.

        This only frees space: no read returns them before either.
        """
        self._resources.writable()
        gone = self._own(sql.at_or_before("expires_at", self._now()))
        return (await self._table.write(WriteBatch(where=gone))).n_removed

    async def version(self) -> int:
        """Return the version number of the items of all scopes; 0 before the first write.

        It grows with every commit, including maintenance: while it is the same, nothing has
        changed. Reads no item.
        """
        return await self._table.token()

    async def names(self) -> builtins.list[str]:
        """Return the names of all key-value tables of the store, in alphabetical order.

        In a scope, it includes names without items of the scope.
        """
        tables = await self._resources.database.table_names()
        return sorted(name for table in tables if (name := kv_of(table)) is not None)

    # Helpers

    async def _written(
        self,
        write: Callable[..., Awaitable[T]],
        what: Sequence[Item] | itemwriting.Changes,
        progress: Callable[[Progress], object] | None,
    ) -> T:
        """Call a write function, and report its progress."""
        check_progress(progress)
        self._resources.writable()
        done = await write(
            self._table, what, scope=self._scope, resources=self._resources, progress=progress
        )
        await tell_written(progress, len(what), "items")
        return done

    @property
    def _table(self) -> Table:
        return self._resources.database.table(kv_table_of(self.name), KEY_VALUES)

    def _now(self) -> datetime:
        return self._resources.clock.now()

    def _own(self, *clauses: sql.Clause) -> sql.Clause:
        return sql.all_of([_of_scope(self._scope), *clauses])

    def _where(self, *clauses: sql.Clause) -> sql.Clause:
        return self._own(*clauses, alive(self._now()))

    async def _page(self, selection: Selection, more: Sequence[str] = ()) -> pa.Table:
        """Return the selected row ids, their sort columns, and more columns, in order."""
        where, order = self._where(*selection.clauses), selection.order
        rows = await self._table.select(where, columns=[*dict.fromkeys([*order, *more])])
        keys = [(name, "descending" if selection.reverse else "ascending") for name in order]
        limit, offset = selection.limit, selection.offset
        if limit is None or offset + limit >= rows.num_rows:
            return rows.sort_by(keys).slice(offset, limit)
        return rows.take(pc.select_k_unstable(rows, offset + limit, keys)).slice(offset)


@remembered(64 * 1024)
def _of_scope(scope: Scope) -> sql.Clause:
    return sql.all_equal(scope.parts())


def _is_alive(row: Mapping[str, Any], now: datetime) -> bool:
    expires_at = row.get("expires_at")
    return expires_at is None or bool(expires_at > now)


def _with_key(row: Mapping[str, Any]) -> tuple[str, Item]:
    return row[KEY], itemrows.from_row(row)

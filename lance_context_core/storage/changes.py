"""Changes of a table, for caches: the first read, and the changes since."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from lance_context_core._util.frozen import frozen
from lance_context_core.storage import merge_on_read
from lance_context_core.storage.lance import indexes, manifests, reads
from lance_context_core.storage.lance.arrow import Row, rows_of
from lance_context_core.storage.lance.indexes import TextIndex
from lance_context_core.storage.lance.schema import KEY, SEARCH_TEXT, VECTOR
from lance_context_core.storage.lance.table_handle import TableHandle
from lance_context_core.storage.row_cache import matching
from lance_context_core.storage.sql.predicates import Clause, UnsureError, in_list
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal.entries import Entry, View
from lance_context_core.storage.write_batch import Observed


class Position(NamedTuple):
    """The content of a table at one moment, as numbers."""

    table: int
    """The table's number: a table that is created again under its name has another one. Negative if
    the log does not know it: then its versions number its moments."""
    token: int
    """Changes with each change."""
    last: int
    """The last log entry in it."""

    @property
    def is_journaled(self) -> bool:
        """Whether the log knows the table and its writes."""
        return self.table >= 0


@frozen
class Changes:
    """The changes of a table since a position."""

    state: Position
    """The current position."""
    entries: Sequence[Entry] | None
    """The entries since then; None if unknown."""
    version: int = 0
    """The table's version that the log's entries go with."""


@frozen
class Part:
    """A part of a table's rows, in order, at one position."""

    state: Position
    rows: pa.Table | None
    """None if they are too many."""
    vectors: pa.Field | None = None
    """The table's column of vectors, if it has one and it was read."""
    text_index: TextIndex | None = None
    """How the engine tokenizes its texts; None if it does not, or differently from our tokenizer,
    or if the text column was not read."""


_ALL_BITS = 2**64 - 1

NEVER = Position(0, 0, 0)
"""Before all positions."""


async def since(table: Table, state: Position, *, version: int = 0) -> Changes | None:
    """The changes since that position; None if only the engine knows the table's content.

    With the `version` at that position, also those before this process first read the log, unless
    the log was flushed before.
    """
    access = table.access
    if access.is_pinned:
        # A pinned version: the engine does not see the log's entries of that time.
        return None if access.tail is None else Changes(_state(access.tail), ())
    if access.ledger is not None:
        news = await access.ledger.news(state.token, state.last, version=version)
        if news is not None:
            if not news.view.version or await _is_passed(access, news.view):
                return None
            is_same = news.view.table == state.table
            return Changes(_state(news.view), news.entries if is_same else None, news.view.version)
    if not state.is_journaled and state.table == _stamped(access, state.token):
        return Changes(state, ())
    if (view := await _unjournaled(access)) is None:
        return None
    return Changes(_state(view), () if _state(view) == state else None, view.version)


async def read(
    table: Table, where: Clause, *, columns: Sequence[str], most: int, counts: bool = True
) -> Part | None:
    """The matching rows, log merged in, unless they are more than `most`.

    Without `counts`, the limit is checked while reading: faster where it is mostly kept. None if
    only the engine knows the table's content.
    """
    access = table.access

    async def look() -> Part | None:
        view = await access.view() or await _unjournaled(access)
        if view is None or not view.version:
            return None
        if VECTOR not in columns and SEARCH_TEXT not in columns:
            mine = await merge_on_read.all_matching(access, view, where or None)
            if mine is not None:
                kept = pa.schema([access.spec.schema.field(name) for name in columns])
                rows = merge_on_read.as_table(mine, kept) if len(mine) <= most else None
                return Part(_state(view), rows)
        if (
            counts
            and await merge_on_read.count(access, view, None) > most
            and (await merge_on_read.count(access, view, where or None) > most)
        ):
            return Part(_state(view), None)
        schema = await access.schema_at(view.moment)
        there = [name for name in columns if name in schema.names]
        scan = partial(reads.scan, most=most + 1, are_there=True)
        rows = await merge_on_read.select(access, view, where or None, there, scan=scan)
        if rows.num_rows > most:
            return Part(_state(view), None)
        vectors = schema.field(VECTOR) if VECTOR in there else None
        is_searched = access.spec.is_searchable and SEARCH_TEXT in columns
        handle = await access.peek() if is_searched else None
        settings = None if handle is None else await indexes.text_settings(handle)
        return Part(_state(view), rows, vectors, settings)

    return await access.follow(look)


async def tail(
    table: Table, where: Clause, *, columns: Sequence[str], last: int
) -> tuple[Position, pa.Table, int] | None:
    """The result of `Table.tail` and its position; None if only the engine knows it."""
    access = table.access
    if access.is_pinned or not merge_on_read.is_askable(where):
        return None

    async def look() -> tuple[Position, pa.Table, int] | None:
        known = await access.view()
        if known is not None and known.version and await _is_passed(access, known):
            return None
        view = known or await _unjournaled(access)
        if view is None or not view.version:
            return None
        try:
            rows, before = await table.tail_at(view, where, columns=columns, last=last)
        except UnsureError:
            return None
        return _state(view), rows, before

    return await access.follow(look)


async def observed(
    table: Table, where: Clause, *, columns: Sequence[str], last: int | None = None
) -> Observed:
    """The matching rows, in order, or the `last` ones, and the position of the read.

    Those of a condition on keys are in no order, and few of them are cached.
    """
    table = await table.here()
    access = table.access

    async def look() -> Observed | None:
        view = await access.view()
        if view is None or not view.version or await _is_passed(access, view):
            return None
        try:
            return Observed(await _observed(table, view, where, columns, last), view)
        except UnsureError:
            return None

    is_told = not access.is_pinned and merge_on_read.is_askable(where)
    if is_told and (found := await access.follow(look)) is not None:
        return found
    rows = await table.slice(where, columns=columns, last=last)
    return Observed(rows.to_pylist(), None)


async def _observed(
    table: Table, view: View, where: Clause, columns: Sequence[str], last: int | None
) -> Sequence[Row]:
    remembered, access = table.remembered, table.access
    if last is None and where.keys is not None:
        if (known := remembered.find(where, columns, at=view)) is not None:
            return known
        if not view.places(where.keys) and await access.presence.lacks(
            view.moment, KEY, where.keys
        ):
            return ()
        if (begun := remembered.begin(where, columns)) is not None:
            read = [*remembered.columns, *([VECTOR] if begun.has_vectors else [])]
            found = await merge_on_read.select(access, view, in_list(KEY, begun.keys), read)
            remembered.keep(begun, rows := rows_of(found))
            if (mine := matching(rows, where, columns)) is not None:
                return mine
    nothing = await table.nothing_at(view, columns)
    rows = await merge_on_read.slice_of(
        access, view, where, columns=columns, offset=0, limit=None, last=last, nothing=nothing
    )
    return rows_of(rows)


async def _is_passed(access: TableHandle, view: View) -> bool:
    """Whether a read shows more than the log knows: another program's write to the table."""
    if view.entries:
        return False  # then no read does
    if not access.connection.life.is_open:
        access.connection.life.require()
    folder = f"{access.connection.uri}/{access.name}.lance"
    if access.ref is None and manifests.is_newest(folder, view.version):
        # Two system calls instead of the engine's check, which takes longer than a search.
        return False
    handle = await access.peek()
    return handle is None or int(await handle.version()) > view.version


async def _unjournaled(access: TableHandle) -> View | None:
    """The current state of a table unknown to the log; None if it is missing.

    None for a branch, too: one that is created again has the former one's versions and indexes.
    """
    if access.ref is not None or (handle := await access.peek()) is None:
        return None
    version = int(await handle.version())
    if (made := await indexes.text_index_id(handle)) is None:
        # No index distinguishes it from a table created again; its newest manifest does, until the
        # next commit.
        table = _stamped(access, version)
        return None if table is None else View(version, version, (), table)
    return View(version, version, (), -1 - made)


def _stamped(access: TableHandle, version: int) -> int | None:
    """The table's identity, by its newest version's manifest; None if this is older."""
    if access.ref is not None:
        return None
    stamp = manifests.stamp(f"{access.connection.uri}/{access.name}.lance", version)
    return None if stamp is None else -1 - (hash(stamp) & _ALL_BITS)


def _state(view: View) -> Position:
    return Position(view.table, view.token, view.last)

"""A part of a table that is kept in memory: how it is read at first, and what has come about since."""

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
    """What a table holds at one moment, told by numbers."""

    table: int
    """Which one: if it is made anew under its name, it is another. Below 0 if the journal does not know
    it: then its versions tell its moments."""
    token: int
    """Another one after each change."""
    last: int
    """The last entry of the journal that is in it."""

    @property
    def is_journaled(self) -> bool:
        """Whether the journal knows the table, and what was written to it."""
        return self.table >= 0


@frozen
class Changes:
    """What has come about in a table since a moment."""

    state: Position
    """What it holds now."""
    entries: Sequence[Entry] | None
    """What was written since; None if that is not known."""


@frozen
class Part:
    """The rows of a part of a table, in order, at one moment."""

    state: Position
    rows: pa.Table | None
    """None if there are too many."""
    vectors: pa.Field | None = None
    """The table's column of vectors, if it has one and that was read."""
    text_index: TextIndex | None = None
    """How its texts are cut into words; None if they are not, or otherwise than we would, or if the
    column of the texts was not read."""


_ALL_BITS = 2**64 - 1

NEVER = Position(0, 0, 0)
"""Before all moments."""


async def since(table: Table, state: Position) -> Changes | None:
    """What has come about since then; None if only the engine can tell what the table holds now."""
    access = table.access
    if access.is_pinned:
        # Of a time: the engine does not see what the journal held then.
        return None if access.tail is None else Changes(_state(access.tail), ())
    if access.ledger is not None:
        news = await access.ledger.news(state.token, state.last)
        if news is not None:
            if not news.view.version or await _is_passed(access, news.view):
                return None
            is_same = news.view.table == state.table
            return Changes(_state(news.view), news.entries if is_same else None)
    if not state.is_journaled and state.table == _stamped(access, state.token):
        return Changes(state, ())
    if (view := await _unjournaled(access)) is None:
        return None
    return Changes(_state(view), () if _state(view) == state else None)


async def read(
    table: Table, where: Clause, *, columns: Sequence[str], most: int, counts: bool = True
) -> Part | None:
    """The matching rows with what the journal holds, unless there are more than `most`.

    Without `counts` that is seen only as they are read: sooner, where there mostly are not. None if
    only the engine can tell.
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
    """What `Table.tail` finds, and at which moment; None if only the engine can tell."""
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
    """The matching rows, in order, or the `last` ones, and at which moment these are all.

    Those of a condition on keys are in no order, and few of them are remembered.
    """
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
    """Whether a read shows more than the journal knows: what another program wrote into the table."""
    if view.entries:
        return False  # Then no read does.
    if not access.connection.life.is_open:
        access.connection.life.require()
    folder = f"{access.connection.uri}/{access.name}.lance"
    if access.ref is None and manifests.is_newest(folder, view.version):
        # Two looks at the disk, instead of the engine's, which takes longer than a search.
        return False
    handle = await access.peek()
    return handle is None or int(await handle.version()) > view.version


async def _unjournaled(access: TableHandle) -> View | None:
    """A table of which the journal knows nothing, as it is now; None if there is none.

    None for a branch, too: one that is made anew has the versions and the indexes of the former one.
    """
    if access.ref is not None or (handle := await access.peek()) is None:
        return None
    version = int(await handle.version())
    if (made := await indexes.text_index_id(handle)) is None:
        # No index tells it from one that is made anew: its newest manifest does, until the next commit.
        table = _stamped(access, version)
        return None if table is None else View(version, version, (), table)
    return View(version, version, (), -1 - made)


def _stamped(access: TableHandle, version: int) -> int | None:
    """Which table it is, by the manifest of its newest version; None if this is not that."""
    if access.ref is not None:
        return None
    stamp = manifests.stamp(f"{access.connection.uri}/{access.name}.lance", version)
    return None if stamp is None else -1 - (hash(stamp) & _ALL_BITS)


def _state(view: View) -> Position:
    return Position(view.table, view.token, view.last)

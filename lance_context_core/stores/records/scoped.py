"""The records of one handle: their selection, their columns, and their stamps.

History, memory and `Context` use these; `writing` and `changing` have their other methods.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Unpack

import pyarrow as pa

from lance_context_core._resources import Resources
from lance_context_core._util import cooperative as steps
from lance_context_core._util.checks import check_name, check_span
from lance_context_core._util.frozen import frozen
from lance_context_core._util.lru import remembered
from lance_context_core.codecs import records
from lance_context_core.codecs.records import (
    COLUMNS,
    NO_CONTEXT,
    OF_ALL,
    from_row,
    from_values,
    to_row,
    values_of,
)
from lance_context_core.filters import RECORD_FIELDS, FilterLike
from lance_context_core.memory_index.columns import Condition
from lance_context_core.memory_index.segment import UnsureError
from lance_context_core.memory_index.segment_search import HotTable
from lance_context_core.scope import Scope
from lance_context_core.search import query as searching
from lance_context_core.search.options import CONVERSATION, Room, SearchArguments, SearchOptions
from lance_context_core.search.query import Around
from lance_context_core.storage import changes, sql
from lance_context_core.storage.changes import Position
from lance_context_core.storage.database import COLD_TABLE
from lance_context_core.storage.lance.schema import COLD, KEY, LINK, OWES, VECTOR
from lance_context_core.storage.names import next_revision
from lance_context_core.storage.sql.predicates import UnsureError as UnsureOfRowError
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Observed
from lance_context_core.types import ContextRecord, SearchHit

WITHOUT_BLOB = [name for name in COLUMNS if name != "blob"]

_SEEN_IN_TWO = values_of, records.seen_from_values

_LOOKS = 3
"""Number of lookups in memory during concurrent writes."""

SUCCEEDED = [*(KEY, "id", "external_id", "created_at", "expires_at", "revision", LINK, OWES)]
"""The columns to read of a row that is about to be replaced."""


@frozen
class Records:
    """The records of one scope and one context: no others can be read or written."""

    resources: Resources
    scope: Scope
    context: str = "default"
    is_cold: bool = False
    """Whether they are those of archived sessions, in the cold table."""
    looked: HotTable | None = None
    """They in memory, as of one look at the table: see `at_once`."""

    @property
    def table(self) -> Table:
        """Their table."""
        if self.is_cold:
            return self.resources.database.table(COLD_TABLE, COLD)
        return self.resources.database.records

    # Conditions

    def own(self, *conditions: sql.Clause) -> sql.Clause:
        """Return the condition that a row is one of these, hidden or not, and matches."""
        return sql.all_of([_mine(self.scope, self.context), *conditions])

    def where(
        self,
        *conditions: sql.Clause,
        filter: FilterLike | None = None,
        include_expired: bool = False,
        include_retired: bool = False,
    ) -> sql.Clause:
        """Return the condition that a row is one of these, visible, and matches."""
        shown = records.conditions(
            self.now(), include_expired=include_expired, include_retired=include_retired
        )
        named = sql.filtered(filter, columns=RECORD_FIELDS)
        return self.own(*conditions, *shown, named)

    def inside(self) -> sql.Clause:
        """The condition that a row of any table is in the scope, hidden or not."""
        return sql.all_equal(self.scope.parts())

    def everything(self) -> sql.Clause:
        """The condition that a row is in the scope, hidden or not, in any context."""
        return sql.all_of([self.inside(), sql.differs("context", NO_CONTEXT)])

    def inside_of(self, within: Mapping[str, str | None]) -> sql.Clause:
        """Return the condition on columns in `within`, unless implied; may be empty."""
        return _inside(self.scope, within)

    def whose(self, part: str, value: str) -> str | None:
        """Return a call's agent or user, inside the scope; None for an empty name."""
        return self.scope.resolve(part, check_name(value, part) if value else None)

    def stamped(self, record: ContextRecord, *, is_said: bool = False) -> ContextRecord:
        """Return `record` as one of these. Raises InvalidRequestError if of another owner.

        If it `is_said` here, its author is the writer of this handle.
        """
        record = self.scope.stamp(record)
        changes: dict[str, Any] = {}
        if record.context != self.context:
            changes["context"] = self.context
        if is_said and record.author != self.resources.author:
            changes["author"] = self.resources.author
        return replace(record, **changes) if changes else record

    def now(self) -> datetime:
        """The current moment in UTC."""
        return self.resources.clock.now()

    # Reading

    async def read(
        self,
        where: sql.Clause,
        *,
        offset: int = 0,
        limit: int | None = None,
        last: int | None = None,
        columns: Sequence[str] = COLUMNS,
    ) -> list[ContextRecord]:
        """Return matching records in order.

        With `last`, the last ones, and `offset` counts from the end.
        """
        check_span(offset=offset, limit=limit, last=last)
        rows = await self.table.slice(where, columns=columns, offset=offset, limit=limit, last=last)
        return await steps.each_row(from_row, rows)

    async def remembered(
        self,
        condition: sql.Clause,
        *,
        columns: Sequence[str],
        such: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the rows that meet a condition, hidden ones too, from the cache if possible.

        For a repeated condition: it is evaluated once per row. Returns only the rows that are
        `such`.
        """
        where = self.own(condition)
        if (table := await self._in_memory(Condition.of(where), columns)) is not None:
            with suppress(UnsureError, UnsureOfRowError):
                only = sql.Clause("such", such) if such else sql.all_of([])
                return await table.read(only, columns=columns)
        rows = await steps.each_row(dict, await self.table.find(where, columns=columns))
        return [row for row in rows if such(row)] if such else rows

    async def seen(self, keys: Sequence[str]) -> dict[str, ContextRecord]:
        """Return the records with these keys, hidden ones too, from the cache if possible.

        For reading only: see `codecs.records.apart`.
        """
        if not keys:
            return {}
        asked = Condition.of(_mine(self.scope, self.context))
        if (table := await self._in_memory(asked, WITHOUT_BLOB)) is not None:
            with suppress(UnsureError):
                return await table.of_keys(keys, columns=WITHOUT_BLOB, in_two=_SEEN_IN_TWO)
        where = self.own(sql.in_list(KEY, keys))
        rows = await self.table.get(where, columns=[KEY, *WITHOUT_BLOB])
        return {row[KEY]: from_row(row) for row in rows}

    async def at_once(self, columns: Sequence[str] = ()) -> "Records":
        """Return the same records for several reads of one moment, with one look at the table.

        It is for reading alone, within one call: what is written meanwhile may be missing. Reads of
        other columns than those of a search and `columns` look again.
        """
        asked = Condition.of(_mine(self.scope, self.context))
        looked = await self._in_memory(asked, [*WITHOUT_BLOB, *columns])
        return replace(self, looked=looked)

    def as_of(self, other: "Records") -> "Records":
        """Return the same records for reads of the moment of the other ones `at_once`."""
        hot, looked = self.resources.hot, other.looked
        if hot is None or looked is None:
            return self
        mine = _mine(self.scope, self.context)
        given: dict[str, Any] = {"columns": WITHOUT_BLOB, "state": looked.state}
        return replace(self, looked=hot.known_at(self.table, mine, Condition.of(mine), **given))

    async def _in_memory(self, asked: Condition, columns: Sequence[str]) -> HotTable | None:
        if self.looked is not None:
            known = self.looked.where(asked, asked, columns=columns)
            if known is not None:
                return known
        if (hot := self.resources.hot) is None:
            return None
        mine = _mine(self.scope, self.context)
        return await hot.of(self.table, mine, asked, asked, columns=columns, is_whole=False)

    async def visible(self, condition: sql.Clause) -> ContextRecord | None:
        """Return the first record that matches and is visible, with all columns.

        For conditions that few records match: all of them are read, and `is_visible` is evaluated
        here, because conditions on further columns would cost more than the records.
        """
        rows = await self.table.find(self.own(condition), columns=[*COLUMNS, VECTOR])
        found, now = await steps.each_row(from_row, rows), self.now()
        return next((one for one in found if records.is_visible(one, now)), None)

    async def search(
        self,
        query: str | Sequence[float] | None,
        *conditions: sql.Clause,
        include_expired: bool = False,
        include_retired: bool = False,
        columns: Sequence[str] = WITHOUT_BLOB,
        room: Room = CONVERSATION,
        within: Mapping[str, str | None] | None = None,
        are_seen: bool = False,
        **arguments: Unpack[SearchArguments],
    ) -> list[SearchHit[ContextRecord]]:
        """Return the records that meet the conditions and match `query`, best first.

        `within` has the values of further columns. If they `are_seen`, they are for reading only,
        see `codecs.records.apart`, and the hits do not say what gave their scores.
        """
        searched = self._searched(
            *conditions,
            include_expired=include_expired,
            include_retired=include_retired,
            columns=columns,
            room=room,
            within=within,
        )
        if are_seen:
            searched = replace(searched, in_two=_SEEN_IN_TWO, is_explained=False)
        return await searching.search(searched, query, **arguments)

    async def search_around(
        self,
        query: str,
        *conditions: sql.Clause,
        limit: int,
        options: SearchOptions | None = None,
    ) -> list[Around[ContextRecord]]:
        """As `search`, each hit with its neighbours that meet the conditions."""
        searched = self._searched(*conditions, columns=WITHOUT_BLOB)
        return await searching.search_around(searched, query, limit=limit, options=options)

    def _searched(
        self,
        *conditions: sql.Clause,
        columns: Sequence[str],
        include_expired: bool = False,
        include_retired: bool = False,
        room: Room = CONVERSATION,
        within: Mapping[str, str | None] | None = None,
    ) -> searching.Searched[ContextRecord]:
        asked = self.scope, self.context, tuple((within or {}).items()), conditions, include_retired
        is_usual = all(len(one) < _SHORT for one in conditions)
        which = _usual_which(*asked) if is_usual else _which(*asked)
        return searching.Searched(
            table=self.table,
            resources=self.resources,
            where=which.standing,
            moments=records.moments(
                self.now(), include_expired=include_expired, include_retired=include_retired
            ),
            filterable=RECORD_FIELDS,
            columns=columns,
            read=from_row,
            in_two=(values_of, from_values),
            room=room,
            scope=which.scope,
            looked=None if within else self.looked,
            names_links=self.context in OF_ALL,
        )

    async def page(
        self,
        where: sql.Clause,
        *,
        within: Mapping[str, str | None],
        filter: FilterLike | None = None,
        columns: Sequence[str],
        offset: int = 0,
        limit: int | None = None,
        last: int | None = None,
    ) -> pa.Table | list[dict[str, Any]]:
        """Return a page of rows that meet both conditions, as `Table.page`; see `few`."""
        span: dict[str, Any] = {"offset": offset, "limit": limit, "last": last}
        is_whole = not offset and limit is None and last is None
        given: dict[str, Any] = {"within": within, "columns": columns, "at_once": is_whole, **span}
        if (rows := await self.few(where, filter, **given)) is not None:
            return rows
        both = sql.all_of([where, sql.filtered(filter, columns=RECORD_FIELDS)])
        return await self.table.page(both, columns=columns, span=span)

    async def count(
        self,
        where: sql.Clause,
        *,
        within: Mapping[str, str | None],
        filter: FilterLike | None = None,
    ) -> int:
        """Return the number of records that meet both conditions; see `few`."""
        if (rows := await self.few(where, filter, within=within, columns=())) is not None:
            return len(rows)
        both = sql.all_of([where, sql.filtered(filter, columns=RECORD_FIELDS)])
        return await self.table.count(both)

    async def few(
        self,
        where: sql.Clause,
        filter: FilterLike | None,
        *,
        within: Mapping[str, str | None],
        columns: Sequence[str],
        at_once: bool = False,
        by: str = "",
        offset: int = 0,
        limit: int | None = None,
        last: int | None = None,
    ) -> list[dict[str, Any]] | None:
        """As `HotTable.read`, if the records are in a small hot scope; else None.

        The records that meet `where` have the column values of `within`. Unless `at_once`, a scope
        is cached at the second request.
        """
        span: dict[str, Any] = {"by": by, "offset": offset, "limit": limit, "last": last}
        given: dict[str, Any] = {"within": within, "columns": columns, "at_once": at_once}
        found = await self._few(where, filter, **given, span=span)
        return None if found is None else found[0]

    async def _few(
        self,
        where: sql.Clause,
        filter: FilterLike | None,
        *,
        within: Mapping[str, str | None],
        columns: Sequence[str],
        at_once: bool,
        span: Mapping[str, Any],
    ) -> tuple[list[dict[str, Any]], Position] | None:
        """As `few`, with the position of the table."""
        more = sql.filtered(filter, columns=RECORD_FIELDS)
        if (hot := self.resources.hot) is None:
            return None
        kept = [name for name in columns if name != "blob"]
        for scope in self._scopes(within):
            table = await hot.few(self.table, scope, where, more, columns=kept, at_once=at_once)
            if table is None:
                continue
            with suppress(UnsureError, UnsureOfRowError):
                rows = await table.read(more, columns=kept, **span)
                if "blob" not in columns:
                    return rows, table.state
                # A row with a text or parts has no bytes; for others only the table knows.
                if all(row["text"] is not None or row["parts"] for row in rows):
                    return [{**row, "blob": None} for row in rows], table.state
            return None
        return None

    async def observed(
        self,
        where: sql.Clause,
        *,
        within: Mapping[str, str | None] | None,
        columns: Sequence[str],
        last: int | None = None,
    ) -> Observed:
        """As `changes.observed`, for records that are about to be changed or deleted.

        If they are in a small hot scope, according to `within`, nothing else is read.
        """
        span = {"last": last}
        for _ in range(_LOOKS if within is not None else 0):
            given: dict[str, Any] = {"columns": columns, "at_once": True, "span": span}
            found = await self._few(where, None, within=within or {}, **given)
            if found is None:
                break
            view = await self.table.access.view()
            if view is not None and found[1] == (view.table, view.token, view.last):
                return Observed(found[0], view)
        return await changes.observed(self.table, where, columns=columns, last=last)

    async def observed_whole(
        self, where: sql.Clause, *, within: Mapping[str, str | None] | None
    ) -> Observed:
        """As `observed`, with all columns for a replacement."""
        found = await self.observed(where, within=within, columns=[KEY])
        keys = [row[KEY] for row in found.rows]
        if found.view is None or not keys:
            return found if not keys else Observed(await self.whole_rows(where), None)
        both = sql.all_of([where, sql.in_list(KEY, keys)])
        columns = [*SUCCEEDED, *COLUMNS, VECTOR]
        whole = await changes.observed(self.table, both, columns=columns)
        place = {key: number for number, key in enumerate(keys)}
        return Observed(sorted(whole.rows, key=lambda row: place[row[KEY]]), whole.view)

    def _scopes(self, within: Mapping[str, str | None]) -> list[sql.Clause]:
        """Return the scopes that may be in memory, the user's first, for all queries."""
        mine = _mine(self.scope, self.context)
        inside = self.inside_of(within)
        if not inside:
            return [mine]
        narrow = sql.all_of([mine, inside])
        return [narrow] if self.scope.user_id is None else [mine, narrow]

    async def cleared(
        self, within: Mapping[str, str | None], *, ids: Sequence[str] | None = None
    ) -> None:
        """Update the knowledge of these records after some of them were removed.

        `within` has values of their columns, and `ids` their ids, if known.
        """
        if (told := self.resources.on_cleared) is not None:
            await told(self, within, ids)

    # Replacement of rows

    async def whole_rows(self, where: sql.Clause) -> list[dict[str, Any]]:
        """Return the matching rows, with all columns for a replacement."""
        found = await self.table.find(where, columns=[*SUCCEEDED, *COLUMNS, VECTOR])
        return await steps.each_row(dict, found)

    def changed(
        self, record: ContextRecord, change: Callable[[ContextRecord], ContextRecord]
    ) -> ContextRecord:
        """Return the changed record, with the current time."""
        return self.stamped(replace(change(record), updated_at=self.now()), is_said=True)

    def replacing(self, row: Mapping[str, Any], record: ContextRecord) -> dict[str, Any]:
        """Return the row of `record` that replaces `row`, if `row` is unchanged meanwhile."""
        words = self.resources.composer.index_text(record)
        return to_row(record, key=row[KEY], search_text=words) | self.succession(row)

    async def written(self, rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Return the keys of those rows that the table contains, in their order."""
        where = sql.in_list(KEY, list(rows))
        found = (await self.table.select(where, columns=[KEY, "revision"])).to_pylist()
        return [row[KEY] for row in found if row["revision"] == rows[row[KEY]]["revision"]]

    def succession(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that a replacement of `row` inherits."""
        return {
            LINK: row[LINK] if self.context in OF_ALL else None,
            "revision": next_revision(row["revision"]),
            OWES: row.get(OWES),
        }


class _Which(NamedTuple):
    """Selects the records to search."""

    scope: sql.Clause
    """The condition of rows to cache: all that later conditions can select, in any state."""
    standing: sql.Clause
    """The condition on them, independent of the time."""


def _which(
    scope: Scope,
    context: str,
    within: tuple[tuple[str, str | None], ...],
    conditions: tuple[sql.Clause, ...],
    include_retired: bool,  # noqa: FBT001 - a key is made of places
) -> _Which:
    mine = sql.all_of([_mine(scope, context), _inside(scope, dict(within))])
    shown = records.standing(include_retired=include_retired)
    return _Which(mine, sql.all_of([mine, *conditions, *shown]))


_usual_which = remembered(2 * 1024 * 1024)(_which)
_SHORT = 1_000
"""Longer conditions, in characters, are not cached."""


def _inside(scope: Scope, within: Mapping[str, str | None]) -> sql.Clause:
    mine = scope.parts()
    return sql.all_equal({k: v for k, v in within.items() if v is None or mine.get(k) != v})


@remembered(512 * 1024)
def _mine(scope: Scope, context: str) -> sql.Clause:
    """Return the condition on scope and context, cached for each handle."""
    return sql.all_equal({**scope.parts(), "context": context})

"""The records of one scope and one context: the verbs that history, memory and `Context` share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, Unpack

import pyarrow as pa

from lance_context_core import _steps as steps
from lance_context_core._embedding import embedded
from lance_context_core._resources import Resources
from lance_context_core._retrying import ATTEMPTS, Attempts
from lance_context_core.engine import sql
from lance_context_core.engine.revisions import next_revision
from lance_context_core.engine.schema import KEY, VECTOR
from lance_context_core.engine.table.table import Table
from lance_context_core.errors import InvalidRequestError
from lance_context_core.filters import RECORD_FIELDS, FilterLike
from lance_context_core.records import ContextRecord, SearchHit, WriteResult
from lance_context_core.rows import visibility
from lance_context_core.rows.records import (
    COLUMNS,
    NO_CONTEXT,
    checked,
    from_row,
    from_rows,
    key_of,
    refuse_duplicates,
    to_row,
)
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.search import query as searching
from lance_context_core.search.fusion import DEFAULT_NEIGHBOURS
from lance_context_core.search.options import SearchArguments
from lance_context_core.stores.records import superseding
from lance_context_core.stores.records.repeating import CONTENT, refuse_other_content

WITHOUT_BLOB = [name for name in COLUMNS if name != "blob"]

Session = tuple[str | None, ...]
"""Context, tenant, user, agent and session: what tells one conversation from another."""

SESSION = (KEY, *SCOPE_PARTS, "session_id")
"""What is read of a row to know it as one of its session."""

_SUCCEEDED = [KEY, "id", "external_id", "created_at", "expires_at", "revision", "previous_key"]
"""What is read of a row that another one is about to replace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record that is about to be written."""

    record: ContextRecord
    identity: tuple[Literal["id", "external_id"], str] | None = None
    """What the caller chose to know it by; absent for an id that was generated for this write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted:
    """What became of one record of an upsert."""

    record: ContextRecord
    was_inserted: bool


@dataclass(frozen=True, slots=True)
class Records:
    """A view of the records table that cannot see or write outside its scope and context."""

    resources: Resources
    scope: Scope
    context: str = "default"

    @property
    def table(self) -> Table:
        """The table behind the view."""
        return self.resources.records

    def where(
        self,
        *conditions: str,
        filter: FilterLike | None = None,
        include_expired: bool = False,
        include_retired: bool = False,
    ) -> str:
        """The condition that a row is in the view, is visible, and satisfies all that is given."""
        shown = visibility.conditions(
            self._now(), include_expired=include_expired, include_retired=include_retired
        )
        named = sql.filtered(filter, columns=RECORD_FIELDS)
        return sql.all_of([*self._walls(), *conditions, *shown, named])

    def inside(self) -> str:
        """The condition that a row of any table is in the scope, hidden or not."""
        return sql.all_of([sql.equals(part, value) for part, value in self.scope.parts().items()])

    def everything(self) -> str:
        """The condition that a row is in the view, hidden or not, in whatever context."""
        return sql.all_of([self.inside(), f"context <> '{NO_CONTEXT}'"])

    # Writing

    async def insert(
        self,
        drafts: Sequence[Draft],
        *,
        within: Mapping[str, str | None] | None = None,
        keep_existing: bool = False,
    ) -> WriteResult:
        """Add records in one commit: all of them or none.

        A record that the view has already, by the identity that the caller chose, is left as it
        is: a repeated write changes nothing. Unless `keep_existing`, one with another content
        raises AlreadyExistsError before anything is written; only if another writer takes the
        identity at the same moment, the rest of the call may be written. Identities hold `within`
        the columns named there, such as one session.
        """
        self.resources.writable()
        has_keys = within is not None
        within = within or {}
        drafts = pending = await self._prepared(drafts)
        if keep_existing or (has_keys and len(drafts) == 1):
            # Most are new. Only where one is not, it is worth asking what is there; but of several
            # the others would be written by then.
            n_added, version = await self._write_new(drafts, within, [])
            if n_added == len(drafts):
                return WriteResult(ids=tuple(one.record.id for one in drafts), version=version)
            pending = [draft for draft in drafts if draft.identity]
        existing, expired = await self._repeated(pending, within, keep_existing=keep_existing)
        new = [draft for draft in pending if draft.identity not in existing]
        n_added, version = (
            await self._write_new(new, within, expired) if new else (0, await self.table.version())
        )
        if n_added < len(new):
            # Another writer took some of the identities meanwhile: what it wrote is there.
            existing, _ = await self._repeated(pending, within, keep_existing=keep_existing)
        ids = tuple(
            existing[draft.identity]["id"] if draft.identity in existing else draft.record.id
            for draft in drafts
        )
        repeated = [
            replace(draft.record, id=id)
            for draft, id in zip(drafts, ids, strict=True)
            if draft.identity in existing
        ]
        await superseding.mark(self, repeated)
        return WriteResult(ids=ids, version=version)

    async def upsert(self, drafts: Sequence[Draft]) -> tuple[list[Upserted], int]:
        """Add records or replace those that the view has already, in one commit.

        Only where another writer changes one of them at the same moment it takes a second commit,
        on top of the other's. A replaced record keeps its id, its `created_at` and its place in the
        order. Returns what became of each, and the version that is current afterwards.
        """
        self.resources.writable()
        drafts = await self._prepared(drafts)
        results: dict[int, Upserted] = {}
        attempts = Attempts("the same records kept being changed by others")
        while True:
            attempts.begin()
            todo = [index for index in range(len(drafts)) if index not in results]
            tried = [drafts[index] for index in todo]
            existing, expired = await self._existing(tried, {}, full=True)
            replaced = [existing.get(draft.identity) for draft in tried]
            rows = await self._upserted_rows(tried, replaced)
            await self._clear(expired)
            marks = await superseding.marks(self, rows)
            n_written, version = await self.table.upsert([*rows, *marks])
            written = {row[KEY] for row in rows}
            if n_written < len(rows) + len(marks):
                written = await self._added(rows, replaced)
                await superseding.mark(self, [from_row(row) for row in rows if row[KEY] in written])
            self._remember([row for row in rows if row[KEY] in written])
            for index, row, old in zip(todo, rows, replaced, strict=True):
                if row[KEY] in written:
                    results[index] = Upserted(record=from_row(row), was_inserted=old is None)
            if len(results) == len(drafts):
                return [results[index] for index in range(len(drafts))], version

    async def patch(
        self, where: str, change: Callable[[ContextRecord], ContextRecord]
    ) -> ContextRecord | None:
        """Change the first matching record and return it as it is then; None if none matches.

        Concurrent changes of one record are applied one after the other, none is lost.
        """
        self.resources.writable()
        attempts = Attempts("the same record kept being changed by others")
        while True:
            attempts.begin()
            rows = await self.whole_rows(where)
            if not rows:
                return None
            before = from_row(rows[0])
            attempts.problem = f"record {before.id!r} kept being changed by others"
            after = self._changed(before, change)
            if after.embedding is not before.embedding:
                (after,) = await self._embedded([after])
            new = [self._successor(rows[0], after)]
            if after.supersedes_id != before.supersedes_id:
                new += await superseding.marks(self, new)
            if await self.table.replace(new) == len(new):
                return after
            if len(new) > 1 and await self.written({new[0][KEY]: new[0]}):
                await superseding.mark(self, [after])
                return after

    async def patch_all(
        self, where: str, change: Callable[[ContextRecord], ContextRecord]
    ) -> list[ContextRecord]:
        """Change all matching records, in one commit, and return them in order as they are then.

        Only where another writer changes one of them at the same moment it takes a second commit,
        on top of the other's.
        """
        self.resources.writable()
        done: dict[str, ContextRecord] = {}
        attempts = Attempts("the same records kept being changed by others")
        while True:
            attempts.begin()
            found = await self.table.select(where, columns=[*_SUCCEEDED, *COLUMNS, VECTOR])
            rows = [row for row in await steps.each_row(dict, found) if row[KEY] not in done]
            if not rows:
                return list(done.values())
            pairs = await steps.each(lambda row: self.successor(row, change), rows)
            changed = {row[KEY]: record for record, row in pairs}
            new = {row[KEY]: row for _, row in pairs}
            if await self.table.replace(list(new.values())) < len(new):
                changed = {key: changed[key] for key in await self.written(new)}
            done |= changed
            if len(changed) == len(new):
                return list(done.values())

    async def exchange(
        self,
        where: str,
        drafts: Sequence[Draft],
        *,
        within: Mapping[str, str | None],
        keep_existing: bool = False,
    ) -> list[str]:
        """Add records, at the end, in the place of the matching ones; returns the new ones' ids.

        One commit; only what others have added meanwhile, and matches, goes in a second one. What
        the view has already by the identity of a draft, and does not match, is left as it is, and
        refused as by `insert`.
        """
        self.resources.writable()
        drafts = await self._prepared(drafts)
        gone = await self._revisions(where)
        existing, expired = await self._existing(drafts, within)
        staying = {one for one, row in existing.items() if row[KEY] not in gone}
        for draft in [] if keep_existing else drafts:
            if draft.identity and draft.identity in staying:
                refuse_other_content(draft.record, existing[draft.identity], draft.identity)
        new = [draft for draft in drafts if draft.identity not in staying]
        keys = [self._key(draft, within) for draft in new]
        rows = await self._rows([draft.record for draft in new], keys)
        await self._clear([key for key in expired if key not in gone])
        for attempt in range(ATTEMPTS):
            if (attempt == 0 and rows) or gone:
                await self.table.exchange([] if attempt else rows, removed=gone)
            if not rows:
                before = where
            else:
                first = (await self.table.select(sql.in_list(KEY, keys), columns=[KEY]))["_rowid"]
                if len(first) == 0:
                    break  # Somebody else has exchanged them in turn.
                before = sql.all_of([where, f"_rowid < {first[0].as_py()}"])
            if not (gone := await self._revisions(before)):
                break
        self._remember(rows)
        return [
            existing[draft.identity]["id"] if draft.identity in staying else draft.record.id
            for draft in drafts
        ]

    async def delete(self, where: str) -> int:
        """Forget the matching records; older versions still have them. Returns how many."""
        return await self.table.delete(where)

    # Reading

    async def read(
        self,
        where: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        last: int | None = None,
        columns: Sequence[str] = COLUMNS,
    ) -> list[ContextRecord]:
        """Matching records in order; with `last`, the last ones, and `offset` counts from the end."""
        check_span(offset=offset, limit=limit, last=last)
        rows = await self.table.slice(where, columns=columns, offset=offset, limit=limit, last=last)
        return await steps.each_row(from_row, rows)

    async def whole_rows(self, where: str) -> list[dict[str, Any]]:
        """The matching rows, with all that is read of one that another is about to replace."""
        found = await self.table.select(where, columns=[*_SUCCEEDED, *COLUMNS, VECTOR])
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def successor(
        self, row: Mapping[str, Any], change: Callable[[ContextRecord], ContextRecord]
    ) -> tuple[ContextRecord, dict[str, Any]]:
        """The record of the row as it is once changed, and the row that then replaces `row`."""
        record = self._changed(from_row(row), change)
        return record, self._successor(row, record)

    async def written(self, rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """The keys of those of the rows, given by key, that are in the table; in their order."""
        where = sql.in_list(KEY, list(rows))
        found = (await self.table.select(where, columns=[KEY, "revision"])).to_pylist()
        return [row[KEY] for row in found if row["revision"] == rows[row[KEY]]["revision"]]

    def remember_end(self, rows: pa.Table) -> None:
        """Note the last row of a session that was read to its end; with the columns `SESSION`."""
        for row in rows.slice(max(rows.num_rows - 1, 0)).select(SESSION).to_pylist():
            if self.resources.tails.get(self._session_of(row)) is None:
                self._remember([row])

    async def visible(self, condition: str) -> ContextRecord | None:
        """The first record in the view that matches and is visible, with all that it has.

        For conditions that few records match: all of them are read, and `is_visible` is asked
        here, because conditions on further columns would cost more than the records.
        """
        where = sql.all_of([*self._walls(), condition])
        rows = await self.table.select(where, columns=[*COLUMNS, VECTOR])
        now = self._now()
        return next((one for one in from_rows(rows) if visibility.is_visible(one, now)), None)

    async def search(
        self,
        query: str | Sequence[float] | None,
        *conditions: str,
        include_expired: bool = False,
        include_retired: bool = False,
        columns: Sequence[str] = WITHOUT_BLOB,
        neighbours: float = DEFAULT_NEIGHBOURS,
        **arguments: Unpack[SearchArguments],
    ) -> list[SearchHit[ContextRecord]]:
        """The records that meet the conditions and answer `query` best, best first."""
        searched = searching.Searched(
            table=self.table,
            resources=self.resources,
            where=self.where(
                *conditions, include_expired=include_expired, include_retired=include_retired
            ),
            filterable=RECORD_FIELDS,
            columns=columns,
            read=from_row,
            neighbours=neighbours,
        )
        return await searching.search(searched, query, **arguments)

    # Helpers

    def _walls(self) -> list[str]:
        parts = {**self.scope.parts(), "context": self.context}
        return [sql.equals(column, value) for column, value in parts.items()]

    def _now(self) -> datetime:
        return self.resources.clock.now()

    async def _prepared(self, drafts: Sequence[Draft]) -> list[Draft]:
        """The drafts checked, stamped with the scope, each identity given once."""
        many = len(drafts) > 1

        def prepare(numbered: tuple[int, Draft]) -> Draft:
            index, draft = numbered
            record = checked(draft.record, f"records[{index}]." if many else "")
            return replace(draft, record=replace(self._stamped(record), context=self.context))

        prepared = await steps.each(prepare, enumerate(drafts))
        for column in ("id", "external_id"):
            chosen = [d.identity[1] for d in prepared if d.identity and d.identity[0] == column]
            refuse_duplicates(chosen, column)
        return prepared

    def _stamped(self, record: ContextRecord) -> ContextRecord:
        """`record` with the parts of the scope; raises if it names others."""
        return replace(
            record, **self.scope.stamp({part: getattr(record, part) for part in SCOPE_PARTS})
        )

    async def _repeated(
        self, drafts: Sequence[Draft], within: Mapping[str, str | None], *, keep_existing: bool
    ) -> tuple[dict[Any, dict[str, Any]], list[str]]:
        """As `_existing`; raises for a draft with another content, unless that is to be kept."""
        existing, expired = await self._existing(drafts, within)
        for draft in [] if keep_existing else drafts:
            if draft.identity and draft.identity in existing:
                refuse_other_content(draft.record, existing[draft.identity], draft.identity)
        return existing, expired

    async def _existing(
        self, drafts: Sequence[Draft], within: Mapping[str, str | None], *, full: bool = False
    ) -> tuple[dict[Any, dict[str, Any]], list[str]]:
        """The rows that the view has already, by identity; and the keys of expired ones.

        An expired record makes way: it is to be cleared away before one of its identity is written.
        """
        identities = [draft.identity for draft in drafts if draft.identity]
        if not identities:
            return {}, []
        named = [
            sql.in_list(column, [value for kind, value in identities if kind == column])
            for column in ("id", "external_id")
            if any(kind == column for kind, _ in identities)
        ]
        if within:
            # Not what narrower handles call so: that is something else, with a key of its own.
            named = [sql.in_list(KEY, [self._key(one, within) for one in drafts if one.identity])]
        mine = sql.all_of([*self._walls(), sql.any_of(named)])
        columns = _SUCCEEDED if full else [KEY, "id", "external_id", "expires_at", *CONTENT]
        rows = (await self.table.select(mine, columns=columns)).to_pylist()
        now = self._now()
        expired = [row[KEY] for row in rows if row["expires_at"] and row["expires_at"] <= now]
        wanted = set(identities)
        existing = {
            (column, row[column]): row
            for row in rows
            if row[KEY] not in expired
            for column in ("id", "external_id")
            if (column, row[column]) in wanted
        }
        return existing, expired

    async def _clear(self, expired: Sequence[str]) -> None:
        """Remove the records with these keys, as far as they are still expired."""
        if expired:
            gone = f"expires_at <= {sql.timestamp(self._now())}"
            await self.table.delete(sql.all_of([sql.in_list(KEY, expired), gone]))

    def _changed(
        self, before: ContextRecord, change: Callable[[ContextRecord], ContextRecord]
    ) -> ContextRecord:
        """The record as it is to be written: changed, checked, and inside the scope."""
        after = checked(replace(change(before), updated_at=self._now()), "")
        return self._stamped(after)

    async def _revisions(self, where: str) -> dict[str, int]:
        """The revisions of the matching rows, by key."""
        found = await self.table.select(where, columns=[KEY, "revision"])
        return dict(zip(found[KEY].to_pylist(), found["revision"].to_pylist(), strict=True))

    async def _write_new(
        self, drafts: Sequence[Draft], within: Mapping[str, str | None], expired: Sequence[str]
    ) -> tuple[int, int]:
        """Write what is believed to be new; returns how many were, and the current version."""
        keys = await steps.each(lambda draft: self._key(draft, within), drafts)
        rows = await self._rows([draft.record for draft in drafts], keys)
        await self._clear(expired)
        if marks := await superseding.marks(self, rows):
            written = await superseding.write(self, rows, marks)
        elif any(draft.identity for draft in drafts):
            written = await self.table.insert_absent(rows)
        else:
            written = len(rows), (await self.table.append(rows)).version
        self._remember(rows)
        return written

    def _key(self, draft: Draft, within: Mapping[str, str | None]) -> str:
        column, value = draft.identity or ("id", draft.record.id)
        record = draft.record
        if column == "id" and record.kind == "message" and record.session_id is not None:
            # One message, by whichever door it comes in.
            within = message_scope(record.agent_id, record.session_id)
        inside = [name if part is None else f"{name}={part}" for name, part in within.items()]
        return key_of(self.scope, self.context, *inside, column, value)

    async def _rows(
        self, records: Sequence[ContextRecord], keys: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The rows of checked records, with their vectors and the links to the turns before them."""
        embedded = await self._embedded(superseding.among(records))
        tails = await self._tails(embedded)

        def linked(one: tuple[ContextRecord, str]) -> dict[str, Any]:
            record, key = one
            session = self._session(record)
            row = self._row(record, key) | {"previous_key": tails.get(session)}
            if session is not None:
                tails[session] = key
            return row

        return await steps.each(linked, zip(embedded, keys, strict=True))

    async def _upserted_rows(
        self, drafts: Sequence[Draft], replaced: Sequence[Mapping[str, Any] | None]
    ) -> list[dict[str, Any]]:
        """The rows of the drafts, each the successor of the row that it replaces, if there is one."""
        records = [
            draft.record
            if old is None
            else replace(draft.record, id=old["id"], created_at=old["created_at"])
            for draft, old in zip(drafts, replaced, strict=True)
        ]
        keys = [
            self._key(draft, {}) if old is None else old[KEY]
            for draft, old in zip(drafts, replaced, strict=True)
        ]
        rows = await self._rows(records, keys)
        return [
            row if old is None else row | _succession(old)
            for row, old in zip(rows, replaced, strict=True)
        ]

    async def _added(
        self, rows: Sequence[Mapping[str, Any]], replaced: Sequence[Mapping[str, Any] | None]
    ) -> set[str]:
        """The keys of the rows of which it is certain that they were written, where not all were.

        Their revisions tell the new ones. Of the others somebody else may have made the next.
        """
        new = {
            row[KEY]: row["revision"]
            for row, old in zip(rows, replaced, strict=True)
            if old is None
        }
        where = sql.in_list(KEY, list(new))
        found = (await self.table.select(where, columns=[KEY, "revision"])).to_pylist()
        return {row[KEY] for row in found if row["revision"] == new[row[KEY]]}

    def _successor(self, row: Mapping[str, Any], record: ContextRecord) -> dict[str, Any]:
        """The row that replaces `row`, if nobody has changed it meanwhile."""
        return self._row(record, row[KEY]) | _succession(row)

    def _row(self, record: ContextRecord, key: str) -> dict[str, Any]:
        return to_row(record, key=key, search_text=self.resources.composer.index_text(record))

    async def _embedded(self, records: Sequence[ContextRecord]) -> list[ContextRecord]:
        """The records with their vectors, as far as they are given or can be made."""
        vectors: list[Any] = await embedded(
            self.table,
            self.resources,
            given=[record.embedding for record in records],
            texts=await steps.each(self.resources.composer.embed_text, records),
        )

        def with_vector(one: tuple[ContextRecord, Any]) -> ContextRecord:
            record, vector = one
            return record if vector is record.embedding else replace(record, embedding=vector)

        return await steps.each(with_vector, zip(records, vectors, strict=True))

    def _session(self, record: ContextRecord) -> Session | None:
        """What tells a record's session from all others of the store."""
        if record.session_id is None:
            return None
        parts = [getattr(record, part) for part in SCOPE_PARTS]
        return (self.context, *parts, record.session_id)

    async def _tails(self, records: Sequence[ContextRecord]) -> dict[Session | None, str]:
        """The key of the last record of each session that the records belong to."""
        sessions = {session for record in records if (session := self._session(record))}
        known = {session: self.resources.tails.get(session) for session in sessions}
        tails: dict[Session | None, str] = {one: key for one, key in known.items() if key}
        unknown = {str(session[-1]) for session in sessions if session not in tails}
        if unknown:
            inside = sql.all_of([*self._walls(), sql.in_list("session_id", sorted(unknown))])
            for row in (await self.table.select(inside, columns=SESSION)).to_pylist():
                one = self._session_of(row)
                if one in sessions and self.resources.tails.get(one) is None:
                    tails[one] = row[KEY]
        return tails

    def _remember(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            if row["session_id"] is not None:
                self.resources.tails.put(self._session_of(row), row[KEY])

    def _session_of(self, row: Mapping[str, Any]) -> Session:
        return (self.context, *(row[part] for part in SCOPE_PARTS), row["session_id"])


def _succession(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the row that replaces `row` takes over."""
    return {"previous_key": row["previous_key"], "revision": next_revision(row["revision"])}


def message_scope(agent_id: str | None, session_id: str) -> dict[str, str | None]:
    """Within what the id of a message counts."""
    return {"kind": "message", "agent_id": agent_id, "session_id": session_id}


def check_span(*, offset: int, limit: int | None, last: int | None) -> None:
    """Raise InvalidRequestError unless these say which part of a list is wanted."""
    for name, value in (("offset", offset), ("limit", limit), ("last", last)):
        if value is None and name != "offset":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidRequestError(f"{name}={value!r}: give a whole number, 0 or more")
    if limit is not None and last is not None:
        raise InvalidRequestError(
            f"limit={limit} counts from the start and last={last} from the end: pass one of them"
        )

"""New records: drafts become rows in one pass, written in one commit per call."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import product
from typing import Any, Literal, NamedTuple, TypeVar

from lance_context_core._embedding import embedded, needs_texts
from lance_context_core._progress import tell_written
from lance_context_core._util import cooperative as steps
from lance_context_core._util.frozen import frozen_by_name
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import (
    from_row,
    key_of,
    new_id,
    refuse_duplicates,
    to_row,
    with_values,
)
from lance_context_core.errors import AlreadyExistsError
from lance_context_core.messages import Message, TextPart, parts_to_json
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY, OWES, VECTOR
from lance_context_core.storage.table import Table
from lance_context_core.storage.write_batch import Mode, WriteBatch
from lance_context_core.stores.records import changes
from lance_context_core.stores.records.scoped import SUCCEEDED, Records
from lance_context_core.types import ContextRecord, Progress, WriteResult

# Existing rows, and the distinction of a repeated write from another one under the same id.

Identity = tuple[Literal["id", "external_id"], str]

CONTENT = (
    "session_id", "role", "name", "content_type", "text", "parts", "blob", "payload_uri",
)  # fmt: skip
"""The columns of a row's content, unlike metadata, which may change meanwhile."""


async def existing_of(
    records: Records,
    identities: Collection[Identity],
    keys: Sequence[str] | None = None,
    *,
    columns: Sequence[str] = (KEY, "id", "external_id", "expires_at", *CONTENT),
) -> tuple[dict[Any, dict[str, Any]], list[str]]:
    """Return the existing rows by identity, and the keys of expired ones.

    An expired record must be removed before one of its identity is written. With `keys` they are
    looked up by these.
    """
    if not identities:
        return {}, []
    if keys is not None:
        # Not the same name in narrower scopes: that is another record with its own key.
        named = sql.in_list(KEY, keys)
    else:
        by_column: dict[str, list[str]] = {}
        for column, value in identities:
            by_column.setdefault(column, []).append(value)
        named = sql.any_of([sql.in_list(column, some) for column, some in by_column.items()])
    found = await records.table.get(records.own(named), columns=columns)
    rows = [dict(row) for row in found]
    now = records.now()
    expired = [row[KEY] for row in rows if row["expires_at"] and row["expires_at"] <= now]
    wanted, gone = set(identities), set(expired)
    existing = {
        (column, row[column]): row
        for row in rows
        if row[KEY] not in gone
        for column in ("id", "external_id")
        if (column, row[column]) in wanted
    }
    return existing, expired


async def clear_away(records: Records, expired: Sequence[str]) -> None:
    """Delete the records with these keys that are still expired."""
    gone = sql.at_or_before("expires_at", records.now())
    await records.table.write(WriteBatch(where=sql.all_of([sql.in_list(KEY, expired), gone])))


def refuse_other_content(
    new: Mapping[str, Any], there: Mapping[str, Any], identity: tuple[str, str] | None
) -> None:
    """Raise AlreadyExistsError unless the existing row of one identity has the same content."""
    if identity and _content(new) != _content(there):
        column, value = identity
        raise AlreadyExistsError(
            f"{column}={value!r} is taken by a {new['kind']} with another content: choose another "
            "one, or replace what is there, as upsert() of the record API does"
        )


def _content(row: Mapping[str, Any]) -> list[Any]:
    values = {name: row[name] for name in CONTENT}
    if values["parts"] is None and values["text"] is not None:
        # The same message, given by its text or by its parts.
        values["parts"] = parts_to_json([TextPart(text=values["text"])])
    return list(values.values())


T = TypeVar("T")

Within = Mapping[str, str | None]


@frozen_by_name
class Draft:
    """A record to be written, in plain types."""

    record: ContextRecord
    identity: Identity | None = None
    """The identity chosen by the caller; None for a generated id."""
    owes: str | None = None
    """The job that it owes: see `jobs.implied`."""

    @classmethod
    def said(
        cls, message: Message, *, now: datetime, owes: str | None = None, **more: Any
    ) -> "Draft":
        """Return the draft of a message, with these fields of a record added or replaced."""
        values = {
            "id": more.get("id") or message.id or new_id(),
            "content_type": "text/plain",
            "created_at": message.created_at or now,
            "updated_at": now,
            "role": message.role,
            "name": message.name,
            "text": message.text or None,
            "parts": message.parts,
            "native": message.native,
            "metadata": message.metadata,
        }
        record = ContextRecord(**{**values, **more})
        identity: Identity | None = ("id", message.id) if message.id else None
        return cls(record=record, identity=identity, owes=owes)


@frozen_by_name
class Upserted:
    """The result of one record of an upsert."""

    record: ContextRecord
    was_inserted: bool


def message_scope(agent_id: str | None, session_id: str) -> dict[str, str | None]:
    """The scope within which the id of a message is unique."""
    return {"kind": "message", "agent_id": agent_id, "session_id": session_id}


async def insert_said(
    records: Records,
    draft: Callable[[int, T], Draft],
    given: Sequence[T],
    within: Within,
    *,
    keep_existing: bool,
    progress: Callable[[Progress], object] | None,
) -> list[str]:
    """Insert messages, if any, and return their ids; calls `progress` at the end."""
    if not given:
        return []
    result = await insert(
        records, draft, given, within=within, keep_existing=keep_existing, progress=progress
    )
    await tell_written(progress, len(given))
    return list(result.ids)


async def insert(
    records: Records,
    draft: Callable[[int, T], Draft],
    given: Sequence[T],
    *,
    within: Within | None = None,
    keep_existing: bool = False,
    beside: Callable[[Sequence[str]], Sequence[dict[str, Any]]] | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> WriteResult:
    """Add the draft of each given thing, in one commit: all or none.

    An existing record, by the identity that the caller chose, is left unchanged: a repeated write
    changes nothing. Unless `keep_existing`, one with other content raises AlreadyExistsError before
    anything is written; only if another writer takes the identity at the same moment, the rest of
    the call may be written. Identities are unique `within` the columns named there, such as one
    session. New rows that `beside` makes of the new ids are added to the same commit if all ids are
    generated; else it is not called.
    """
    records.resources.writable()
    table = records.table
    new = pending = await prepare(records, table, draft, given, within)
    if beside is not None and not any(one.identity for one in new):
        await complete(records, table, new, progress)
        made = tuple(one.record.id for one in new)
        written = await table.write(WriteBatch([*(one.row for one in new), *beside(made)]))
        return WriteResult(ids=made, version=written.version)
    if keep_existing or (within is not None and len(new) == 1):
        # Most are new: existing rows are looked up only after a failure. Of several, the others
        # would be written by then.
        n_added, version = await _write(records, table, new, progress=progress)
        if n_added == len(new):
            return WriteResult(ids=tuple(one.record.id for one in new), version=version)
        pending = [one for one in new if one.identity]
    existing, expired = await _find_repeated(records, pending, within, keep_existing=keep_existing)
    absent = [one for one in pending if one.identity not in existing]
    if absent:
        n_added, version = await _write(records, table, absent, expired, progress=progress)
    else:
        n_added, version = 0, await table.version()
    if n_added < len(absent):
        # Another writer took some of the identities meanwhile: its rows exist.
        existing, _ = await _find_repeated(records, pending, within, keep_existing=keep_existing)
    ids = tuple(
        existing[one.identity]["id"] if one.identity in existing else one.record.id for one in new
    )
    repeated = [
        replace(one.record, id=id)
        for one, id in zip(new, ids, strict=True)
        if one.identity in existing
    ]
    await changes.mark(records, repeated)
    return WriteResult(ids=ids, version=version)


async def upsert(
    records: Records,
    drafts: Sequence[Draft],
    *,
    progress: Callable[[Progress], object] | None = None,
) -> tuple[list[Upserted], int]:
    """Add records or replace existing ones, in one commit.

    Only if another writer changes one of them at the same moment it takes a second commit, on top
    of the other's. A replaced record keeps its id, its `created_at` and its place in the order.
    Returns the result of each, and the current version afterwards.
    """
    records.resources.writable()
    refuse_duplicates(_identities(drafts))
    results: dict[int, Upserted] = {}
    attempts = Attempts("the same records kept being changed by others")
    while True:
        attempts.begin()
        todo = [index for index in range(len(drafts)) if index not in results]
        tried = [drafts[index] for index in todo]
        existing, expired = await existing_of(records, _identities(tried), columns=SUCCEEDED)
        replaced = [existing.get(draft.identity) for draft in tried]
        new = await steps.each(lambda one: _new(records, *one), zip(tried, replaced, strict=True))
        await complete(records, records.table, new, progress)
        rows = [
            one.row if old is None else one.row | records.succession(old)
            for one, old in zip(new, replaced, strict=True)
        ]
        if expired:
            await clear_away(records, expired)
        marks = await changes.marks(records, rows)
        done = await records.table.write(WriteBatch([*rows, *marks], Mode.UPSERT))
        written = {row[KEY] for row in rows} - done.lost
        if not done.is_done:
            # These rows stay: another write would take them from another writer that retries, for
            # ever.
            await changes.mark(records, [from_row(row) for row in rows if row[KEY] in written])
        for index, row, old in zip(todo, rows, replaced, strict=True):
            if row[KEY] in written:
                results[index] = Upserted(record=from_row(row), was_inserted=old is None)
        if len(results) == len(drafts):
            return [results[index] for index in range(len(drafts))], done.version


async def exchange(
    records: Records,
    where: sql.Clause,
    draft: Callable[[int, T], Draft],
    given: Sequence[T],
    *,
    within: Within,
    inside: Within,
    keep_existing: bool = False,
) -> list[str]:
    """Replace the matching records by new ones at the end; returns the new ids.

    Identities are unique `within` the columns named there; all matching rows are `inside` these.
    One commit for all rows that match then; without a log, rows that others have added meanwhile
    are removed in a second one. An existing record with the identity of a draft that does not match
    is left unchanged, and refused as by `insert`.
    """
    records.resources.writable()
    table = records.table
    prepared = await prepare(records, table, draft, given, within)
    attempts = Attempts("the records to be replaced kept being changed by others")
    while True:
        attempts.begin()
        observed = await records.observed(where, within=inside, columns=[KEY, "revision"])
        gone = {row[KEY]: row["revision"] for row in observed.rows}
        identities = _identities(prepared)
        existing, expired = await existing_of(records, identities, _keys(prepared, within))
        staying = {one for one, row in existing.items() if row[KEY] not in gone}
        for one in [] if keep_existing else prepared:
            if one.identity in staying:
                refuse_other_content(one.row, existing[one.identity], one.identity)
        new = [one for one in prepared if one.identity not in staying]
        await complete(records, table, new)
        rows = [one.row for one in new]
        if expired := [key for key in expired if key not in gone]:
            await clear_away(records, expired)
            continue
        if rows or gone:
            seen = {**dict.fromkeys(row[KEY] for row in rows), **gone}
            batch = WriteBatch(rows, deletes=gone, where=where, expect=seen, observed=observed)
            if not (await table.write(batch)).is_done:
                continue
        return [
            existing[one.identity]["id"] if one.identity in staying else one.record.id
            for one in prepared
        ]


class Prepared(NamedTuple):
    """A record and its row, which may lack a vector to compute."""

    record: ContextRecord
    identity: Identity | None
    row: dict[str, Any]
    text: str | None
    """The text to embed; None if there is no embedder, or a vector exists."""


async def prepare(
    records: Records,
    table: Table,
    draft: Callable[[int, T], Draft],
    given: Sequence[T],
    within: Within | None,
) -> list[Prepared]:
    """Prepare each given thing separately; identities are unique."""
    is_embedded = await needs_texts(table, records.resources)

    def made(one: tuple[int, T]) -> Prepared:
        return _new(records, draft(*one), within=within, is_embedded=is_embedded)

    new = await steps.each(made, enumerate(given))
    if len(new) > 1:
        refuse_duplicates(_identities(new))
    return new


def _new(
    records: Records,
    draft: Draft,
    old: Mapping[str, Any] | None = None,
    *,
    within: Within | None = None,
    is_embedded: bool = True,
) -> Prepared:
    """Return a draft as one of the records, replacing the row `old`, if any."""
    record = records.stamped(draft.record, is_said=True)
    if old is not None:
        record = replace(record, id=old["id"], created_at=old["created_at"])
    composer = records.resources.composer
    row = to_row(
        record,
        key=_key(records, record, draft.identity, within) if old is None else old[KEY],
        search_text=composer.index_text(record),
    )
    if draft.owes is not None:
        row[OWES] = draft.owes
    text = composer.embed_text(record) if is_embedded and record.embedding is None else None
    return Prepared(record, draft.identity, row, text)


def _key(
    records: Records, record: ContextRecord, identity: Identity | None, within: Within | None
) -> str:
    column, value = identity or ("id", record.id)
    if within is None and column == "id" and record.kind == "message" and record.session_id:
        # One message, by any method.
        within = message_scope(record.agent_id, record.session_id)
    return key_of(records.scope, records.context, *_inside(within or {}), column, value)


def keys_of_message(owner: Scope, context: str, session_id: str, id: str) -> list[str]:
    """Return the possible keys of an owner's message, one per scope."""
    inside = _inside(message_scope(owner.agent_id, session_id))
    parts = [{None, getattr(owner, part)} for part in SCOPE_PARTS]
    scopes = (Scope(**dict(zip(SCOPE_PARTS, some, strict=True))) for some in product(*parts))
    return [key_of(scope, context, *inside, "id", id) for scope in scopes]


def key_of_said(records: Records, within: Within, id: str) -> str:
    """Return the key of what `insert_said` writes under that id, within that range."""
    return key_of(records.scope, records.context, *_inside(within), "id", id)


def _inside(within: Within) -> list[str]:
    return [name if part is None else f"{name}={part}" for name, part in within.items()]


async def _write(
    records: Records,
    table: Table,
    new: Sequence[Prepared],
    expired: Sequence[str] = (),
    *,
    progress: Callable[[Progress], object] | None = None,
) -> tuple[int, int]:
    """Write rows assumed to be new; returns their actual number, and the version."""
    await complete(records, table, new, progress)
    rows = [one.row for one in new]
    if expired:
        await clear_away(records, expired)
    marks = []
    if any(row["supersedes_id"] is not None for row in rows):
        marks = await changes.marks(records, rows)
    if marks:
        written = await changes.write(records, rows, marks)
    elif any(one.identity for one in new):
        done = await table.write(WriteBatch(rows, Mode.INSERT))
        written = len(rows) - len(done.lost), done.version
    else:
        written = len(rows), (await table.write(WriteBatch(rows))).version
    return written


async def complete(
    records: Records,
    table: Table,
    new: Sequence[Prepared],
    progress: Callable[[Progress], object] | None = None,
) -> None:
    """Add the marks and vectors of the rows."""
    if newer := [one.record for one in new if one.record.supersedes_id is not None]:
        for one in new:
            if by := changes.superseded_by(one.record, newer):
                one.row.update(with_values(one.row, {"superseded_by_id": by}))
    given, texts = [one.row[VECTOR] for one in new], [one.text for one in new]
    vectors: Sequence[Any] = given
    if any(one is not None for one in (*given, *texts)):
        vectors = await embedded(
            table, records.resources, given=given, texts=texts, progress=progress
        )
    for one, vector in zip(new, vectors, strict=True):
        one.row[VECTOR] = vector


async def _find_repeated(
    records: Records, new: Sequence[Prepared], within: Within | None, *, keep_existing: bool
) -> tuple[dict[Any, dict[str, Any]], list[str]]:
    """As `existing_of`; raises for one with other content, unless it is to be kept."""
    existing, expired = await existing_of(records, _identities(new), _keys(new, within))
    for one in [] if keep_existing else new:
        if one.identity in existing:
            refuse_other_content(one.row, existing[one.identity], one.identity)
    return existing, expired


def _identities(new: Sequence[Prepared] | Sequence[Draft]) -> list[Identity]:
    return [one.identity for one in new if one.identity]


def _keys(new: Sequence[Prepared], within: Within | None) -> list[str] | None:
    """Return the keys of those with an identity that is unique `within` columns."""
    return None if within is None else [one.row[KEY] for one in new if one.identity]

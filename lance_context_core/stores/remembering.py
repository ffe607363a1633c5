"""Texts that are remembered once: what a user has already is touched, and not doubled."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from lance_context_core.codecs.records import from_row, is_visible, new_id
from lance_context_core.messages import Message
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records import changes
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord


class Remembered(NamedTuple):
    """The memory of a text."""

    id: str
    is_new: bool
    """False if the scope had a memory of that text."""


class Known(NamedTuple):
    """What there is already of the texts of a call."""

    by_text: Mapping[str, tuple[str, ContextRecord]]
    """The keys and records of visible memories."""
    taken: frozenset[str]
    """Ids under which something else is kept, or something hidden."""


_COLUMNS = (KEY, *WITHOUT_BLOB)


async def known(
    records: Records,
    texts: Sequence[str],
    ids: Sequence[str],
    *conditions: sql.Clause,
    within: Mapping[str, str | None],
) -> Known:
    """What there is of these texts, and under these ids, among the memories that meet the conditions."""
    either = sql.any_of([sql.in_list("text", texts), sql.in_list("id", ids)])
    where = records.own(*conditions, either)
    rows = await records.few(where, None, within=within, columns=_COLUMNS)
    if rows is None:
        found = await records.table.find(where, columns=_COLUMNS)
        rows = [dict(row) for row in (found if isinstance(found, list) else found.to_pylist())]
    now = records.now()
    by_text: dict[str, tuple[str, ContextRecord]] = {}
    taken = set()
    for row in rows:
        record = from_row(row)
        if is_visible(record, now):
            by_text.setdefault(record.text or "", (row[KEY], record))
        elif record.expires_at is not None and record.expires_at <= now:
            continue  # It makes way for the new one.
        taken.add(record.id)
    return Known(by_text, frozenset(taken))


def named(scope: Scope, user_id: str | None, session_id: str, text: str) -> str:
    """The id of a text's memory: two processes that remember it at once name it alike."""
    parts = [scope.tenant, user_id, scope.agent_id, session_id, text]
    told = json.dumps(parts).encode(errors="surrogatepass")
    return hashlib.sha256(told).hexdigest()[:32]


def as_message(text: str, id: str, there: Known) -> Message:
    """A text to be remembered, under its id, or under another one if something else has that."""
    id = new_id() if id in there.taken else id
    return Message.user(text, id=id)


async def touch(
    records: Records,
    there: Sequence[tuple[str, ContextRecord]],
    *,
    metadata: Mapping[str, Any] | None,
    expires_at: datetime | None,
) -> None:
    """Let memories expire at that moment, or never, and have this metadata, in one commit.

    Nothing is written where it is so already.
    """

    def change(record: ContextRecord) -> ContextRecord:
        told = record.metadata if metadata is None else metadata
        return replace(record, metadata=told, expires_at=expires_at)

    stale = [
        key
        for key, one in there
        if one.expires_at != expires_at or (metadata is not None and one.metadata != metadata)
    ]
    if stale:
        await changes.patch_all(records, records.own(sql.in_list(KEY, stale)), change)

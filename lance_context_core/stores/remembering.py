"""Deduplication of memories: a known text is touched instead of stored again."""

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
    """False if the scope already had a memory of that text."""


class Known(NamedTuple):
    """The existing memories of the texts of a call."""

    by_text: Mapping[str, tuple[str, ContextRecord]]
    """The keys and records of visible memories."""
    taken: frozenset[str]
    """Ids of other or hidden memories."""


_COLUMNS = (KEY, *WITHOUT_BLOB)


async def known(
    records: Records,
    texts: Sequence[str],
    ids: Sequence[str],
    *conditions: sql.Clause,
    within: Mapping[str, str | None],
) -> Known:
    """Return the existing memories of these texts and ids that meet the conditions."""
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
            continue  # The new one replaces it.
        taken.add(record.id)
    return Known(by_text, frozenset(taken))


def named(scope: Scope, user_id: str | None, session_id: str, text: str) -> str:
    """Return the id of a text's memory: two concurrent processes compute the same."""
    parts = [scope.tenant, user_id, scope.agent_id, session_id, text]
    told = json.dumps(parts).encode(errors="surrogatepass")
    return hashlib.sha256(told).hexdigest()[:32]


def as_message(text: str, id: str, there: Known) -> Message:
    """Return a text as a message, with its id, or another if taken."""
    id = new_id() if id in there.taken else id
    return Message.user(text, id=id)


async def touch(
    records: Records,
    there: Sequence[tuple[str, ContextRecord]],
    *,
    metadata: Mapping[str, Any] | None,
    expires_at: datetime | None,
) -> None:
    """Set the expiry and the metadata of memories, in one commit.

    Writes nothing if nothing changes.
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

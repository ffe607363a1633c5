"""Reads the turns of conversations for the extraction of knowledge; never writes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._util.frozen import frozen
from lance_context_core.codecs.records import COLUMNS
from lance_context_core.knowledge.types import SpokenTurn
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord

MESSAGES = sql.equals("kind", "message")

ARCHIVED = "archive"
"""Why a turn is hidden: its session is archived."""

ECHOES = ("recalled_ids", "recalled")
"""Metadata keys of a turn that repeats recalled text."""


def is_echo(metadata: Mapping[str, Any]) -> bool:
    """Whether a turn with this metadata repeats recalled text."""
    return any(metadata.get(key) for key in ECHOES)


@frozen
class Conversation:
    """A session of one owner; other owners may have sessions with the same id."""

    owner: Scope
    session_id: str


async def unread(
    records: Records, *, session_id: str | None, covered: pa.Table
) -> dict[Conversation, list[str]]:
    """Return the ids of the turns without a job, by conversation, in order.

    `covered` has the columns `session_id`, those of the scope, and as `source_ids` lists of ids.
    """
    which = [] if session_id is None else [sql.equals("session_id", session_id)]
    where = records.where(MESSAGES, sql.is_present("session_id"), *which)
    rows = await records.table.select(where, columns=["id", "session_id", *SCOPE_PARTS])
    # Both may have a hundred thousand rows, of which a few are new.
    covered = covered.combine_chunks()
    ids = covered["source_ids"].combine_chunks()
    about = covered.drop_columns(["source_ids"]).take(pc.list_parent_indices(ids))
    known = _places(about, pc.list_flatten(ids))
    new = rows.filter(pc.invert(pc.is_in(_places(rows, rows["id"]), value_set=known)))
    found: dict[Conversation, list[str]] = {}
    for row in new.to_pylist():
        found.setdefault(conversation_of(row), []).append(row["id"])
    return found


def _places(rows: pa.Table, ids: Any) -> Any:
    """Return one text per row and id: equal if owner, session and id are."""
    parts = [
        # Absent differs from empty, and no name contains a NUL.
        pc.fill_null(pc.binary_join_element_wise("=", rows[name].cast(pa.string()), ""), "")
        for name in (*SCOPE_PARTS, "session_id")
    ]
    return pc.binary_join_element_wise(*parts, ids.cast(pa.string()), "\0")


async def read(records: Records, conversation: Conversation) -> list[SpokenTurn]:
    """Return the turns of a conversation with text, in order."""
    found = await session_records(records, conversation.session_id, conversation)
    return spoken(found, range(len(found)))


async def archived_among(
    records: Records, conversation: Conversation, ids: Collection[str]
) -> bool:
    """Whether any of the turns with these ids is hidden with its session."""
    if not ids:
        return False
    session = sql.equals("session_id", conversation.session_id)
    which = (MESSAGES, session, owned_by(conversation.owner), sql.in_list("id", sorted(ids)))
    hidden = records.where(*which, include_retired=True, include_expired=True)
    found = await records.read(hidden, columns=WITHOUT_BLOB)
    found += await archive.read(records, *which, columns=WITHOUT_BLOB)
    return any(one.retired_reason == ARCHIVED for one in found)


def shown(records: Records, conversation: Conversation) -> sql.Clause:
    """Return the condition of visible turns of a conversation."""
    session = sql.equals("session_id", conversation.session_id)
    return records.where(MESSAGES, session, owned_by(conversation.owner))


def spoken(found: Sequence[ContextRecord], places: Iterable[int]) -> list[SpokenTurn]:
    """Return the records with text as turns at these places."""
    return [
        SpokenTurn(
            id=one.id,
            session_id=one.session_id or "",
            role=one.role or "user",
            name=one.name,
            text=one.text,
            said_at=one.created_at,
            place=place,
            metadata=one.metadata,
            expires_at=one.expires_at,
        )
        for one, place in zip(found, places, strict=True)
        if one.text
    ]


async def session_records(
    records: Records,
    session_id: str,
    conversation: Conversation | None = None,
    *,
    hidden: bool = False,
) -> list[ContextRecord]:
    """Return a session's messages in order, of one owner or of all."""
    owner = [] if conversation is None else [owned_by(conversation.owner)]
    which = (MESSAGES, sql.equals("session_id", session_id), *owner)
    where = records.where(*which, include_retired=hidden, include_expired=hidden)
    found = await records.read(where, columns=COLUMNS)
    return [*(await archive.read(records, *which, columns=COLUMNS) if hidden else []), *found]


def conversation_of(row: Mapping[str, Any]) -> Conversation:
    """Return the conversation of a row."""
    return Conversation(Scope(**{part: row[part] for part in SCOPE_PARTS}), row["session_id"] or "")


def owned_by(owner: Scope) -> sql.Clause:
    """Return the condition of exactly that tenant, user and agent."""
    return sql.all_equal({part: getattr(owner, part) for part in SCOPE_PARTS})


def owner_of(record: ContextRecord) -> Scope:
    """Return the owner of a record."""
    return Scope(tenant=record.tenant, user_id=record.user_id, agent_id=record.agent_id)

"""The turns of conversations, as the knowledge is made of them: read, never written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lance_context_core.engine import sql
from lance_context_core.knowledge.values import SpokenTurn
from lance_context_core.records import ContextRecord
from lance_context_core.rows.records import COLUMNS
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.stores.records.scoped import Records

MESSAGES = sql.equals("kind", "message")


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session of one owner: others may call theirs alike."""

    owner: Scope
    session_id: str


async def unread(
    records: Records, *, session_id: str | None, covered: Iterable[tuple[Conversation, str]]
) -> dict[Conversation, list[str]]:
    """The ids of the turns that no job is about, by conversation, in order."""
    which = [] if session_id is None else [sql.equals("session_id", session_id)]
    where = records.where(MESSAGES, sql.is_present("session_id"), *which)
    rows = await records.table.select(where, columns=["id", "session_id", *SCOPE_PARTS])
    known = set(covered)
    found: dict[Conversation, list[str]] = {}
    for row in rows.to_pylist():
        one = conversation_of(row)
        if (one, row["id"]) not in known:
            found.setdefault(one, []).append(row["id"])
    return found


async def read(
    records: Records, conversation: Conversation, *, hidden: bool = False
) -> list[SpokenTurn]:
    """The turns of a conversation that have a text, in order."""
    found = await session_records(records, conversation.session_id, conversation, hidden=hidden)
    return [
        SpokenTurn(
            id=one.id,
            session_id=conversation.session_id,
            role=one.role or "user",
            name=one.name,
            text=one.text,
            said_at=one.created_at,
            place=place,
            metadata=one.metadata,
        )
        for place, one in enumerate(found)
        if one.text
    ]


async def session_records(
    records: Records,
    session_id: str,
    conversation: Conversation | None = None,
    *,
    hidden: bool = False,
) -> list[ContextRecord]:
    """The messages of a session as records, in order: of one owner, or of all in the scope."""
    owner = [] if conversation is None else [owned_by(conversation.owner)]
    where = records.where(
        MESSAGES,
        sql.equals("session_id", session_id),
        *owner,
        include_retired=hidden,
        include_expired=hidden,
    )
    return await records.read(where, columns=COLUMNS)


def conversation_of(row: Mapping[str, Any]) -> Conversation:
    """The conversation that a row is of."""
    return Conversation(Scope(**{part: row[part] for part in SCOPE_PARTS}), row["session_id"] or "")


def owned_by(owner: Scope) -> sql.Clause:
    """The condition that a row belongs to exactly that tenant, user and agent."""
    return sql.all_equal({part: getattr(owner, part) for part in SCOPE_PARTS})


def owner_of(record: ContextRecord) -> Scope:
    """Whose a record is."""
    return Scope(tenant=record.tenant, user_id=record.user_id, agent_id=record.agent_id)

"""Evidence looked up again: what the turns say now, and whether they say what they said."""

from collections.abc import Iterable, Sequence

from lance_context_core.knowledge import kept, turns
from lance_context_core.knowledge.values import Evidence, Quote
from lance_context_core.storage import sql
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord

Place = tuple[str | None, ...]
"""Tenant, user, agent, session and id: what tells one turn from all others."""


async def said(records: Records, made: Iterable[ContextRecord]) -> dict[Place, ContextRecord]:
    """The turns that prove these, archived ones too."""
    ids = {found.source_id for one in made for found in kept.evidence(one)}
    if not ids:
        return {}
    which = (turns.MESSAGES, sql.in_list("id", sorted(ids)))
    found = await records.read(records.own(*which), columns=WITHOUT_BLOB)
    if ids - {one.id for one in found}:
        found += await archive.read(records, *which, columns=WITHOUT_BLOB)
    return {place_of(one): one for one in found}


def quotes(record: ContextRecord, there: dict[Place, ContextRecord]) -> tuple[Quote, ...]:
    """The evidence of a record, in the turns as they are."""
    found: Sequence[Quote] = [
        _quote(one, there.get((*_whose(record), one.session_id, one.source_id)))
        for one in kept.evidence(record)
    ]
    return tuple(found)


def place_of(turn: ContextRecord) -> Place:
    """What tells it from all others."""
    return (*_whose(turn), turn.session_id, turn.id)


def _whose(record: ContextRecord) -> Place:
    return record.tenant, record.user_id, record.agent_id


def _quote(evidence: Evidence, turn: ContextRecord | None) -> Quote:
    if turn is None or turn.text is None:
        return Quote(evidence=evidence, text=None, is_verified=False)
    text = turn.text[evidence.start : evidence.end]
    return Quote(
        evidence=evidence,
        text=text,
        is_verified=kept.digest(text) == evidence.sha256,
        said_at=turn.created_at,
        speaker=turn.name or turn.role,
    )

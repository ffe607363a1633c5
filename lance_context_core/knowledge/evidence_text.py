"""Evidence looked up again: what the turns say now, and whether they say what they said."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from lance_context_core.codecs.records import alive
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.types import Evidence, Quote
from lance_context_core.storage import sql
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord

Place = tuple[str | None, ...]
"""Tenant, user, agent, session and id: what tells one turn from all others."""


async def said(
    records: Records, made: Iterable[ContextRecord], *, include_expired: bool = False
) -> dict[Place, ContextRecord]:
    """The turns that prove these, archived ones too; expired ones only if they are asked for."""
    ids = {found.source_id for one in made for found in params.evidence(one)}
    if not ids:
        return {}
    which = [turns.MESSAGES, sql.in_list("id", sorted(ids))]
    if not include_expired:
        which.append(alive(records.now()))
    found = await records.read(records.own(*which), columns=WITHOUT_BLOB)
    if ids - {one.id for one in found}:
        found += await archive.read(records, *which, columns=WITHOUT_BLOB)
    return {place_of(one): one for one in found}


def quotes(record: ContextRecord, there: dict[Place, ContextRecord]) -> tuple[Quote, ...]:
    """The evidence of a record, in the turns as they are."""
    found: Sequence[Quote] = [
        _quote(one, there.get((*_whose(record), one.session_id, one.source_id)))
        for one in params.evidence(record)
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
        is_verified=params.digest(text) == evidence.sha256,
        said_at=turn.created_at,
        speaker=turn.name or turn.role,
    )


# What of a model's words may be kept as a sentence, and what is wrong with the rest, in a word.

MOST_CHARACTERS = 600
"""Of a sentence that a model may say of turns."""

_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.!?]{0,40}\b(?:instruction|prompt|rule|message)s?\b"
    r"|\b(?:reveal|print|repeat|show|leak)\b[^.!?]{0,40}\bsystem prompt\b"
    r"|\byou (?:are now|must now|must always|must never)\b",
    re.IGNORECASE,
)


def fault_of(text: Any, *, most: int = MOST_CHARACTERS) -> str | None:
    """What a sentence must not be: no text, empty, endless, JSON, a loop, an order; None if it is none."""
    if not isinstance(text, str) or not (said := text.strip()) or "\0" in said:
        return "empty"
    if len(said) > most:
        return "too_long"
    if "```" in said or _is_json(said):
        return "leaked_json"
    if _is_a_loop(said):
        return "repetition"
    return "instruction" if is_order(said) else None


def is_order(text: str) -> bool:
    """Whether a sentence tells its reader, such as a model, what to do: nobody's fact, whoever said it."""
    return _ORDERS.search(text) is not None


def _is_a_loop(said: str) -> bool:
    words = said.split()
    return len(words) >= 12 and len(set(words)) * 3 < len(words)


def _is_json(said: str) -> bool:
    try:
        return isinstance(json.loads(said), dict | list)
    except (ValueError, RecursionError):
        return False

"""Verification of evidence: compares the current text of the turns with the quoted text."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from lance_context_core.codecs.records import alive
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.types import Evidence, Quote
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records import archive
from lance_context_core.stores.records.scoped import WITHOUT_BLOB, Records
from lance_context_core.types import ContextRecord

Place = tuple[str | None, ...]
"""Tenant, user, agent, session and id: the unique key of a turn."""


async def said(
    records: Records, made: Iterable[ContextRecord], *, include_expired: bool = False
) -> dict[Place, ContextRecord]:
    """Return the turns that prove these, archived ones too; expired ones only on request."""
    ids = {found.source_id for one in made for found in params.evidence(one)}
    if not ids:
        return {}
    which = [turns.MESSAGES, sql.in_list("id", sorted(ids))]
    if not include_expired:
        which.append(alive(records.now()))
    if (keys := await _kept(records, ids)) is not None:
        now = None if include_expired else records.now()
        kept = (await records.seen(keys)).values()
        found = [one for one in kept if now is None or not one.expires_at or one.expires_at > now]
    else:
        found = await records.read(records.own(*which), columns=WITHOUT_BLOB)
    if ids - {one.id for one in found}:
        found += await archive.read(records, *which, columns=WITHOUT_BLOB)
    return {place_of(one): one for one in found}


async def _kept(records: Records, ids: Collection[str]) -> list[str] | None:
    """Return the keys of these turns, if the records are in memory."""
    if records.looked is None:
        return None

    def is_asked(row: Mapping[str, Any]) -> bool:
        return row["id"] in ids

    rows = await records.remembered(turns.MESSAGES, columns=(KEY, "id"), such=is_asked)
    return [row[KEY] for row in rows]


def quotes(record: ContextRecord, there: dict[Place, ContextRecord]) -> tuple[Quote, ...]:
    """Return the evidence of a record with the current text of the turns."""
    found: Sequence[Quote] = [
        _quote(one, there.get((*_whose(record), one.session_id, one.source_id)))
        for one in params.evidence(record)
    ]
    return tuple(found)


def place_of(turn: ContextRecord) -> Place:
    """Return the unique key of a turn."""
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


# Checks of a model's sentences, and the names of their faults.

MOST_CHARACTERS = 600
"""Maximum length of a model's sentence."""

_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.!?]{0,40}\b(?:instruction|prompt|rule|message)s?\b"
    r"|\b(?:reveal|print|repeat|show|leak)\b[^.!?]{0,40}\bsystem prompt\b"
    r"|\byou (?:are now|must now|must always|must never)\b",
    re.IGNORECASE,
)


def fault_of(text: Any, *, most: int = MOST_CHARACTERS) -> str | None:
    """Return the fault: no text, empty, endless, JSON, a loop, an order; or None."""
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
    """Whether a sentence is an order to its reader, such as a model."""
    return _ORDERS.search(text) is not None


def _is_a_loop(said: str) -> bool:
    words = said.split()
    return len(words) >= 12 and len(set(words)) * 3 < len(words)


def _is_json(said: str) -> bool:
    try:
        return isinstance(json.loads(said), dict | list)
    except (ValueError, RecursionError):
        return False

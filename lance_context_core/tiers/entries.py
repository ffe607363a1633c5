"""Entries as records, and their stand-ins: rows of the one table, in a context of their own."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lance_context_core._resources import Accesses
from lance_context_core._util.retry import Attempts
from lance_context_core.codecs.records import TIERS
from lance_context_core.errors import ConflictError, InvalidRequestError
from lance_context_core.jobs import commits
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.database import PinnedDatabase
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.tiers.types import Authority, Tier, TierEntry
from lance_context_core.types import ContextRecord

CONTEXT = TIERS
ENTRY = "memory"
STAND_INS = {Tier.WARM: "summary", Tier.COLD: "fact"}
"""The kind of an entry's stand-in, by its tier."""

MOVED = "moved to another tier"
"""The reason why a stand-in is hidden."""

RESERVED = ("importance", "authority", "access_count", "last_accessed_at")
"""The reserved keys of the metadata; the tier is the layer."""

_WORDS = 75
"""The words of a stand-in without a summariser."""


def from_record(record: ContextRecord) -> TierEntry:
    """Returns the entry of a record."""
    data = record.metadata
    return TierEntry(
        id=record.id,
        text=record.text or "",
        tier=Tier(record.layer or Tier.HOT),
        importance=data["importance"],
        authority=authority_of(data.get("authority")),
        created_at=record.created_at,
        last_accessed_at=datetime.fromisoformat(data["last_accessed_at"]),
        access_count=data["access_count"],
        session_id=record.session_id,
        role=record.role,
        name=record.name,
        expires_at=record.expires_at,
        source_ids=record.source_ids,
        metadata={name: one for name, one in data.items() if name not in RESERVED},
        tenant=record.tenant,
        user_id=record.user_id,
        agent_id=record.agent_id,
    )


def authority_of(word: Any) -> Authority:
    """Returns a stored authority; a word unknown to this release counts as a session's."""
    return Authority(word) if word in set(Authority) else Authority.SESSION


def own_metadata(
    given: Mapping[str, Any], *, importance: float, authority: Authority, at: datetime
) -> dict[str, Any]:
    """Returns the metadata of a new entry. Raises InvalidRequestError for reserved keys."""
    if taken := sorted(set(given) & set(RESERVED)):
        raise InvalidRequestError(
            f"metadata has {taken[0]!r}, which the tiers keep themselves: give it another name"
        )
    return {
        **given,
        "importance": importance,
        "authority": str(authority),
        "access_count": 0,
        "last_accessed_at": at.isoformat(),
    }


def accessed(record: ContextRecord, times: int, at: datetime) -> ContextRecord:
    """Returns the record after so many more accesses, the last one at that moment."""
    data = record.metadata
    last = max(at, datetime.fromisoformat(data["last_accessed_at"]))
    counted = {"access_count": data["access_count"] + times, "last_accessed_at": last.isoformat()}
    return replace(record, metadata={**data, **counted})


def has_ended(record: ContextRecord, now: datetime) -> bool:
    """Whether it has expired."""
    return record.expires_at is not None and record.expires_at <= now


def is_same(before: ContextRecord, new: ContextRecord) -> bool:
    """Whether they have the same content and authority, in any tier."""
    mine, theirs = from_record(new), from_record(before)
    named = ("text", "importance", "authority", "session_id", "role", "name", "metadata")
    return all(getattr(mine, one) == getattr(theirs, one) for one in named)


def succeeding(before: ContextRecord, new: ContextRecord) -> ContextRecord:
    """Returns an entry's replacement: its accesses and its creation time stay."""
    counted = {name: before.metadata[name] for name in ("access_count", "last_accessed_at")}
    return replace(
        new, created_at=before.created_at, metadata={**new.metadata, **counted}, embedding=None
    )


def stand_in_id(entry: ContextRecord, tier: Tier) -> str:
    """Returns the id of an entry's stand-in in a tier: derived from only these two."""
    about = hashlib.sha256(entry.id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{STAND_INS[tier]}-{about}"


def stand_in(
    entry: ContextRecord, tier: Tier, text: str, now: datetime, more: Mapping[str, Any]
) -> ContextRecord:
    """Returns an entry's stand-in: it expires with the entry, and is erased with it."""
    data = {name: one for name, one in entry.metadata.items() if name not in RESERVED}
    return ContextRecord(
        id=stand_in_id(entry, tier),
        kind=STAND_INS[tier],
        layer=str(tier),
        context=CONTEXT,
        content_type="text/plain",
        created_at=entry.created_at,
        updated_at=now,
        session_id=entry.session_id,
        source_ids=(entry.id,),
        role=entry.role,
        name=entry.name,
        text=text,
        metadata={**data, **more},
        expires_at=entry.expires_at,
        tenant=entry.tenant,
        user_id=entry.user_id,
        agent_id=entry.agent_id,
    )


def shortened(text: str) -> str:
    """Returns a text's stand-in without a summariser: its beginning, up to 75 words."""
    words = text.split()
    return text if len(words) <= _WORDS else " ".join(words[:_WORDS]) + "..."


# Accesses that are counted and not written yet: they are written together.


def can_count(records: Records) -> bool:
    """Whether accesses may be counted: not in read-only stores."""
    database = records.resources.database
    return not (isinstance(database, PinnedDatabase) or database.root.connection.is_read_only)


async def flush_if_due(records: Records, interval: timedelta) -> None:
    """Writes them, if the last time was so long ago; on a conflict, later."""
    if can_count(records) and records.resources.accesses.is_due(records.now(), interval):
        try:
            await flush(records)
        except ConflictError:
            return  # They are still counted, and due.


async def flush(records: Records) -> int:
    """Writes all accesses of the process in one commit; returns of how many entries.

    Each is added to the current count, so that those of several processes add up.
    """
    pending = records.resources.accesses
    taken = pending.take()
    if not taken:
        return 0
    try:
        return await _written(replace(records, scope=Scope()), taken)
    except BaseException:
        pending.put_back(taken)
        raise


async def _written(records: Records, taken: Mapping[str, Accesses.Counted]) -> int:
    attempts = Attempts("the entries kept being changed by others")
    while True:
        attempts.begin()
        found = await commits.held(records, sql.in_list(KEY, sorted(taken)))
        changed = [(one, accessed(one.record, *_counted(taken[one.row[KEY]]))) for one in found]
        if await commits.write(records, [], changed):
            return len(changed)


def _counted(one: Accesses.Counted) -> tuple[int, datetime]:
    return one.times, one.last

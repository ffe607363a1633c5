"""The values of slots, put in order: of each slot one is current, whatever was merged or is gone."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from lance_context_core._util.retry import Attempts
from lance_context_core.filters import RECORD_FIELDS
from lance_context_core.jobs import commits
from lance_context_core.jobs.commits import Held
from lance_context_core.knowledge import params, turns
from lance_context_core.knowledge.consolidation import CONTRADICTED, Known
from lance_context_core.knowledge.types import Evidence
from lance_context_core.scope import Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.stores.records.scoped import Records
from lance_context_core.types import ContextRecord

# What of a record a job may change: noted before and after, so that it can be put back.

State = Mapping[str, Any]

_FIELDS = ("lifecycle_status", "superseded_by_id", "retired_reason")


def state_of(record: ContextRecord) -> dict[str, Any]:
    """What a job may change of it, as JSON."""
    return {
        **{name: getattr(record, name) for name in _FIELDS},
        "retired_at": record.retired_at and record.retired_at.isoformat(),
        "valid_to": params.about(record).get("valid_to"),
        "conflicts": list(record.metadata.get("conflicts", ())),
        "evidence": [asdict(one) for one in params.evidence(record)],
    }


def change_of(before: Held, after: ContextRecord) -> dict[str, Any]:
    """A change, as it is noted in the result of a job."""
    return {
        "key": before.row[KEY],
        "id": after.id,
        "before": state_of(before.record),
        "after": state_of(after),
    }


def put_back(record: ContextRecord, change: Mapping[str, Any]) -> ContextRecord | None:
    """The record as it was before a change; None if somebody has changed it otherwise since.

    Evidence that was found since stays.
    """
    now, before, after = state_of(record), change["before"], change["after"]
    if any(now[name] != after[name] for name in now if name != "evidence"):
        return None
    newer = [one for one in now["evidence"] if one not in after["evidence"]]
    return with_state(record, {**before, "evidence": [*before["evidence"], *newer]})


def with_state(record: ContextRecord, state: State) -> ContextRecord:
    """The record in this state."""
    retired_at = state["retired_at"] and datetime.fromisoformat(state["retired_at"])
    changed = replace(
        record, **{name: state[name] for name in _FIELDS}, retired_at=retired_at or None
    )
    if params.about(record):
        changed = params.with_fact(changed, valid_to=state["valid_to"])
    if state["conflicts"] or "conflicts" in record.metadata:
        metadata = {**changed.metadata, "conflicts": list(state["conflicts"])}
        changed = replace(changed, metadata=metadata)
    if state["evidence"] or params.evidence(record):
        changed = params.with_evidence(changed, [Evidence(**one) for one in state["evidence"]])
    return changed


def retired(record: ContextRecord, reason: str, now: datetime) -> ContextRecord:
    """The record once no read shows it any more."""
    return replace(record, retired_at=now, retired_reason=reason)


Slot = tuple[Scope, str, str]
"""Whose it is, of which subject, and its name."""


def slots_of(facts: Iterable[ContextRecord]) -> set[Slot]:
    """The slots of which these are values."""
    return {
        (turns.owner_of(one), params.about(one)["subject"], params.about(one)["slot"])
        for one in facts
        if one.kind == params.FACT and params.about(one)["slot"] is not None
    }


async def put_in_order(made: Records, slots: Iterable[Slot]) -> None:
    """Let one value of each of these slots be current, in one commit; none if they are in order."""
    attempts = Attempts("the values of the same slots kept being changed by others")
    slots = sorted(slots, key=str)
    while True:
        attempts.begin()
        changed = [
            change for slot in slots for change in in_order(await _values(made, slot), made.now)
        ]
        if await commits.write(made, [], changed):
            return


def in_order(held: Sequence[Held], now: Callable[[], datetime]) -> list[tuple[Held, ContextRecord]]:
    """What is to be changed of the values of one slot.

    What is superseded by something that is gone counts as current again. Of several that are, the
    same is one, with the evidence of all; else the later ones take the place of the earlier ones, as
    if they had been read one after the other.
    """
    live = {one.record.id: one for one in held if one.record.retired_at is None}
    known = Known.of(live.values())
    for id, one in live.items():
        by = one.record.superseded_by_id
        if by is not None and by not in live and not params.is_protected(one.record):
            known.facts[id] = params.revived(one.record)
    for same in known.settle():
        known.facts[same.id] = retired(same, params.MERGED, now())
    return known.changes()[1]


def without(facts: Mapping[str, ContextRecord], gone: Collection[str]) -> dict[str, ContextRecord]:
    """What becomes of facts, by key, once those of the ids `gone` are as if they had never been.

    What a gone one had superseded is current, or superseded by what had superseded that one; what
    contradicted nothing else is no conflict any more. Only those that change are returned.
    """
    by_id = {one.id: one for one in facts.values()}
    changed: dict[str, ContextRecord] = {}
    for key, one in facts.items():
        if one.id in gone:
            continue
        by = one.superseded_by_id
        while by is not None and by in gone:
            by = by_id[by].superseded_by_id
        if by != one.superseded_by_id:
            changed[key] = (
                params.revived(one)
                if by is None
                else params.superseded(one, by, params.about(by_id[by])["valid_from"])
            )
        conflicts = one.metadata.get("conflicts", ())
        left = [id for id in conflicts if id not in gone]
        if len(left) < len(conflicts):
            new = changed.get(key, one)
            is_settled = not left and new.lifecycle_status == CONTRADICTED
            changed[key] = replace(
                new,
                metadata={**new.metadata, "conflicts": left},
                lifecycle_status="active" if is_settled else new.lifecycle_status,
            )
    return changed


async def _values(made: Records, slot: Slot) -> list[Held]:
    owner, subject, name = slot
    of_slot = sql.filtered({"fact.subject": subject, "fact.slot": name}, columns=RECORD_FIELDS)
    fact = sql.equals("kind", params.FACT)
    return await commits.held(made, fact, turns.owned_by(owner), of_slot)

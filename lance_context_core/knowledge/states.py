"""What of a record a job may change: noted before and after, so that it can be put back."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from lance_context_core.jobs.commits import Held
from lance_context_core.knowledge import kept
from lance_context_core.knowledge.values import Evidence
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.types import ContextRecord

State = Mapping[str, Any]

_FIELDS = ("lifecycle_status", "superseded_by_id", "retired_reason")


def state_of(record: ContextRecord) -> dict[str, Any]:
    """What a job may change of it, as JSON."""
    return {
        **{name: getattr(record, name) for name in _FIELDS},
        "retired_at": record.retired_at and record.retired_at.isoformat(),
        "valid_to": kept.about(record).get("valid_to"),
        "conflicts": list(record.metadata.get("conflicts", ())),
        "evidence": [asdict(one) for one in kept.evidence(record)],
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
    if kept.about(record):
        changed = kept.with_fact(changed, valid_to=state["valid_to"])
    if state["conflicts"] or "conflicts" in record.metadata:
        metadata = {**changed.metadata, "conflicts": list(state["conflicts"])}
        changed = replace(changed, metadata=metadata)
    if state["evidence"] or kept.evidence(record):
        changed = kept.with_evidence(changed, [Evidence(**one) for one in state["evidence"]])
    return changed


def retired(record: ContextRecord, reason: str, now: datetime) -> ContextRecord:
    """The record once no read shows it any more."""
    return replace(record, retired_at=now, retired_reason=reason)

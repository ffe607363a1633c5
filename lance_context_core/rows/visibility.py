"""What reads show of the records: nothing that has expired, and nothing that is retired.

Retired is what says so by its status or its time, and what another record supersedes.
"""

from datetime import datetime

from lance_context_core.engine import sql
from lance_context_core.records import ContextRecord

VISIBLE_STATUSES = ("active", "contradicted")
"""The life-cycle words of what reads show by default; every other word hides a record."""

SUPERSEDED = "superseded"
"""The life-cycle word of what stays superseded though nothing names what superseded it."""


def conditions(
    now: datetime, *, include_expired: bool = False, include_retired: bool = False
) -> list[str]:
    """What must hold of a row that is shown at that time."""
    moment = sql.timestamp(now)
    shown = [] if include_expired else [f"(expires_at IS NULL OR expires_at > {moment})"]
    if not include_retired:
        shown.append(sql.in_list("lifecycle_status", VISIBLE_STATUSES))
        shown.append(f"(retired_at IS NULL OR retired_at > {moment})")
        shown.append("superseded_by_id IS NULL")
    return shown


def is_visible(record: ContextRecord, now: datetime) -> bool:
    """What `conditions` ask of a row, asked of a record."""
    return (
        (record.expires_at is None or record.expires_at > now)
        and (record.retired_at is None or record.retired_at > now)
        and record.superseded_by_id is None
        and record.lifecycle_status in VISIBLE_STATUSES
    )

"""What reads show of the records: nothing that has expired, and nothing that is retired.

Retired is what says so by its status or its time, and what another record supersedes.
"""

from datetime import datetime

from lance_context_core.storage import sql
from lance_context_core.types import ContextRecord

VISIBLE_STATUSES = ("active", "contradicted")
"""The life-cycle words of what reads show by default; every other word hides a record."""

SUPERSEDED = "superseded"
"""The life-cycle word of what stays superseded though nothing names what superseded it."""


_HAS_VISIBLE_STATUS = sql.in_list("lifecycle_status", VISIBLE_STATUSES)
_IS_NOT_SUPERSEDED = sql.is_absent("superseded_by_id")


def conditions(
    now: datetime, *, include_expired: bool = False, include_retired: bool = False
) -> list[sql.Clause]:
    """What must hold of a row that is shown at that time."""
    later = moments(now, include_expired=include_expired, include_retired=include_retired)
    shown = standing(include_retired=include_retired)
    return [*shown, *(sql.absent_or_after(column, moment) for column, moment in later)]


def standing(*, include_retired: bool = False) -> list[sql.Clause]:
    """What of `conditions` holds at any time."""
    return [] if include_retired else [_HAS_VISIBLE_STATUS, _IS_NOT_SUPERSEDED]


def moments(
    now: datetime, *, include_expired: bool = False, include_retired: bool = False
) -> list[tuple[str, datetime]]:
    """The rest of them: what has to be null, or later than a moment, by column."""
    later = [] if include_expired else [("expires_at", now)]
    return later if include_retired else [*later, ("retired_at", now)]


def alive(now: datetime) -> sql.Clause:
    """That a row, of whatever table, has not expired."""
    return sql.absent_or_after("expires_at", now)


def is_visible(record: ContextRecord, now: datetime) -> bool:
    """What `conditions` ask of a row, asked of a record."""
    return (
        (record.expires_at is None or record.expires_at > now)
        and (record.retired_at is None or record.retired_at > now)
        and record.superseded_by_id is None
        and record.lifecycle_status in VISIBLE_STATUSES
    )

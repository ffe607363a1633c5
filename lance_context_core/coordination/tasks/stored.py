"""Tasks and their changes as the JSON of items, and back."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from lance_context_core.coordination.tasks.values import Priority, Task, TaskEvent, TaskStatus

_TIMES = ("created_at", "updated_at", "started_at", "ended_at", "until", "at")
_STATUSES = ("status", "before", "after")


def written(value: Task | TaskEvent) -> dict[str, Any]:
    """As JSON by key."""
    row = {one.name: getattr(value, one.name) for one in fields(value)}
    for name, one in row.items():
        if one is not None and name in _TIMES:
            row[name] = one.isoformat()
        elif one is not None and name in _STATUSES:
            row[name] = str(one)
    if isinstance(value, Task):
        row |= {"depends_on": list(value.depends_on), "priority": int(value.priority)}
    return row


def task_of(row: Mapping[str, Any]) -> Task:
    """The task that was written."""
    given = _read(row)
    given |= {"depends_on": tuple(row["depends_on"]), "priority": Priority(row["priority"])}
    return Task(**given)


def event_of(row: Mapping[str, Any]) -> TaskEvent:
    """The change that was written."""
    return TaskEvent(**_read(row))


def _read(row: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(row)
    for name, value in row.items():
        if value is not None and name in _TIMES:
            given[name] = datetime.fromisoformat(value)
        elif value is not None and name in _STATUSES:
            given[name] = TaskStatus(value)
    return given

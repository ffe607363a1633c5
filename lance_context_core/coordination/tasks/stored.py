"""Tasks and their changes as the JSON of items, and back."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from lance_context_core.coordination.tasks.values import Priority, Task, TaskEvent, TaskStatus

_TIMES = ("created_at", "updated_at", "started_at", "ended_at", "until", "at")
_STATUSES = ("status", "before", "after")
_EVENTS = "events"
_STATUS = {str(one): one for one in TaskStatus}
_PRIORITY = {int(one): one for one in Priority}
_NAMES = {kind: tuple(one.name for one in fields(kind)) for kind in (Task, TaskEvent)}
"""What each is written as. Each change of a board writes some: nothing here looks that up anew."""


def written(value: Task | TaskEvent) -> dict[str, Any]:
    """As JSON by key."""
    row = {name: getattr(value, name) for name in _NAMES[type(value)]}
    for name in _TIMES:
        if (time := row.get(name)) is not None:
            row[name] = time.isoformat()
    for name in _STATUSES:
        if (status := row.get(name)) is not None:
            row[name] = status.value
    if isinstance(value, Task):
        row["depends_on"] = list(value.depends_on)
        row["priority"] = int(value.priority)
    return row


def task_of(row: Mapping[str, Any]) -> Task:
    """The task that was written."""
    given = _read(row)
    given["depends_on"] = tuple(row["depends_on"])
    given["priority"] = _PRIORITY[row["priority"]]
    return Task(**given)


def written_events(events: Iterable[TaskEvent]) -> dict[str, Any]:
    """What one change of a board did, as JSON by key."""
    return {_EVENTS: [written(one) for one in events]}


def events_of(row: Mapping[str, Any]) -> list[TaskEvent]:
    """What that change did, in this order; also as earlier releases wrote it, an event a row."""
    return [TaskEvent(**_read(one)) for one in row.get(_EVENTS, (row,))]


def _read(row: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(row)
    for name in _TIMES:
        if (time := given.get(name)) is not None:
            given[name] = datetime.fromisoformat(time)
    for name in _STATUSES:
        if (status := given.get(name)) is not None:
            given[name] = _STATUS[status]
    return given

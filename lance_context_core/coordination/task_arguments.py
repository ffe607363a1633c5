"""Checks of the arguments of a board of tasks."""

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from lance_context_core._util.checks import (
    check_count,
    check_json_object,
    check_name,
    check_names,
    check_text,
    check_time,
    check_word,
    listed,
    shown,
)
from lance_context_core.coordination.task_types import Priority, Task, TaskStatus
from lance_context_core.errors import InvalidRequestError

_SHORTEST, _LONGEST = timedelta(milliseconds=100), timedelta(days=30)

_FIELDS = ("title", "id", "priority", "parent_id", "depends_on", "note", "payload", "due")


def checked_tasks(tasks: Iterable[str | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the fields of tasks, each a title or a mapping; ids are unique."""
    given = []
    for number, task in enumerate(listed(tasks, "tasks")):
        one = task if isinstance(task, Mapping) else {"title": task}
        if unknown := one.keys() - set(_FIELDS):
            raise InvalidRequestError(
                f"tasks[{number}] has the unknown key {shown(min(map(str, unknown)))}: "
                f"use one of {', '.join(_FIELDS)}"
            )
        given.append(checked_task(**{"title": None, **one}, where=f"tasks[{number}]."))
    for id, n_times in Counter(one["id"] for one in given).items():
        if n_times > 1:
            raise InvalidRequestError(f"tasks has the id {shown(id)} twice: choose another id")
    return given


def checked_task(
    title: object,
    *,
    id: object = None,
    priority: object = Priority.NORMAL,
    parent_id: object = None,
    depends_on: object = (),
    note: object = "",
    payload: object = None,
    due: object = None,
    where: str = "",
) -> dict[str, Any]:
    """Return the fields of one task, with an id."""
    title = check_text(title, f"{where}title").strip()
    if not title:
        raise InvalidRequestError(f"{where}title is blank: say what is to be done")
    return {
        "id": secrets.token_hex(8) if id is None else check_name(id, f"{where}id"),
        "title": title,
        "priority": _priority(priority, f"{where}priority"),
        "parent_id": name_or_none(parent_id, f"{where}parent_id"),
        "depends_on": tuple(dict.fromkeys(check_names(depends_on, f"{where}depends_on"))),
        "note": check_text(note, f"{where}note"),
        "payload": object_or_none(payload, f"{where}payload"),
        "due": None if due is None else check_time(due, f"{where}due"),
    }


def object_or_none(value: object, where: str) -> dict[str, Any] | None:
    """Return a JSON object, or None."""
    return None if value is None else check_json_object(value, where)


def name_or_none(name: object, where: str) -> str | None:
    """Return a name, or None."""
    return None if name is None else check_name(name, where)


def _priority(priority: object, where: str) -> Priority:
    """Return the priority of a number or a name."""
    if isinstance(priority, str) and priority.upper() in Priority.__members__:
        return Priority[priority.upper()]
    if isinstance(priority, int) and not isinstance(priority, bool) and priority in list(Priority):
        return Priority(priority)
    raise InvalidRequestError(
        f"{where}={priority!r}: use one of {', '.join(one.name.lower() for one in Priority)}"
    )


def claimed(tasks: Sequence[Task], where: str) -> Sequence[Task]:
    """Return a caller's tasks, each of which was claimed."""
    if not isinstance(tasks, Sequence) or not all(isinstance(one, Task) for one in tasks):
        raise InvalidRequestError(
            f"{where}={shown(tasks)}: give a list of the tasks that claim() or claim_many() returned"
        )
    if free := [one.id for one in tasks if one.status is not TaskStatus.IN_PROGRESS]:
        raise InvalidRequestError(f"{where} has {free}, which are not claimed: claim them first")
    if len({one.id for one in tasks}) < len(tasks):
        raise InvalidRequestError(f"{where} has a task twice: give each once")
    return tasks


def status_of(status: str) -> TaskStatus:
    """Return a status by name."""
    return check_word(status, TaskStatus, "status")


def attempt_of(attempt: int | None) -> int | None:
    """Return the number of an attempt, or None."""
    return None if attempt is None else check_count(attempt, "attempt")


def lease_of(lease: timedelta) -> timedelta:
    """Return the lease of a claim."""
    return duration(lease, "lease", least=_SHORTEST)


def duration(value: timedelta, where: str, *, least: timedelta = timedelta()) -> timedelta:
    """Return a span of time of at most 30 days."""
    if not isinstance(value, timedelta) or not least <= value <= _LONGEST:
        raise InvalidRequestError(
            f"{where}={shown(value)}: give a timedelta of {least.total_seconds():g} seconds to "
            f"{_LONGEST.days} days"
        )
    return value

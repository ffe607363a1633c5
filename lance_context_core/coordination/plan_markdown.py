"""Plans as Markdown files, with their tasks as a checklist."""

import json
from collections.abc import Iterable, Iterator

from lance_context_core.coordination.plan_types import AgentPlan
from lance_context_core.coordination.task_types import Task, TaskStatus

_BOXES = {TaskStatus.COMPLETED: "x", TaskStatus.SKIPPED: "-"}
_HEAD = ("id", "title", "status", "version", "parent_id", "branch", "session_id")


def markdown(plan: AgentPlan, tasks: Iterable[Task]) -> str:
    """Return its fields as front matter, its text, and its tasks as a checklist."""
    head = [
        f"{name}: {json.dumps(getattr(plan, name), ensure_ascii=False)}"
        for name in _HEAD
        if getattr(plan, name) is not None
    ]
    parts = ["---", *head, "---", "", plan.text.rstrip("\n")]
    if boxes := list(_boxes(list(tasks), None, 0)):
        parts += ["", "## Tasks", "", *boxes]
    return "\n".join(parts) + "\n"


def _boxes(tasks: list[Task], parent_id: str | None, depth: int) -> Iterator[str]:
    for one in tasks:
        if one.parent_id == parent_id:
            yield f"{'  ' * depth}- [{_BOXES.get(one.status, ' ')}] {one.title}"
            yield from _boxes(tasks, one.id, depth + 1)

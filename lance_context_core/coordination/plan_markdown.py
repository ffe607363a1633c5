"""Plans as Markdown files, with their tasks as a checklist."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.coordination.plan_types import AgentPlan
from lance_context_core.coordination.task_graph import Graph
from lance_context_core.coordination.task_types import DONE, Task, TaskStatus
from lance_context_core.errors import InvalidRequestError

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
            yield f"{'  ' * depth}- [{_BOXES.get(one.status, ' ')}] {_line(one.title)}"
            yield from _boxes(tasks, one.id, depth + 1)


def _line(title: str) -> str:
    return " ".join(title.split())


# Reading

_TASKS = re.compile(
    r"(?:^|\n)#{1,6}[ \t]+Tasks[ \t]*\n((?:[ \t]*(?:[-*+] \[[ xX-]\][ \t].*)?(?:\n|$))*)$"
)
"""The last heading, if there is nothing below it but boxes."""
_BOX = re.compile(r"([ \t]*)[-*+] \[([ xX-])\][ \t]+(\S.*?)[ \t]*$")
_STATUS = {"x": TaskStatus.COMPLETED, "-": TaskStatus.SKIPPED}


class Box(NamedTuple):
    """A line of a checklist."""

    path: tuple[tuple[str, int], ...]
    """The titles of the tasks around it, and its own, each with a number if there are several."""
    status: TaskStatus | None
    """That the line says; None for an empty box, which says nothing."""


@frozen_by_name
class ParsedPlan:
    """A plan as its file says it."""

    head: Mapping[str, Any]
    """The fields of the front matter that are known; empty without one."""
    text: str
    boxes: Sequence[Box]


def parsed(text: str) -> ParsedPlan:
    """Return the parts of what `markdown` wrote, or of a file that a person did.

    Raises InvalidRequestError for a field of the front matter that is no JSON.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    head: dict[str, Any] = {}
    if text.startswith("---\n") and (end := text.find("\n---\n", 3)) >= 0:
        head = dict(_field(line) for line in text[4:end].split("\n") if line.strip())
        text = text[end + len("\n---\n") :]
    boxes: list[Box] = []
    if found := _TASKS.search(text):
        boxes = list(_checklist(found[1].split("\n")))
        text = text[: found.start()]
    return ParsedPlan(head=head, text=text.strip("\n"), boxes=boxes)


def _field(line: str) -> tuple[str, Any]:
    name, _, value = line.partition(":")
    if name not in _HEAD:
        return name, value.strip()
    try:
        return name, json.loads(value)
    except ValueError:
        if re.fullmatch(r"\s*[^\s\"'\[\]{}].*", value):
            return name, value.strip()  # as a person writes a text
        raise InvalidRequestError(
            f'the front matter has {line!r}: give {name} as JSON, such as {name}: "…"'
        ) from None


def _checklist(lines: Iterable[str]) -> Iterator[Box]:
    above: list[tuple[int, tuple[tuple[str, int], ...]]] = []
    seen = Counter[tuple[Any, ...]]()
    for line in lines:
        if not (found := _BOX.match(line)):
            continue
        indent, mark, title = len(found[1].expandtabs(4)), found[2].lower(), _line(found[3])
        while above and above[-1][0] >= indent:
            above.pop()
        around = above[-1][1] if above else ()
        seen[around, title] += 1
        path = (*around, (title, seen[around, title]))
        above.append((indent, path))
        yield Box(path=path, status=_STATUS.get(mark))


def task_paths(tasks: Iterable[Task]) -> dict[tuple[tuple[str, int], ...], str]:
    """Return the ids of tasks by their path: see `Box`."""
    found: dict[tuple[tuple[str, int], ...], str] = {}
    listed = list(tasks)

    def walk(parent_id: str | None, around: tuple[tuple[str, int], ...]) -> None:
        seen = Counter[str]()
        for one in listed:
            if one.parent_id == parent_id:
                seen[title := _line(one.title)] += 1
                path = (*around, (title, seen[title]))
                found[path] = one.id
                walk(one.id, path)

    walk(None, ())
    return found


def new_tasks(
    boxes: Iterable[Box], known: Mapping[tuple[tuple[str, int], ...], str], plan_id: str
) -> dict[tuple[tuple[str, int], ...], dict[str, Any]]:
    """Return the arguments of the tasks that a checklist has and a board has not, by path.

    Their ids follow from the plan and the path, so that a call may be repeated.
    """
    made: dict[tuple[tuple[str, int], ...], dict[str, Any]] = {}
    for one in boxes:
        if one.path not in known:
            around = one.path[:-1]
            parent = known.get(around) or (made[around]["id"] if around else None)
            id = sha256(json.dumps([plan_id, one.path]).encode()).hexdigest()[:16]
            made[one.path] = {"id": id, "title": one.path[-1][0], "parent_id": parent}
    return made


def tick(
    graph: Graph, ids: Mapping[tuple[tuple[str, int], ...], str], boxes: Sequence[Box]
) -> None:
    """Complete and skip the tasks whose boxes say so; those within others first."""
    for one in sorted(boxes, key=lambda one: -len(one.path)):
        task = graph.get(ids[one.path])
        if one.status is not None and task.status not in DONE:
            graph.end(task.id, one.status, note="as the plan's file says")

"""The tasks of a board in the journal's index, as they are in one transaction."""

import json
from collections.abc import Sequence

from lance_context_core.coordination.tasks import stored
from lance_context_core.coordination.tasks.kept import is_open
from lance_context_core.coordination.tasks.values import DONE, Task, TaskStatus
from lance_context_core.storage.task_boards import Changing
from lance_context_core.storage.task_index import Holder

_OPEN = [str(one) for one in TaskStatus if one not in DONE]


class Indexed:
    """What is looked at is read, and no more; satisfies `Tasks`."""

    def __init__(self, changing: Changing, namespace: tuple[str, ...]) -> None:
        """Those of the board that is being changed, which are kept in that namespace."""
        self._changing = changing
        self._namespace = namespace
        self._found: dict[str, Task | None] = {}
        self._parts: dict[str, list[str]] = {}

    def find(self, id: str) -> Task | None:
        """As `Tasks.find`."""
        if id not in self._found:
            text = self._changing.find(id)
            self._found[id] = None if text is None else stored.task_of(json.loads(text))
        return self._found[id]

    def parts(self, id: str) -> list[Task]:
        """As `Tasks.parts`."""
        if id not in self._parts:
            self._parts[id] = self._changing.parts(id)
        return self._all(self._parts[id])

    def dependents(self, id: str) -> list[Task]:
        """As `Tasks.dependents`."""
        return self._all(self._changing.dependents(id))

    def open(self, ids: Sequence[str]) -> list[str]:
        """As `Tasks.open`."""
        unseen = [id for id in ids if id not in self._found]
        found = self._changing.index.with_status(unseen, _OPEN) if unseen else ()
        return [id for id in ids if id in found or is_open(self._found.get(id))]

    def holders(self) -> list[Holder]:
        """As `Tasks.holders`."""
        return self._changing.index.holders()

    def next(self, limit: int) -> list[Task]:
        """As `Tasks.next`."""
        found = self._changing.next(limit)
        self._parts |= {id: [] for id in found}
        return self._all(found)

    def put(self, task: Task) -> None:
        """As `Tasks.put`."""
        before = self.find(task.id)
        self._found[task.id] = task
        if before is None:
            self._parts.clear()
        needs = before is None or before.depends_on != task.depends_on
        self._changing.put(stored.written(task), needs=needs)

    def remove(self, task: Task) -> None:
        """As `Tasks.remove`."""
        self._found[task.id] = None
        self._parts.clear()
        self._changing.remove(self._namespace, stored.written(task))

    def _all(self, ids: list[str]) -> list[Task]:
        return [task for id in ids if (task := self.find(id)) is not None]

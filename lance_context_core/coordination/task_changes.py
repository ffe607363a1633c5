"""Changes of a board, each in one commit.

In the journal a change is one transaction, which looks up the tasks that it needs. Elsewhere all
tasks are read, and written if the board is unchanged.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from lance_context_core._loop import WouldBlock
from lance_context_core._resources import Resources
from lance_context_core._util.frozen import frozen
from lance_context_core._util.lru import remembered
from lance_context_core.codecs import items as itemrows
from lance_context_core.coordination import task_types
from lance_context_core.coordination.changes import Written, changed
from lance_context_core.coordination.task_graph import Graph
from lance_context_core.coordination.task_types import (
    DONE,
    Listed,
    Task,
    TaskStats,
    TaskStatus,
    is_open,
)
from lance_context_core.errors import ContextStoreError
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY, KEY_VALUES
from lance_context_core.storage.leases import Lease
from lance_context_core.storage.names import kv_table_of
from lance_context_core.storage.table import Table
from lance_context_core.storage.task_boards import Changer, Changing
from lance_context_core.storage.wal.entries import Alike
from lance_context_core.storage.wal.transactions import NotKnownError
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item

_LOOKED_AT = timedelta(seconds=1)
"""How far a claim looks ahead for tasks that become due."""

_LOOKED_AT_WHILE_HELD = timedelta(milliseconds=250)
"""How soon the end of a worker, which writes nothing, is noticed."""

# The tasks of a board in the journal's index, within one transaction.

_OPEN = [str(one) for one in TaskStatus if one not in DONE]


class Indexed:
    """Reads only the tasks that are accessed; satisfies `Tasks`."""

    def __init__(self, changing: Changing, namespace: tuple[str, ...]) -> None:
        """Create it for the board in that namespace."""
        self._changing = changing
        self._namespace = namespace
        self._found: dict[str, Task | None] = {}
        self._parts: dict[str, list[str]] = {}

    def find(self, id: str) -> Task | None:
        """As `Tasks.find`."""
        if id not in self._found:
            text = self._changing.find(id)
            self._found[id] = None if text is None else task_types.task_of(json.loads(text))
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

    def holders(self) -> list[tuple[str, Lease]]:
        """As `Tasks.holders`."""
        return self._changing.index.holders()

    def due(self, now: datetime) -> list[str]:
        """As `Tasks.due`."""
        return self._changing.index.due(now.timestamp())

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
        self._changing.put(task_types.written(task), needs=needs)

    def remove(self, task: Task) -> None:
        """As `Tasks.remove`."""
        self._found[task.id] = None
        self._parts.clear()
        self._changing.remove(self._namespace, task_types.written(task))

    def _all(self, ids: list[str]) -> list[Task]:
        return [task for id in ids if (task := self.find(id)) is not None]


T = TypeVar("T")

Change = Callable[[Graph, int], T]
"""Changes the tasks and returns a result; gets the order for a new task."""

NAME = "lance_context.tasks"
"""The name of the key-value store of tasks."""

_KEPT = sql.not_true(sql.ends_with("namespace", "\0history\0"))
"""The tasks, and the entries of boards themselves."""

_NONE = {"order": 0, "events": 0}


@frozen
class Changes:
    """The changes of one board."""

    board: str
    resources: Resources
    scope: Scope

    async def make(
        self, change: Change[T], *, give_back: Callable[[T], Awaitable[None]] | None = None
    ) -> T:
        """Apply `change` to the current board, and write the changed tasks, in one commit.

        `give_back` gets the result if the caller was cancelled before it returned.
        """
        changer = self._changer(change)
        try:
            return await changer.change(which=_KEPT, board_of=_board_of, is_settled=_is_settled)
        except NotKnownError:
            pass
        if give_back is None:
            return await self._in_items(change)
        # The journal waits for nothing after the commit: nothing can be cancelled there.
        making = asyncio.ensure_future(self._in_items(change))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.shield(_given_back(making, give_back))
            raise

    def make_now(self, change: Change[T]) -> T | WouldBlock:
        """As `make`, in any thread; WOULD_BLOCK if it takes long, or has more to do."""
        return self._changer(change).change_now()

    @property
    def table(self) -> Table:
        """The table of the tasks, to be written."""
        return self.resources.writable().table(kv_table_of(NAME), KEY_VALUES)

    @property
    def key(self) -> str:
        """The name of the board among those of all scopes."""
        return _own_key(self.scope, self.board)

    @property
    def items(self) -> AsyncKeyValues:
        """The items of the board."""
        return AsyncKeyValues(NAME, self.resources, self.scope)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The namespace of the tasks."""
        return self.board, "tasks"

    @property
    def history(self) -> tuple[str, ...]:
        """The namespace of their history."""
        return self.board, "history"

    # Helpers

    def _changer(self, change: Change[T]) -> Changer[T]:
        now = self.resources.clock.now()
        return Changer(
            self.table,
            self.key,
            now,
            _Rows(self.scope, self.resources.author),
            lambda changing: self._in_index(changing, change),
        )

    def _in_index(self, changing: Changing, change: Change[T]) -> T:
        index = changing.index
        graph = Graph(Indexed(changing, self.tasks), changing.now)
        if not index.is_settled:
            graph.settle_all(index.ids())
        head = index.head
        numbers = dict(_NONE if head is None else json.loads(head.value))
        outcome = change(graph, numbers["order"])
        if not graph.before:
            return outcome
        changing.keep(self.tasks, [one.id for one in graph.changed()])
        for done in self._done(graph, numbers):
            changing.append(done.namespace, done.key, done.value or {})
        changing.put_head((self.board,), _after(graph, numbers))
        return outcome

    async def _in_items(self, change: Change[T]) -> T:
        async def decide(value: Mapping[str, Any] | None) -> tuple[Written, T]:
            numbers = dict(_NONE if value is None else value)
            # Each change writes the board's head: tasks read after it are at least as new.
            tasks = await self.listed()
            graph = Graph(tasks, self.resources.clock.now())
            graph.settle_all([*tasks.by_id])
            outcome = change(graph, numbers["order"])
            changed, gone = graph.changed(), graph.gone()
            if not changed and not gone:
                return Written(), outcome
            puts = [
                Item(namespace=(self.board,), key="head", value=_after(graph, numbers)),
                *(
                    Item(namespace=self.tasks, key=one.id, value=task_types.written(one))
                    for one in changed
                ),
                *self._done(graph, numbers),
            ]
            return Written(puts=puts, deletes=[(self.tasks, one.id) for one in gone]), outcome

        head = ((self.board,), "head")
        return await changed(self.items, head, decide, what=f"board {self.board!r}")

    async def listed(self) -> Listed:
        """Return all current tasks."""
        rows = await self.items.list(namespace=self.tasks)
        return Listed(task_types.task_of(one.value or {}) for one in rows)

    def _done(self, graph: Graph, numbers: Mapping[str, int]) -> list[Item]:
        if not graph.events:
            return []
        # Another branch of the store uses this number for another change.
        key = f"{numbers['events']:012d}-{secrets.token_hex(3)}"
        value = task_types.written_events(graph.events)
        return [Item(namespace=self.history, key=key, value=value)]


@frozen
class _Rows:
    """The rows of a scope with one author; satisfies `Rows`."""

    scope: Scope
    author: str | None

    def key(self, namespace: tuple[str, ...], key: str) -> str:
        """As `Rows.key`."""
        return itemrows.row_key(self.scope, (namespace, key))

    def alike(self, namespace: tuple[str, ...]) -> Alike:
        """As `Rows.alike`."""
        return _alike(self.scope, self.author, namespace)


@remembered(256 * 1024)
def _alike(scope: Scope, author: str | None, namespace: tuple[str, ...]) -> Alike:
    item = itemrows.Checked(namespace, "", None, None, None, None, ())
    made = itemrows.to_row(item, scope=scope, now=datetime.now(UTC), author=author)
    times = ("created_at", "updated_at")
    own = {KEY, "id", "value", *times}
    texts = {name: one for name, one in made.items() if one is not None and name not in own}
    return Alike(texts, times=times)


async def _given_back(making: asyncio.Future[T], give_back: Callable[[T], Awaitable[None]]) -> None:
    with suppress(ContextStoreError):
        await give_back(await making)


def _after(graph: Graph, numbers: Mapping[str, int]) -> dict[str, int]:
    n_new = sum(before is None for before in graph.before.values())
    return {"order": numbers["order"] + n_new, "events": numbers["events"] + len(graph.events)}


@remembered(64 * 1024)
def _own_key(scope: Scope, board: str) -> str:
    return _board_key([getattr(scope, part) for part in SCOPE_PARTS], board)


def _board_key(scope: list[str | None], board: str) -> str:
    return json.dumps([*scope, board], ensure_ascii=False)


def _board_of(row: Mapping[str, Any]) -> str | None:
    """Return the board of a task's or a board's own entry."""
    board, *inside = itemrows.decoded(row["namespace"])
    if inside not in ([], ["tasks"]):
        return None
    return _board_key([row[part] for part in SCOPE_PARTS], board)


def _is_settled(tasks: list[dict[str, Any]]) -> bool:
    listed = Listed(map(task_types.task_of, tasks))
    moment = next((one.created_at for one in listed.by_id.values()), None)
    return moment is None or Graph(listed, moment).is_settled(listed.by_id)


# Claims that wait.


async def claimed(
    changes: Changes,
    claim: Change[list[Task]],
    *,
    give_back: Callable[[list[Task]], Awaitable[None]],
    seconds: float,
) -> Task | None:
    """Return the first task that `claim` gets in so many seconds; None if it gets none.

    Of the waiting claims of one event loop the one that came first claims; the others wait for it.
    """
    until = time.monotonic() + seconds
    rest = _LOOKED_AT

    def change(graph: Graph, order: int) -> list[Task]:
        nonlocal rest
        if not (tasks := claim(graph, order)):
            rest = graph.rest(_LOOKED_AT, while_held=_LOOKED_AT_WHILE_HELD)
        return tasks

    table = changes.table
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(table.changes.turn(changes.key).held(seconds))
        except TimeoutError:
            return None
        while True:
            # Read before the claim: a change after it is one to wake up for.
            token = await table.token()
            tasks = await changes.make(change, give_back=give_back)
            left = until - time.monotonic()
            if tasks or left <= 0:
                return next(iter(tasks), None)
            await table.changes.wait(token, seconds=min(rest.total_seconds(), left))


# Progress and tree of a board.

_ICONS = {
    TaskStatus.PENDING: "○",
    TaskStatus.IN_PROGRESS: "◐",
    TaskStatus.COMPLETED: "●",
    TaskStatus.FAILED: "✗",
    TaskStatus.BLOCKED: "◌",
    TaskStatus.SKIPPED: "⊘",
}


def progress(tasks: Listed, task: Task | None = None) -> float:
    """Return the progress of a task or all, in [0, 1]; begun ones count half."""
    if not (parts := tasks.parts(None if task is None else task.id)):
        return 0.0 if task is None else _part(task)
    return sum(map(_part, parts)) / len(parts)


def stats(tasks: Listed) -> TaskStats:
    """Return the statistics of the board."""
    every = tasks.by_id.values()
    took = [
        (one.ended_at - one.started_at).total_seconds()
        for one in every
        if one.status is TaskStatus.COMPLETED and one.started_at and one.ended_at
    ]
    mean = sum(took) / len(took) if took else None
    by_status = {str(status): sum(one.status is status for one in every) for status in TaskStatus}
    open_ = by_status["pending"] + by_status["blocked"]
    return TaskStats(
        n_tasks=len(every),
        by_status=by_status,
        progress=progress(tasks),
        mean_seconds=mean,
        eta_seconds=None if mean is None else mean * open_,
    )


def tree(tasks: Listed) -> str:
    """Return all tasks, each below its parent, with a sign for its status."""

    def lines(id: str | None, depth: int) -> Iterator[str]:
        for one in tasks.parts(id):
            yield f"{'  ' * depth}{_ICONS[one.status]} {one.title}"
            yield from lines(one.id, depth + 1)

    return "\n".join(lines(None, 0)) or "No tasks"


def _part(task: Task) -> float:
    if task.status in DONE:
        return 1.0
    return 0.5 if task.status is TaskStatus.IN_PROGRESS else 0.0

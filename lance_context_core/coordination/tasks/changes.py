"""Changes of a board: each is one commit, whichever way it takes.

In the journal it is one transaction, which looks up what it needs. Elsewhere all tasks are read, and
written if nobody has changed the board meanwhile.
"""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from lance_context_core._loop import Later
from lance_context_core._resources import Resources
from lance_context_core._util.frozen import frozen
from lance_context_core._util.lru import remembered
from lance_context_core.codecs import items as itemrows
from lance_context_core.coordination.changing import Written, changed
from lance_context_core.coordination.tasks import stored
from lance_context_core.coordination.tasks.graph import Graph
from lance_context_core.coordination.tasks.indexed import Indexed
from lance_context_core.coordination.tasks.kept import Listed
from lance_context_core.errors import ContextStoreError
from lance_context_core.scope import SCOPE_PARTS, Scope
from lance_context_core.storage import sql
from lance_context_core.storage.lance.schema import KEY, KEY_VALUES
from lance_context_core.storage.names import kv_table_of
from lance_context_core.storage.task_boards import Changer, Changing
from lance_context_core.storage.wal.entries import Alike
from lance_context_core.storage.wal.transactions import NotKnownError
from lance_context_core.stores.key_values import AsyncKeyValues
from lance_context_core.types import Item

T = TypeVar("T")

Change = Callable[[Graph, int], T]
"""What is done to the tasks, and returned; it is told the place of a task that is added."""

NAME = "lance_context.tasks"
"""What the items are called in which tasks are kept."""

_KEPT = sql.not_true(sql.ends_with("namespace", "\0history\0"))
"""The tasks, and what is kept of boards themselves."""

_NONE = {"order": 0, "events": 0}


@frozen
class Changes:
    """Those of one board."""

    board: str
    resources: Resources
    scope: Scope

    async def make(
        self, change: Change[T], *, give_back: Callable[[T], Awaitable[None]] | None = None
    ) -> T:
        """Do `change` to the board as it is, and keep what became another, in one commit.

        `give_back` is called with what was done for a caller who was cancelled before he was told.
        """
        changer = self._changer(change)
        try:
            return await changer.change(which=_KEPT, board_of=_board_of, is_settled=_is_settled)
        except NotKnownError:
            pass
        if give_back is None:
            return await self._in_items(change)
        # In the journal nothing is waited for from the commit on: nobody is cancelled then.
        making = asyncio.ensure_future(self._in_items(change))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.shield(_given_back(making, give_back))
            raise

    def make_now(self, change: Change[T]) -> T | Later:
        """As `make`, in any thread; LATER where that takes long, or there is more to do."""
        return self._changer(change).change_now()

    @property
    def items(self) -> AsyncKeyValues:
        """Where the board is kept."""
        return AsyncKeyValues(NAME, self.resources, self.scope)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The namespace of the tasks."""
        return self.board, "tasks"

    @property
    def history(self) -> tuple[str, ...]:
        """The namespace of what became of them."""
        return self.board, "history"

    # Helpers

    def _changer(self, change: Change[T]) -> Changer[T]:
        now = self.resources.clock.now()
        return Changer(
            self.resources.writable().table(kv_table_of(NAME), KEY_VALUES),
            _own_key(self.scope, self.board),
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
            # Whoever changes the board writes its head: what is read after it is as old at most.
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
                    Item(namespace=self.tasks, key=one.id, value=stored.written(one))
                    for one in changed
                ),
                *self._done(graph, numbers),
            ]
            return Written(puts=puts, deletes=[(self.tasks, one.id) for one in gone]), outcome

        head = ((self.board,), "head")
        return await changed(self.items, head, decide, what=f"board {self.board!r}")

    async def listed(self) -> Listed:
        """All tasks, as they are now."""
        rows = await self.items.list(namespace=self.tasks)
        return Listed(stored.task_of(one.value or {}) for one in rows)

    def _done(self, graph: Graph, numbers: Mapping[str, int]) -> list[Item]:
        if not graph.events:
            return []
        # What another branch of the store has under this number is another change.
        key = f"{numbers['events']:012d}-{secrets.token_hex(3)}"
        value = stored.written_events(graph.events)
        return [Item(namespace=self.history, key=key, value=value)]


@frozen
class _Rows:
    """Those of a scope, by one author; satisfies `Rows`."""

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
    """To which board a task belongs, or what is kept of the board itself."""
    board, *inside = itemrows.decoded(row["namespace"])
    if inside not in ([], ["tasks"]):
        return None
    return _board_key([row[part] for part in SCOPE_PARTS], board)


def _is_settled(tasks: list[dict[str, Any]]) -> bool:
    listed = Listed(map(stored.task_of, tasks))
    moment = next((one.created_at for one in listed.by_id.values()), None)
    return moment is None or Graph(listed, moment).is_settled(listed.by_id)

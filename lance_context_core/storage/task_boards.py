"""Changes of task boards in the log: lookup and write in one transaction."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar, cast

from lance_context_core._loop import WOULD_BLOCK, WouldBlock
from lance_context_core._util.frozen import frozen
from lance_context_core.errors import ConflictError
from lance_context_core.storage import leases
from lance_context_core.storage.lance.schema import KEY
from lance_context_core.storage.names import new_revision, next_revision
from lance_context_core.storage.sql.predicates import Clause
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal.entries import Alike, How, New
from lance_context_core.storage.wal.log import KeptItem, TaskRows
from lance_context_core.storage.wal.transactions import Amending
from lance_context_core.storage.write_batch import WriteBatch

T = TypeVar("T")

_ATTEMPTS = 100
"""Each loss is caused by another writer's change of the table outside the index."""

_LOOK_SECONDS = 0.005
"""The interval of checks whether another process has rebuilt the index."""

_COLUMNS = [
    KEY,
    "namespace",
    "id",
    "value",
    "revision",
    "created_at",
    "tenant",
    "user_id",
    "agent_id",
]

_HEAD = "head"

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


class Rows(Protocol):
    """The encoding of items, in one scope."""

    def key(self, namespace: tuple[str, ...], key: str) -> str:
        """The primary key of an item."""

    def alike(self, namespace: tuple[str, ...]) -> Alike:
        """The shared values of a namespace's rows: all but keys, values, times, revisions."""


@dataclass(slots=True)
class Changing:
    """One board in a transaction: its current state, and pending writes."""

    index: TaskRows
    now: datetime
    rows: "Rows"
    new: list[New] = field(default_factory=list)
    _before: dict[str, KeptItem | None] = field(default_factory=dict)
    _now: dict[str, KeptItem] = field(default_factory=dict)

    def find(self, id: str) -> str | None:
        """A task, as JSON; None if it does not exist."""
        if id not in self._before:
            self._before[id] = self.index.task(id)
        kept = self._now.get(id) or self._before[id]
        return None if kept is None else kept.value

    def next(self, limit: int) -> list[str]:
        """At most `limit` ids of the tasks to start next, in order."""
        return self._note(self.index.next(limit))

    def parts(self, id: str) -> list[str]:
        """The ids of a task's subtasks, in order."""
        return self._note(self.index.parts(id))

    def dependents(self, id: str) -> list[str]:
        """The ids of the tasks that depend on one."""
        return self._note(self.index.dependents(id))

    def put(self, task: Mapping[str, Any], *, needs: bool) -> None:
        """Put this task, replacing the one with its id; `keep` writes the final state.

        `needs` says whether its dependencies changed.
        """
        id, text = task["id"], _written(task)
        self.find(id)
        after = self._now.get(id) or self._after(self._before[id])
        self._now[id] = after = after._replace(value=text)
        is_new = self._before[id] is None
        self.index.put(task, after, is_new=is_new, needs=needs)

    def keep(self, namespace: tuple[str, ...], ids: Iterable[str]) -> None:
        """Write these tasks, which were put."""
        for id in ids:
            self._write(namespace, id, self._now[id], is_new=self._before[id] is None)

    def put_head(self, namespace: tuple[str, ...], value: Mapping[str, Any]) -> None:
        """Write the value of the board itself."""
        before = self.index.head
        after = self._after(before)._replace(value=_written(value))
        self._write(namespace, _HEAD, after, is_new=before is None)
        self.index.put_head(after)

    def append(self, namespace: tuple[str, ...], key: str, value: Mapping[str, Any]) -> None:
        """Append an item of the board under a new key."""
        kept = self._after(None)._replace(value=_written(value))
        self._write(namespace, key, kept, is_new=True)

    def remove(self, namespace: tuple[str, ...], task: Mapping[str, Any]) -> None:
        """Remove a task."""
        self.new.append(New.removing(self.rows.key(namespace, task["id"])))
        self.index.remove(task["id"], task["depends_on"])

    def _note(self, found: Mapping[str, KeptItem]) -> list[str]:
        """Remember these, which were looked up together."""
        for id, kept in found.items():
            # Tasks that were put have been looked up before.
            self._before.setdefault(id, kept)
        return [*found]

    def _after(self, before: KeptItem | None) -> KeptItem:
        """The item that succeeds that, without its value."""
        if before is None:
            return KeptItem(new_revision(), self.now.isoformat(), "")
        return before._replace(revision=next_revision(before.revision))

    def _write(self, namespace: tuple[str, ...], key: str, kept: KeptItem, *, is_new: bool) -> None:
        row_key = self.rows.key(namespace, key)
        payload = self.rows.alike(namespace).encoded(
            texts={KEY: row_key, "id": key, "value": kept.value},
            numbers={"revision": kept.revision},
            times={"created_at": kept.created_at, "updated_at": self.now.isoformat()},
        )
        # No reader looks at its row here: others read it from the log.
        self.new.append(New(How.APPEND if is_new else How.PUT, row_key, {}, payload))


@frozen
class Changer(Generic[T]):
    """One change of a board, in one transaction."""

    table: Table
    board: str
    now: datetime
    rows: Rows
    decide: Callable[[Changing], T]

    async def change(
        self,
        *,
        which: Clause,
        board_of: Callable[[Mapping[str, Any]], str | None],
        is_settled: Callable[[list[dict[str, Any]]], bool],
    ) -> T:
        """Run the change.

        It reads the table's rows `which`: `board_of` returns the board of a row, None for rows that
        are neither a task nor the head of a board; `is_settled` whether the states of a board's
        tasks agree with each other. Raises NotKnownError if the log cannot do it.
        """
        for _ in range(_ATTEMPTS):
            try:
                done = await self.table.write(WriteBatch(decide=self._work))
            except BehindError:
                # One of the callers that see this reads the table; the others wait for it.
                turn = WriteBatch(decide=self._turn)
                is_mine = (await self.table.write(turn)).outcome
                while is_mine is False:
                    await asyncio.sleep(_LOOK_SECONDS)
                    is_mine = (await self.table.write(turn)).outcome
                if is_mine:
                    await _renew(self.table, which, board_of, is_settled)
            else:
                return cast("T", done.outcome)
        raise ConflictError(f"{self.table.label} kept being changed by others: try again")

    def change_now(self) -> T | WouldBlock:
        """As `change`, in any thread; WOULD_BLOCK if it takes long or needs more work."""
        try:
            done = self.table.write_now(WriteBatch(decide=self._work))
        except BehindError:
            return WOULD_BLOCK
        return WOULD_BLOCK if done is None else cast("T", done.outcome)

    def _work(self, at: Amending) -> tuple[Sequence[New], T]:
        found = at.session.task_rows(at.table, at.token, self.board)
        if found is None:
            raise BehindError(at.table, at.token)
        changing = Changing(found, self.now, self.rows)
        outcome = self.decide(changing)
        if changing.new:
            at.session.follow_tasks(at.table, at.token + 1)
        return changing.new, outcome

    def _turn(self, at: Amending) -> tuple[Sequence[New], bool | None]:
        """Whether this process should rebuild the index; None if it is current."""
        if at.session.task_rows(at.table, at.token, self.board) is not None:
            return (), None
        return (), at.session.take_turn(at.table, leases.ticks())


@dataclass(slots=True)
class _Board:
    """All stored items of a board."""

    head: KeptItem | None = None
    tasks: list[tuple[dict[str, Any], KeptItem]] = field(default_factory=list)
    is_settled: bool = True

    def put_into(self, rows: TaskRows | None) -> None:
        """Insert it into the index of its tasks, which exists and is empty."""
        assert rows is not None  # created again in this transaction
        if self.head is not None:
            rows.put_head(self.head, is_settled=self.is_settled)
        for task, kept in self.tasks:
            rows.put(task, kept)


class BehindError(Exception):
    """The index does not match the table."""


async def _renew(
    table: Table,
    which: Clause,
    board_of: Callable[[Mapping[str, Any]], str | None],
    is_settled: Callable[[list[dict[str, Any]]], bool],
) -> None:
    """Rebuild the index from the table."""
    before = await (await table.here()).access.view()
    rows = (await table.select(which, columns=_COLUMNS)).to_pylist()
    boards: dict[str, _Board] = {}
    for row in rows:
        if (name := board_of(row)) is None:
            continue
        board = boards.setdefault(name, _Board())
        kept = KeptItem(row["revision"], row["created_at"].isoformat(), row["value"] or "{}")
        if row["namespace"].count("\0") == 1:
            board.head = kept
        else:
            board.tasks.append((json.loads(kept.value), kept))
    for board in boards.values():
        board.is_settled = is_settled([task for task, _ in board.tasks])

    def work(at: Amending) -> tuple[Sequence[New], None]:
        at.session.end_turn(at.table)
        if before is not None and (at.table, at.token) == (before.table, before.token):
            at.session.renew_tasks(at.table, at.token)
            for name, board in boards.items():
                board.put_into(at.session.task_rows(at.table, at.token, name))
        return (), None

    await table.write(WriteBatch(decide=work))


def _written(value: Mapping[str, Any]) -> str:
    return _ENCODER.encode(value)

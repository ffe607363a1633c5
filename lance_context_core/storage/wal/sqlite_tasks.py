"""The index of tasks in the log's database, by the fields of their lookups.

It is derived from the stored items of tasks and can be rebuilt at any time: it is valid while its
token is the table's. So it is no part of the log's format, and its names contain their own number.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from lance_context_core.storage.leases import Lease
from lance_context_core.storage.wal.log import KeptItem
from lance_context_core.storage.wal.sqlite import meaning

_TABLES = """
CREATE TABLE IF NOT EXISTS tasks_2 (
    tbl INTEGER NOT NULL,
    board TEXT NOT NULL,
    id TEXT NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,
    place INTEGER NOT NULL,
    parent TEXT,
    process TEXT,             -- of who is at it
    until REAL,               -- when he may be taken for gone, in seconds since 1970; of a blocked
                              -- task when it is due
    ticks REAL,               -- the same since the boot of his machine
    revision INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tbl, board, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tasks_2_next ON tasks_2 (tbl, board, status, priority DESC, place, id);
CREATE INDEX IF NOT EXISTS tasks_2_due ON tasks_2 (tbl, board, until) WHERE status = 'blocked';
CREATE INDEX IF NOT EXISTS tasks_2_parts ON tasks_2 (tbl, board, parent, place, id);
CREATE TABLE IF NOT EXISTS task_needs_1 (
    tbl INTEGER NOT NULL,
    board TEXT NOT NULL,
    needed TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (tbl, board, needed, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS task_heads_1 (
    tbl INTEGER NOT NULL,
    board TEXT NOT NULL,
    revision INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    value TEXT NOT NULL,
    is_settled INTEGER NOT NULL, -- whether its tasks are what they are to be as the others are
    PRIMARY KEY (tbl, board)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS task_tokens_1 (tbl INTEGER PRIMARY KEY, token INTEGER NOT NULL);
"""
_TURNS = "CREATE TABLE IF NOT EXISTS task_turns_1 (tbl INTEGER PRIMARY KEY, until REAL NOT NULL)"
"""Until when another process rebuilds it."""

_TURN_SECONDS = 2.0
"""How long to wait for that; ten thousand tasks take half a second."""

_OLD = ("tasks_1",)
"""The tables of an earlier release."""

_PARTS = ("tasks_2", "task_needs_1", "task_heads_1", "task_tokens_1")

_KEPT = "id, revision, created_at, value"

_HEAD = """
SELECT token, is_settled, revision, created_at, value FROM task_tokens_1 AS known
LEFT JOIN task_heads_1 AS head ON head.tbl = known.tbl AND head.board = ? WHERE known.tbl = ?
"""

_NEXT = f"""
SELECT {_KEPT} FROM tasks_2 AS one WHERE tbl = ? AND board = ? AND status = 'pending'
AND NOT EXISTS (SELECT 1 FROM tasks_2 WHERE tbl = one.tbl AND board = one.board AND parent = one.id)
ORDER BY priority DESC, place, id LIMIT ?
"""
_PARTS_OF = (
    f"SELECT {_KEPT} FROM tasks_2 WHERE tbl = ? AND board = ? AND parent = ? ORDER BY place, id"
)
_DEPENDENTS = """
SELECT one.id, revision, created_at, value FROM task_needs_1 AS needs JOIN tasks_2 AS one
ON one.tbl = needs.tbl AND one.board = needs.board AND one.id = needs.id
WHERE needs.tbl = ? AND needs.board = ? AND needed = ?
"""

_PUT = f"INSERT OR REPLACE INTO tasks_2 VALUES ({', '.join('?' * 13)})"
_CHANGE = """
UPDATE tasks_2 SET status = ?, process = ?, until = ?, ticks = ?, revision = ?, created_at = ?, value = ?
WHERE tbl = ? AND board = ? AND id = ?
"""


class SqliteTasks:
    """The tasks of one board, in a transaction; satisfies `TaskRows`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, tbl: int, board: str) -> None:
        """The tasks of `board`, of the table with that number in the log at `path`."""
        self._connection = connection
        self._path = path
        self._at = (tbl, board)
        self.head: KeptItem | None = None
        """The stored value of the board itself."""
        self.is_settled = True
        """Whether the states of its tasks agree with each other, as far as is known."""

    @classmethod
    def valid(
        cls, connection: sqlite3.Connection, path: Path, tbl: int, token: int, board: str
    ) -> Self | None:
        """The index of a board; None unless it is at this token of the table."""
        try:
            found = connection.execute(_HEAD, (board, tbl)).fetchone()
        except sqlite3.OperationalError:
            if _are_there(connection):
                raise
            return None
        if found is None or found[0] != token:
            return None
        index = cls(connection, path, tbl, board)
        if found[1] is not None:
            index.is_settled, index.head = bool(found[1]), KeptItem(*found[2:])
        return index

    def task(self, id: str) -> KeptItem | None:
        """The stored value of a task."""
        asked = (
            "SELECT revision, created_at, value FROM tasks_2 WHERE tbl = ? AND board = ? AND id = ?"
        )
        found = self._do(asked, (*self._at, id))
        return KeptItem(*found[0]) if found else None

    def parts(self, parent: str) -> dict[str, KeptItem]:
        """The subtasks of a task, in order."""
        return _all(self._do(_PARTS_OF, (*self._at, parent)))

    def dependents(self, id: str) -> dict[str, KeptItem]:
        """The tasks that depend on one."""
        return _all(self._do(_DEPENDENTS, (*self._at, id)))

    def with_status(self, ids: Sequence[str], statuses: Sequence[str]) -> set[str]:
        """Those of these tasks that exist and have one of these statuses."""
        asked = (
            "SELECT id FROM tasks_2 WHERE tbl = ? AND board = ? "
            f"AND id IN ({_marks(ids)}) AND status IN ({_marks(statuses)})"
        )
        return {id for (id,) in self._do(asked, (*self._at, *ids, *statuses))}

    def holders(self) -> list[tuple[str, Lease]]:
        """The ids of the started tasks, in order, with the leases of their holders."""
        asked = (
            "SELECT id, process, until, ticks FROM tasks_2 INDEXED BY tasks_2_next "
            "WHERE tbl = ? AND board = ? AND status = 'in_progress' ORDER BY place, id"
        )
        return [(id, Lease(*ends)) for id, *ends in self._do(asked, self._at)]

    def due(self, now: float) -> list[str]:
        """As `TaskRows.due`."""
        asked = (
            "SELECT id FROM tasks_2 WHERE tbl = ? AND board = ? AND status = 'blocked' "
            "AND until <= ? ORDER BY place, id"
        )
        return [id for (id,) in self._do(asked, (*self._at, now))]

    def next(self, limit: int) -> dict[str, KeptItem]:
        """At most `limit` ids of the tasks to start next, in order."""
        return _all(self._do(_NEXT, (*self._at, limit)))

    def ids(self) -> list[str]:
        """The ids of all tasks, in order."""
        asked = "SELECT id FROM tasks_2 WHERE tbl = ? AND board = ? ORDER BY place, id"
        return [id for (id,) in self._do(asked, self._at)]

    def put_head(self, kept: KeptItem, *, is_settled: bool = True) -> None:
        """Store the value of the board itself."""
        put = "INSERT OR REPLACE INTO task_heads_1 VALUES (?, ?, ?, ?, ?, ?)"
        self._do(put, (*self._at, *kept, is_settled))

    def put(
        self, task: Mapping[str, Any], kept: KeptItem, *, is_new: bool = True, needs: bool = True
    ) -> None:
        """Store this task, replacing the one with its id unless it `is_new`.

        `needs` says whether its dependencies changed; position, parent and priority stay.
        """
        id, status, process = task["id"], task["status"], task["process"]
        ends = task.get("due") if status == "blocked" else task["until"]
        until = ends and datetime.fromisoformat(ends).timestamp()
        if is_new:
            values = (id, status, task["priority"], task["order"], task["parent_id"])
            self._do(_PUT, (*self._at, *values, process, until, task.get("ticks"), *kept))
        else:
            self._do(_CHANGE, (status, process, until, task.get("ticks"), *kept, *self._at, id))
        for one in task["depends_on"] if needs else ():
            self._do("INSERT OR IGNORE INTO task_needs_1 VALUES (?, ?, ?, ?)", (*self._at, one, id))

    def remove(self, id: str, needed: Iterable[str]) -> None:
        """Remove a task that depended on these."""
        self._do("DELETE FROM tasks_2 WHERE tbl = ? AND board = ? AND id = ?", (*self._at, id))
        for one in needed:
            gone = "DELETE FROM task_needs_1 WHERE tbl = ? AND board = ? AND needed = ? AND id = ?"
            self._do(gone, (*self._at, one, id))

    def _do(self, statement: str, values: Sequence[object]) -> list[Any]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise meaning(self._path, error) from error


def follow(connection: sqlite3.Connection, tbl: int, token: int) -> None:
    """Mark it as current at that token."""
    connection.execute("INSERT OR REPLACE INTO task_tokens_1 VALUES (?, ?)", (tbl, token))


def take_turn(connection: sqlite3.Connection, tbl: int, now: float) -> bool:
    """Acquire the right to rebuild the index; False while another has it.

    It expires when the other is considered gone; `now` is as `leases.ticks`.
    """
    connection.execute(_TURNS)
    (until,) = connection.execute(
        "SELECT max(until) FROM task_turns_1 WHERE tbl = ?", (tbl,)
    ).fetchone()
    # The clock restarts at zero after a reboot.
    if until is not None and now < until <= now + _TURN_SECONDS:
        return False
    turn = (tbl, now + _TURN_SECONDS)
    connection.execute("INSERT OR REPLACE INTO task_turns_1 VALUES (?, ?)", turn)
    return True


def end_turn(connection: sqlite3.Connection, tbl: int) -> None:
    """Release that right: others may rebuild the index if still needed."""
    connection.execute(_TURNS)
    connection.execute("DELETE FROM task_turns_1 WHERE tbl = ?", (tbl,))


def renew(connection: sqlite3.Connection, tbl: int, token: int) -> None:
    """As `LogSession.renew_tasks`."""
    for name in _OLD:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in _TABLES.split(";\n"):
        connection.execute(statement)
    for name in _PARTS:
        # Also those of deleted tables.
        gone = f"DELETE FROM {name} WHERE tbl = ? OR tbl NOT IN (SELECT id FROM tables)"
        connection.execute(gone, (tbl,))
    follow(connection, tbl, token)


def forget(connection: sqlite3.Connection) -> None:
    """Delete all of it: it is rebuilt on demand."""
    for name in (*_PARTS, *_OLD, "task_turns_1"):
        connection.execute(f"DROP TABLE IF EXISTS {name}")


def _all(rows: Iterable[tuple[Any, ...]]) -> dict[str, KeptItem]:
    return {id: KeptItem(*kept) for id, *kept in rows}


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _are_there(connection: sqlite3.Connection) -> bool:
    asked = "SELECT count(*) FROM sqlite_master WHERE name IN (?, ?, ?, ?)"
    return bool(connection.execute(asked, _PARTS).fetchone()[0] == len(_PARTS))

"""The index of tasks in the database, as `sqlite_tasks` has it in a file: it can be rebuilt."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, Self

from lance_context_core.storage.leases import Lease
from lance_context_core.storage.wal.log import KeptItem

_TURN_SECONDS = 2.0
"""As in `sqlite_tasks`."""

_KEPT = "id, revision, created_at, value"
_WHERE = "store = %b AND tbl = %b AND board = %b"

_HEAD = """
SELECT token, is_settled, revision, created_at, value FROM lance_context.task_tokens AS known
LEFT JOIN lance_context.task_heads AS head
    ON head.store = known.store AND head.tbl = known.tbl AND head.board = %b
WHERE known.store = %b AND known.tbl = %b
"""
_NEXT = f"""
SELECT {_KEPT} FROM lance_context.tasks AS one WHERE {_WHERE} AND status = 'pending'
AND NOT EXISTS (SELECT FROM lance_context.tasks AS part WHERE part.store = one.store
    AND part.tbl = one.tbl AND part.board = one.board AND part.parent = one.id)
ORDER BY priority DESC, place, id LIMIT %b
"""
_DEPENDENTS = """
SELECT one.id, revision, created_at, value FROM lance_context.task_needs AS needs
JOIN lance_context.tasks AS one ON one.store = needs.store AND one.tbl = needs.tbl
    AND one.board = needs.board AND one.id = needs.id
WHERE needs.store = %b AND needs.tbl = %b AND needs.board = %b AND needed = %b
"""
_COLUMNS = (
    *("status", "priority", "place", "parent", "process"),
    *("until", "ticks", "revision", "created_at", "value"),
)
_PUT = f"""
INSERT INTO lance_context.tasks (store, tbl, board, id, {", ".join(_COLUMNS)})
VALUES ({", ".join(["%b"] * (4 + len(_COLUMNS)))}) ON CONFLICT (store, tbl, board, id) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
"""
_CHANGE = f"""
UPDATE lance_context.tasks SET status = %b, process = %b, until = %b, ticks = %b, revision = %b,
    created_at = %b, value = %b WHERE {_WHERE} AND id = %b
"""
_PUT_HEAD = """
INSERT INTO lance_context.task_heads VALUES (%b, %b, %b, %b, %b, %b, %b)
ON CONFLICT (store, tbl, board) DO UPDATE SET revision = excluded.revision,
    created_at = excluded.created_at, value = excluded.value, is_settled = excluded.is_settled
"""


class Session(Protocol):
    """The calls of `PostgresSession` that are used here."""

    store: int

    def query(self, statement: str, values: Sequence[object]) -> list[Any]:
        """The rows of a statement."""

    def do(self, statement: str, values: Sequence[object]) -> None:
        """Execute a statement without a result."""


class PostgresTasks:
    """The tasks of one board, in a transaction; satisfies `TaskRows`."""

    def __init__(self, session: Session, tbl: int, board: str) -> None:
        """The tasks of `board`, of the table with that number."""
        self._session = session
        self._at = (session.store, tbl, _bytes(board))
        self.head: KeptItem | None = None
        """The stored value of the board itself."""
        self.is_settled = True
        """Whether the states of its tasks agree with each other, as far as is known."""

    @classmethod
    def valid(cls, session: Session, tbl: int, token: int, board: str) -> Self | None:
        """The index of a board; None unless it is at this token of the table."""
        found = session.query(_HEAD, (_bytes(board), session.store, tbl))
        if not found or found[0][0] != token:
            return None
        index = cls(session, tbl, board)
        _, is_settled, *kept = found[0]
        if is_settled is not None:
            index.is_settled, index.head = is_settled, _kept(kept)
        return index

    def task(self, id: str) -> KeptItem | None:
        """As `TaskRows.task`."""
        return self._found(
            f"SELECT {_KEPT} FROM lance_context.tasks WHERE {_WHERE} AND id = %b", id
        ).get(id)

    def parts(self, parent: str) -> dict[str, KeptItem]:
        """As `TaskRows.parts`."""
        asked = f"SELECT {_KEPT} FROM lance_context.tasks WHERE {_WHERE} AND parent = %b ORDER BY place, id"
        return self._found(asked, parent)

    def dependents(self, id: str) -> dict[str, KeptItem]:
        """As `TaskRows.dependents`."""
        return self._found(_DEPENDENTS, id)

    def with_status(self, ids: Sequence[str], statuses: Sequence[str]) -> set[str]:
        """As `TaskRows.with_status`."""
        asked = f"SELECT id FROM lance_context.tasks WHERE {_WHERE} AND id = ANY(%b::bytea[]) AND status = ANY(%b::bytea[])"
        lists = [[*map(_bytes, ids)], [*map(_bytes, statuses)]]
        return {_text(row[0]) for row in self._session.query(asked, (*self._at, *lists))}

    def holders(self) -> list[tuple[str, Lease]]:
        """As `TaskRows.holders`."""
        asked = (
            f"SELECT id, process, until, ticks FROM lance_context.tasks WHERE {_WHERE} "
            "AND status = 'in_progress' ORDER BY place, id"
        )
        found = self._session.query(asked, self._at)
        return [
            (_text(id), Lease(None if process is None else _text(process), until, ticks))
            for id, process, until, ticks in found
        ]

    def due(self, now: float) -> list[str]:
        """As `TaskRows.due`."""
        asked = (
            f"SELECT id FROM lance_context.tasks WHERE {_WHERE} AND status = 'blocked' "
            "AND until <= %b ORDER BY place, id"
        )
        return [_text(row[0]) for row in self._session.query(asked, (*self._at, float(now)))]

    def next(self, limit: int) -> dict[str, KeptItem]:
        """As `TaskRows.next`."""
        return _all(self._session.query(_NEXT, (*self._at, limit)))

    def ids(self) -> list[str]:
        """As `TaskRows.ids`."""
        asked = f"SELECT id FROM lance_context.tasks WHERE {_WHERE} ORDER BY place, id"
        return [_text(row[0]) for row in self._session.query(asked, self._at)]

    def put_head(self, kept: KeptItem, *, is_settled: bool = True) -> None:
        """As `TaskRows.put_head`."""
        self._session.do(_PUT_HEAD, (*self._at, *_stored(kept), is_settled))

    def put(
        self, task: Mapping[str, Any], kept: KeptItem, *, is_new: bool = True, needs: bool = True
    ) -> None:
        """As `TaskRows.put`."""
        id, status = _bytes(task["id"]), _bytes(task["status"])
        process = None if task["process"] is None else _bytes(task["process"])
        ends = task.get("due") if task["status"] == "blocked" else task["until"]
        until = datetime.fromisoformat(ends).timestamp() if ends else None
        state = (process, until, task.get("ticks"), *_stored(kept))
        if is_new:
            parent = None if task["parent_id"] is None else _bytes(task["parent_id"])
            fixed = (status, task["priority"], task["order"], parent)
            self._session.do(_PUT, (*self._at, id, *fixed, *state))
        else:
            self._session.do(_CHANGE, (status, *state, *self._at, id))
        if needs and task["depends_on"]:
            added = (
                "INSERT INTO lance_context.task_needs SELECT %b, %b, %b, unnest(%b::bytea[]), %b "
                "ON CONFLICT DO NOTHING"
            )
            needed = [*map(_bytes, dict.fromkeys(task["depends_on"]))]
            self._session.do(added, (*self._at, needed, id))

    def remove(self, id: str, needed: Iterable[str]) -> None:
        """As `TaskRows.remove`."""
        self._session.do(
            f"DELETE FROM lance_context.tasks WHERE {_WHERE} AND id = %b", (*self._at, _bytes(id))
        )
        gone = f"DELETE FROM lance_context.task_needs WHERE {_WHERE} AND needed = ANY(%b::bytea[]) AND id = %b"
        self._session.do(gone, (*self._at, [*map(_bytes, needed)], _bytes(id)))

    def _found(self, statement: str, id: str) -> dict[str, KeptItem]:
        return _all(self._session.query(statement, (*self._at, _bytes(id))))


def follow(session: Session, tbl: int, token: int) -> None:
    """Mark it as current at that token."""
    session.do(
        "INSERT INTO lance_context.task_tokens VALUES (%b, %b, %b) "
        "ON CONFLICT (store, tbl) DO UPDATE SET token = excluded.token",
        (session.store, tbl, token),
    )


def take_turn(session: Session, tbl: int, now: float) -> bool:
    """Acquire the right to rebuild the index; False while another has it, of any machine."""
    asked = "SELECT until FROM lance_context.task_turns WHERE store = %b AND tbl = %b"
    found = session.query(asked, (session.store, tbl))
    # Machines count from their own boots: a moment far away is of another one, or of an old turn.
    if found and now < found[0][0] <= now + _TURN_SECONDS:
        return False
    session.do(
        "INSERT INTO lance_context.task_turns VALUES (%b, %b, %b) "
        "ON CONFLICT (store, tbl) DO UPDATE SET until = excluded.until",
        (session.store, tbl, float(now + _TURN_SECONDS)),
    )
    return True


def end_turn(session: Session, tbl: int) -> None:
    """Release that right."""
    session.do(
        "DELETE FROM lance_context.task_turns WHERE store = %b AND tbl = %b", (session.store, tbl)
    )


def renew(session: Session, tbl: int, token: int) -> None:
    """As `LogSession.renew_tasks`."""
    for name in ("tasks", "task_needs", "task_heads", "task_tokens"):
        session.do(
            f"DELETE FROM lance_context.{name} WHERE store = %b AND (tbl = %b OR tbl NOT IN "
            "(SELECT id FROM lance_context.tables WHERE store = %b))",
            (session.store, tbl, session.store),
        )
    follow(session, tbl, token)


def _bytes(text: str) -> bytes:
    return str(text).encode("utf-8", "surrogatepass")


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")


def _stored(kept: KeptItem) -> tuple[int, bytes, bytes]:
    return kept.revision, _bytes(kept.created_at), _bytes(kept.value)


def _kept(row: Sequence[Any]) -> KeptItem:
    revision, created_at, value = row
    return KeptItem(revision, _text(created_at), _text(value))


def _all(rows: Iterable[Sequence[Any]]) -> dict[str, KeptItem]:
    return {_text(id): _kept(kept) for id, *kept in rows}

"""A log session on PostgreSQL: what it reads and writes; see `transaction` for how."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from lance_context_core.storage import leases
from lance_context_core.storage.locks.requests import COLUMNS, LockRequest, request_of
from lance_context_core.storage.wal.log import Part, Stored
from lance_context_core.storage.wal.postgres import statements as sql
from lance_context_core.storage.wal.postgres import tasks
from lance_context_core.storage.wal.postgres.tasks import PostgresTasks
from lance_context_core.storage.wal.postgres.transaction import (
    TransactionalSession,
    bytes_of,
    names_of,
    stored_of,
    text_of,
)


class PostgresSession(TransactionalSession):
    """Access to the log of one store; satisfies `LogSession`. Borrows connections."""

    # Noted tables

    def parts(self) -> list[Part]:
        """As `LogSession.parts`."""
        return [Part(*map(text_of, row)) for row in self._all(sql.PARTS, (self.store,))]

    def parts_with_entries(self) -> list[Part]:
        """As `LogSession.parts_with_entries`."""
        return [
            Part(*map(text_of, row)) for row in self._all(sql.PARTS_WITH_ENTRIES, (self.store,))
        ]

    def refs(self, name: str) -> list[str]:
        """As `LogSession.refs`."""
        return [text_of(row[0]) for row in self._all(sql.REFS, (self.store, bytes_of(name)))]

    def note(self, part: Part, version: int, *, is_change: bool = True) -> None:
        """As `LogSession.note`."""
        with self._writing():
            counts = self._locked_counts()
            # Used only if the table is new; no number is given out twice.
            table = counts.tables + 1
            self._counts = counts._replace(tables=table)
            # As in the file: counts from before are never reused.
            first = time.time_ns() // 1000
            values = (self.store, table, *names_of(part), version, first, first, int(is_change))
            self._do(sql.NOTE, values, part)

    def doubt(self, part: Part) -> None:
        """As `LogSession.doubt`."""
        with self._writing():
            self._do(sql.DOUBT, self._of(part), part)

    def discard(self, part: Part) -> None:
        """As `LogSession.discard`."""
        with self._writing():
            for statement in sql.DISCARD[:-1]:
                self._do(statement, (self.store, *self._of(part)), part)
            self._do(sql.DISCARD[-1], self._of(part), part)

    # Entries

    def entries(self, table: int, after: int, most: int) -> list[Stored]:
        """As `LogSession.entries`."""
        found = None
        if self._ahead is not None:
            found = self._ahead.after_of(table, after, most)
        if found is None:
            found = [*map(stored_of, self._all(sql.ENTRIES, (self.store, table, after, most)))]
        if found:
            self._after[table] = max(self._after.get(table, 0), found[-1][0])
        return found

    def all_entries(self) -> list[Stored]:
        """As `LogSession.all_entries`."""
        return [*map(stored_of, self._all(sql.ALL, (self.store,)))]

    def last_at(self, table: int) -> int:
        """As `LogSession.last_at`."""
        found = self._all(sql.LAST_AT, (self.store, table))
        return int(found[0][0]) if found else 0

    def fullness(self, part: Part) -> tuple[int, int]:
        """As `LogSession.fullness`."""
        ((count, size),) = self._all(sql.FULLNESS, (self.store, *self._of(part)))
        return int(count), int(size)

    def begin_flush(self, part: Part, until: int) -> None:
        """As `LogSession.begin_flush`."""
        with self._writing():
            self._do(sql.BEGIN_FLUSH, (until, *self._of(part)), part)

    def forget(self, part: Part, last: int, version: int, *, tells_moments: bool) -> None:
        """As `LogSession.forget`."""
        with self._writing():
            where = (self.store, *self._of(part))
            self._do(sql.KEEP_NAMES, (version, last, version, *where), part)
            if tells_moments:
                self._do(sql.KEEP_REMOVALS, (last, *where), part)
            self._do(sql.FORGET_REMOVALS, (self.store, time.time_ns() // 1000 - sql.MONTH), part)
            self._do(sql.FORGET_ENTRIES, (last, *where), part)
            self._do(sql.FLUSHED, (version, last, *self._of(part)), part)

    def lose(self, places: Sequence[int]) -> None:
        """As `LogSession.lose`."""
        with self._writing():
            for place in places:
                self._do(sql.LOSE[0], (self.store, self.store, place), None)
                self._do(sql.LOSE[1], (self.store, place), None)

    # Records of deleted entries

    def names(self, part: Part) -> dict[int, int]:
        """As `LogSession.names`."""
        return dict(self._all(sql.NAMES, (self.store, *self._of(part))))

    def forget_names(self, part: Part, versions: Sequence[int]) -> None:
        """As `LogSession.forget_names`."""
        with self._writing():
            values = ([*versions], self.store, *self._of(part))
            self._do(sql.FORGET_NAMES, values, part)

    def removals(self, part: Part, after: int, until: int) -> dict[str, int]:
        """As `LogSession.removals`."""
        found = self._all(sql.REMOVALS, (after, until, self.store, *self._of(part)))
        return {text_of(key): at for key, at in found}

    # Locks

    def lock_requests(self, resource: str | None) -> list[LockRequest]:
        """As `LogSession.lock_requests`."""
        if resource is None:
            found = self._all(f"{sql.LOCKS_OF} ORDER BY seq", (self.store,))
        else:
            values = self.store, bytes_of(resource)
            found = self._all(f"{sql.LOCKS_OF} AND resource = %b ORDER BY seq", values)
        return [*map(_request, found)]

    def lock_request(self, seq: int) -> LockRequest | None:
        """As `LogSession.lock_request`."""
        return next(
            map(_request, self._all(f"{sql.LOCKS_OF} AND seq = %b", (self.store, seq))),
            None,
        )

    def put_lock_requests(self, put: Sequence[LockRequest], removed: Sequence[int]) -> None:
        """As `LogSession.put_lock_requests`."""
        with self._writing():
            if removed:
                gone = (
                    "DELETE FROM lance_context.locks WHERE store = %b AND seq = ANY(%b::bigint[])"
                )
                self.do(gone, (self.store, [*removed]))
            for one in put:
                values = [_plain(getattr(one, name)) for name in COLUMNS]
                self.do(sql.PUT_LOCK, (self.store, *values))

    def next_lock_number(self) -> int:
        """As `LogSession.next_lock_number`."""
        with self._writing():
            counts = self._locked_counts()
            new = leases.next_token(counts.locks or time.time_ns() // 1000)
            self._counts = counts._replace(locks=new)
            return new

    # Tasks

    def task_rows(self, table: int, token: int, board: str) -> PostgresTasks | None:
        """As `LogSession.task_rows`."""
        return PostgresTasks.valid(self, table, token, board)

    def follow_tasks(self, table: int, token: int) -> None:
        """As `LogSession.follow_tasks`."""
        with self._writing():
            tasks.follow(self, table, token)

    def take_turn(self, table: int, now: float) -> bool:
        """As `LogSession.take_turn`."""
        with self._writing():
            return tasks.take_turn(self, table, now)

    def end_turn(self, table: int) -> None:
        """As `LogSession.end_turn`."""
        with self._writing():
            tasks.end_turn(self, table)

    def renew_tasks(self, table: int, token: int) -> None:
        """As `LogSession.renew_tasks`."""
        with self._writing():
            tasks.renew(self, table, token)

    def close(self) -> None:
        """As `LogSession.close`."""
        self.undo()


def _plain(value: object) -> object:
    return bytes_of(value) if isinstance(value, str) else value


def _request(row: Iterable[Any]) -> LockRequest:
    values = (text_of(one) if isinstance(one, bytes) else one for one in row)
    return request_of(values)

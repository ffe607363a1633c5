"""What the journal holds of a table, read through a connection to its file: what is new alone."""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lance_context_core.engine.journal import file, statements
from lance_context_core.engine.journal.entries import Entry, entry_of
from lance_context_core.engine.journal.mirror import Mirror, Mirrors
from lance_context_core.engine.journal.statements import Part
from lance_context_core.errors import StorageError

MOST_AT_ONCE = 256
"""How many entries are decoded until the others on a loop have their turn: a millisecond or two."""


class ManyError(Exception):
    """So much is new of a table that it is to be decoded step by step before: see `Looking.prepare`."""

    def __init__(self, part: Part, id: int, rows: Sequence[tuple[Any, ...]]) -> None:
        """These entries of the table of that number, as the file has them."""
        super().__init__(f"{len(rows)} new entries of {part}")
        self.part, self.id, self.rows = part, id, rows


class Looking:
    """Looks at the journal at a path; for who has the lock of its connection."""

    def __init__(self, path: Path, mirrors: Mirrors) -> None:
        """Remember what was seen in `mirrors`."""
        self._path = path
        self._mirrors = mirrors

    def now(self, connection: sqlite3.Connection | None, part: Part) -> Mirror | None:
        """What there is of a table; None if there is nothing of it. Raises ManyError."""
        if connection is None:
            return None
        try:
            return self.within(connection, part)
        except sqlite3.Error as error:
            raise file.meaning(self._path, error) from error

    def within(self, connection: sqlite3.Connection, part: Part) -> Mirror | None:
        """As `now`, also for who is in a transaction; raises errors of SQLite as they are."""
        known = self._mirrors.get(part)
        state = connection.execute(statements.TABLE, part).fetchone()
        if known is not None and known.state == state:
            return known
        if state is None:
            self._mirrors.drop(part)
            return None
        if connection.in_transaction:
            return self._read(connection, part)
        connection.execute("BEGIN")
        try:
            return self._read(connection, part)
        finally:
            connection.execute("COMMIT")

    def prepare(self, many: ManyError, rows: Iterable[tuple[Any, ...]]) -> None:
        """Decode some of those many entries, for the next look."""
        mirror = self._mirrors.get(many.part)
        if mirror is not None and mirror.id == many.id:
            mirror.ahead.update((one.seq, one) for one in self._decoded(rows))

    # Helpers

    def _read(self, connection: sqlite3.Connection, part: Part) -> Mirror | None:
        state = connection.execute(statements.TABLE, part).fetchone()
        if state is None:
            self._mirrors.drop(part)
            return None
        id, version, folded, folding, token, stamp = state
        mirror = self._mirrors.get(part)
        if mirror is None or mirror.id != id:
            mirror = self._mirrors.begin(part, id)
        found = connection.execute(statements.ROWS, (id, mirror.last)).fetchall()
        ahead = mirror.ahead
        new = [row for row in found if row[0] not in ahead]
        if len(new) > MOST_AT_ONCE:
            raise ManyError(part, id, new)
        decoded = {**ahead, **{one.seq: one for one in self._decoded(new)}}
        mirror.ahead = {}
        mirror.move(version, folded, folding, token, stamp, [decoded[row[0]] for row in found])
        return mirror

    def _decoded(self, rows: Iterable[tuple[Any, ...]]) -> list[Entry]:
        try:
            return [entry_of(*row) for row in rows]
        except ValueError as error:
            raise StorageError(
                f"the journal {str(self._path)!r} {file.DAMAGED} ({error})"
            ) from error

"""What the journal holds of a table, read through a connection to its file: what is new alone."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lance_context_core.engine.journal import file, statements
from lance_context_core.engine.journal.entries import Entry, entry_of
from lance_context_core.engine.journal.mirror import Mirror, Mirrors
from lance_context_core.engine.journal.statements import Part
from lance_context_core.errors import StorageError

MOST_AT_ONCE = 128
"""How many entries are decoded until the others on a loop have their turn: two milliseconds."""


class ManyError(Exception):
    """So much is new of a table that it is to be read step by step before: see `Looking.prepare`."""

    def __init__(self, part: Part, id: int) -> None:
        """Of the table of that number."""
        super().__init__(f"more than {MOST_AT_ONCE} new entries of {part}")
        self.part, self.id = part, id


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

    def prepare(self, connection: sqlite3.Connection | None, many: ManyError) -> bool:
        """Read the next of those many entries, for the look that follows; whether there may be more."""
        mirror = self._mirrors.get(many.part)
        if connection is None or mirror is None or mirror.id != many.id:
            return False
        try:
            new = _unread(connection, mirror, MOST_AT_ONCE)
        except sqlite3.Error as error:
            raise file.meaning(self._path, error) from error
        mirror.ahead += self._decoded(new)
        return len(new) == MOST_AT_ONCE

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
        # An entry that was read is there until it is folded.
        ahead = [one for one in mirror.ahead if one.seq > folded]
        new = _unread(connection, mirror, MOST_AT_ONCE + 1)
        if len(new) > MOST_AT_ONCE:
            raise ManyError(part, id)
        mirror.move(version, folded, folding, token, stamp, [*ahead, *self._decoded(new)])
        mirror.ahead = []
        return mirror

    def _decoded(self, rows: Iterable[tuple[Any, ...]]) -> list[Entry]:
        try:
            return [entry_of(*row) for row in rows]
        except ValueError as error:
            raise StorageError(
                f"the journal {str(self._path)!r} {file.DAMAGED} ({error})"
            ) from error


def _unread(connection: sqlite3.Connection, mirror: Mirror, most: int) -> list[tuple[Any, ...]]:
    """The first entries that were not read yet, as the file has them."""
    begin = mirror.ahead[-1].seq if mirror.ahead else mirror.last
    return connection.execute(statements.ROWS, (mirror.id, begin, most)).fetchall()

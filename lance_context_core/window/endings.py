"""The end of a session: read from the newest message backwards, as far as a budget might reach.

What was read is kept among the hot scopes, and what is said since is laid behind it: a conversation that
goes on is not read again for each of its windows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_context_core._util.frozen import frozen_by_name
from lance_context_core.memory_index.scopes import HotScopes
from lance_context_core.messages import Message
from lance_context_core.storage import changes, sql
from lance_context_core.storage.changes import NEVER, Since, State
from lance_context_core.storage.sql.predicates import UnsureError
from lance_context_core.storage.table import Table
from lance_context_core.storage.wal.entries import Entry, How
from lance_context_core.stores.history import COLUMNS, message_of
from lance_context_core.window.cutting import is_enough

_FRAMING_BYTES = 16
"""What a message is taken for beside its text."""
_ROW_BYTES = 600
"""What a row takes in memory beside its texts, about."""
_FLEETING = ("expires_at", "retired_at")
"""A row that has one of these will be gone though nothing is written."""
_IS_FLEETING = sql.any_of([sql.is_present(name) for name in _FLEETING])

Row = Mapping[str, Any]


@frozen_by_name
class Ending:
    """The last messages of a session, from a place on that is a whole number of blocks."""

    rows: pa.Table
    """Those that were read."""
    added: tuple[Row, ...] = ()
    """Those that were said since."""
    first: int
    """How many messages of the session come before them."""
    state: State = NEVER
    """What of the table is in it."""
    sizes: tuple[int, ...]
    """The bytes of each message's text, and a few more for what is around it, in order."""
    last_user: int | None
    """Which message of the session is the last that a user says, if it is among these."""
    _plain: dict[int, Row] = field(default_factory=dict)
    """The rows as they were asked for, by their places."""

    @property
    def n(self) -> int:
        """How many messages the session has."""
        return self.first + len(self.sizes)

    @property
    def n_bytes(self) -> int:
        """What it takes in memory, about."""
        return 2 * sum(self.sizes) + int(self.rows.nbytes) + _ROW_BYTES * len(self.sizes)

    def messages(self, start: int, stop: int | None = None) -> list[Message]:
        """The messages of the session from one on, up to another; both are among these."""
        begin, end = start - self.first, (self.n if stop is None else stop) - self.first
        missing = [place for place in range(begin, end) if place not in self._plain]
        if missing:
            first, last, n_read = missing[0], missing[-1] + 1, self.rows.num_rows
            read = self.rows.slice(first, min(last, n_read) - first) if first < n_read else None
            found = [] if read is None else read.to_pylist()
            later = self.added[max(first - n_read, 0) : max(last - n_read, 0)]
            self._plain.update(zip(range(first, last), [*found, *later], strict=True))
        # Anew each time: what a message holds may be changed by whoever was given it.
        return [message_of(self._plain[place]) for place in range(begin, end)]

    def followed(self, since: Since | None, where: sql.Clause, session_id: str) -> "Ending | None":
        """It as the table is now; None if it has to be read again."""
        if since is None or since.entries is None or since.state.table != self.state.table:
            return None
        try:
            new = _appended(since.entries, where, session_id)
        except UnsureError:
            return None
        if new is None:
            return None
        found = replace(self, state=since.state)
        for row in new:
            place = found.n
            found = replace(
                found,
                added=(*found.added, row),
                sizes=(*found.sizes, len((row["text"] or "").encode()) + _FRAMING_BYTES),
                last_user=place if _is_user(row["role"], row["parts"]) else found.last_user,
            )
        return found

    def reaches(self, room: int) -> bool:
        """Whether it is as much of the session as a room of tokens might hold."""
        return not self.first or (is_enough(self.sizes, room) and self.last_user is not None)


async def ending(
    table: Table,
    where: sql.Clause,
    *,
    room: int,
    block: int,
    session_id: str,
    hot: HotScopes | None,
    scope: sql.Clause,
) -> Ending:
    """The end of a session as far back as a room of tokens might reach, and its user's newest turn.

    `where` is the condition of what is shown of it now, `scope` that of the session. It is read page by
    page, each a few times as long as the one before.
    """
    place = ("ending", str(scope), block)
    known = None
    if hot is not None and not table.access.is_pinned:
        n_forgotten = hot.n_forgotten
        known = hot.known(table, place)
        if isinstance(known, Ending):
            now = known.followed(await changes.since(table, known.state), where, session_id)
            # Of one that has become long the beginning is of no use.
            if now is not None and now.reaches(room) and len(now.added) <= 2 * block:
                if now.added is not known.added or now.state != known.state:
                    hot.keep(table, place, now, n_forgotten=n_forgotten)
                return now
    else:
        hot = None
    found = await _read(table, where, room=room, block=block)
    if hot is not None and found.state is not NEVER and await _lasts(table, where, found):
        hot.keep(table, place, found, n_forgotten=n_forgotten)
    elif hot is not None and known is not None:
        hot.drop(table, place)
    return found


async def _read(table: Table, where: sql.Clause, *, room: int, block: int) -> Ending:
    last, columns = 2 * block, [*COLUMNS, *_FLEETING]
    while True:
        state, (rows, before) = NEVER, (None, 0)
        if (seen := await changes.tail(table, where, columns=columns, last=last)) is not None:
            state, rows, before = seen
        if rows is None:
            rows, before = await table.tail(where, columns=columns, last=last)
        skipped = -before % block if before else 0
        found = _of(rows.slice(skipped), before + skipped, state)
        if not before or found.reaches(room):
            return found
        last *= 4


def _of(rows: pa.Table, first: int, state: State) -> Ending:
    lengths = pc.fill_null(pc.binary_length(rows["text"]), 0)
    roles = rows["role"].to_pylist()
    user = None
    for index in range(len(roles) - 1, -1, -1):
        if roles[index] == "user" and _is_user("user", rows["parts"][index].as_py()):
            user = first + index
            break
    sizes = tuple(int(one) + _FRAMING_BYTES for one in lengths.to_pylist())
    return Ending(rows=rows, first=first, state=state, sizes=sizes, last_user=user)


def _is_user(role: str, parts: str | None) -> bool:
    # Some frameworks have the user hand in the results of tools.
    return role == "user" and '"tool_result"' not in (parts or "")


async def _lasts(table: Table, where: sql.Clause, found: Ending) -> bool:
    """Whether all of the session stays as it is while nothing is written."""
    if any(found.rows[name].null_count < found.rows.num_rows for name in _FLEETING):
        return False
    return not found.first or not await table.count(sql.all_of([where, _IS_FLEETING]))


def _appended(entries: Sequence[Entry], where: sql.Clause, session_id: str) -> list[Row] | None:
    """What was said in the session since; None if something else became of it, as far as is known."""
    new: list[Row] = []
    for entry in entries:
        if entry.how is How.REMOVE:
            return None
        is_mine = where.holds is None or where.holds(entry.row)
        if entry.how is How.PUT:
            if is_mine or entry.row.get("session_id") == session_id:
                return None
        elif is_mine:
            if any(entry.row.get(name) is not None for name in _FLEETING):
                return None
            new.append({name: entry.row.get(name) for name in COLUMNS})
    return new

"""The write-ahead log as an interface: where small writes are kept until they are in a table.

A log is told of tables, each on each of its refs, and keeps their entries in one order. What is written
in one transaction is there for all, or nothing of it is. Beside the entries it keeps what must change in
the same transaction: locks, and what is known of tasks. All that is said to a log is said through a
`LogSession`; `SqliteLog` keeps it in a file beside the tables.

Nothing above this module knows which log a store has, and nothing here knows what a table is made of.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from lance_context_core.errors import StorageError
from lance_context_core.storage.leases import Lease
from lance_context_core.storage.locks.requests import LockRequest


class BusyError(Exception):
    """Another writer is at the log at this moment, and nothing was done: try again."""


class Part(NamedTuple):
    """One table, on one ref."""

    name: str
    ref: str
    """Empty for main."""


class TableState(NamedTuple):
    """What the log has noted of a table."""

    table: int
    """Its number: a table that is made anew under its name has another one."""
    version: int
    """With the entries, all that was acknowledged; negative while one commits to the table on top of it."""
    folded: int
    """The place of its last entry that was flushed."""
    folding: int
    """The place of its last entry that is being flushed, or was when that failed."""
    token: int
    """Another one after each change of what the table holds."""
    stamp: int
    """Another one after each change of what the log holds of it."""


Stored = tuple[int, int, str, bytes | None, int, int, int | None]
"""An entry as it is kept: its place, how, key, payload, told, at, checksum; see `entries.entry_of`."""

DAMAGED = (
    "is damaged: put it back from a copy, or call accept_loss(), and the store goes on without what "
    "was not folded"
)
"""What is said of a log that cannot be read."""

Unplaced = tuple[int, str, bytes | None, int, int, int]
"""An entry that has no place yet: how, key, payload, told, at, checksum."""


class KeptItem(NamedTuple):
    """What is kept of a board, or of one of its tasks."""

    revision: int
    created_at: str
    value: str
    """As JSON."""


class TaskRows(Protocol):
    """The tasks of one board, by what they are looked up by; they go with one token of their table."""

    head: KeptItem | None
    """What is kept of the board itself."""
    is_settled: bool
    """Whether its tasks are what they are to be as the others are; as far as is known."""

    def task(self, id: str) -> KeptItem | None:
        """What is kept of a task."""

    def parts(self, parent: str) -> dict[str, KeptItem]:
        """The subtasks of a task, in their order."""

    def dependents(self, id: str) -> dict[str, KeptItem]:
        """The tasks that depend on one, in no order."""

    def with_status(self, ids: Sequence[str], statuses: Sequence[str]) -> set[str]:
        """Which of these tasks are there and have one of these statuses."""

    def holders(self) -> list[tuple[str, Lease]]:
        """The ids of the tasks that are begun, in their order, with their holders' leases."""

    def due(self, now: float) -> list[str]:
        """The ids of the blocked tasks that were due by now, in seconds since 1970, in their order."""

    def next(self, limit: int) -> dict[str, KeptItem]:
        """What is pending and has no subtasks, most urgent first; `limit` of it at most."""

    def ids(self) -> list[str]:
        """The ids of all tasks, in their order."""

    def put_head(self, kept: KeptItem, *, is_settled: bool = True) -> None:
        """Have this kept of the board itself."""

    def put(
        self,
        task: Mapping[str, object],
        kept: KeptItem,
        *,
        is_new: bool = True,
        needs: bool = True,
    ) -> None:
        """Have this task, in the place of the one with its id unless it `is_new`.

        Of one that is not new the place, the parent and the priority stay. `needs` says whether it
        depends on others than the one before did.
        """

    def remove(self, id: str, needed: Iterable[str]) -> None:
        """Have a task no more, which depended on these."""


class LogSession(Protocol):
    """A connection to a log, in the hands of one caller at a time.

    Each call may raise BusyError, where nothing was done, and StorageError, with the way out.
    """

    # Transactions

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is begun, and neither committed nor undone; an error may undo it."""

    def begin(self) -> None:
        """Begin to write, alone; what is read is what the last one who wrote has left."""

    def begin_reading(self) -> None:
        """Begin to read one moment of the log, beside those who write."""

    def commit(self) -> None:
        """End it, and keep what was written."""

    def undo(self) -> None:
        """End it, and leave nothing of it; raises nothing."""

    def save(self) -> None:
        """Mark a place within a transaction; one at a time."""

    def undo_to_save(self) -> None:
        """Undo what was done since `save`."""

    def release(self) -> None:
        """Forget the place that `save` has marked."""

    # What is noted of tables

    def parts(self) -> list[Part]:
        """The tables that are noted, in order."""

    def parts_with_entries(self) -> list[Part]:
        """Those of which there are entries, in no order."""

    def refs(self, name: str) -> list[str]:
        """The refs of a table that is noted."""

    def state(self, part: Part) -> TableState | None:
        """What is noted of a table; None if nothing is."""

    def note(self, part: Part, version: int, *, is_change: bool = True) -> None:
        """Note a table with its version, which never goes back; it may hold what the last one held."""

    def doubt(self, part: Part) -> None:
        """Have the version of a table negative until one is noted."""

    def discard(self, part: Part) -> None:
        """Let go of a table, and of all that is kept of it."""

    # Entries

    def entries(self, table: int, after: int, most: int) -> list[Stored]:
        """The first entries of a table behind a place, in their order."""

    def all_entries(self) -> list[Stored]:
        """All of them, of all tables, in their order."""

    def last_at(self, table: int) -> int:
        """When the last entry of a table was acknowledged, in microseconds since 1970; 0 if none is there."""

    def fullness(self, part: Part) -> tuple[int, int]:
        """How many entries of a table there are, and their bytes."""

    def insert(self, table: int, new: Sequence[Unplaced]) -> list[int]:
        """Put entries behind all others; returns their places, which no entry has ever had."""

    def change(self, table: int) -> None:
        """Have another token and another stamp."""

    def begin_flush(self, part: Part, until: int) -> None:
        """Note that the entries up to that place are being flushed."""

    def forget(self, part: Part, last: int, version: int, *, tells_moments: bool) -> None:
        """Let go of the entries up to `last`, which that version holds.

        Where their writers were told of another one, that is known as this one from now on. If the
        table `tells_moments`, it stays known for a month when rows were removed.
        """

    def lose(self, places: Sequence[int]) -> None:
        """Let go of the entries there, which cannot be read."""

    # What stays of entries that are gone

    def names(self, part: Part) -> dict[int, int]:
        """The versions that hold what writers were told of by other numbers, by these."""

    def forget_names(self, part: Part, versions: Sequence[int]) -> None:
        """Forget the names of these versions."""

    def removals(self, part: Part, after: int, until: int) -> dict[str, int]:
        """When rows were removed in that time, by key, in microseconds since 1970."""

    # Locks

    def lock_requests(self, resource: str | None) -> list[LockRequest]:
        """Those for one resource, or all, in the order of arrival."""

    def lock_request(self, seq: int) -> LockRequest | None:
        """The one with that number, if it is there."""

    def put_lock_requests(self, put: Sequence[LockRequest], removed: Sequence[int]) -> None:
        """Have these, in the place of those with their numbers, and the `removed` no more."""

    def next_lock_number(self) -> int:
        """A number that is larger than all before, those of a log that was lost included."""

    # Tasks

    def task_rows(self, table: int, token: int, board: str) -> TaskRows | None:
        """Those of a board; None if they do not show what the table holds, whose token is that."""

    def follow_tasks(self, table: int, token: int) -> None:
        """Have the rows of tasks show the table as it is at that token."""

    def take_turn(self, table: int, now: float) -> bool:
        """Be the one who makes the rows of tasks anew; False while another one is at that.

        He is waited for until he may be taken for gone; `now` is as `leases.ticks`.
        """

    def end_turn(self, table: int) -> None:
        """Let others make them anew, if that is to be done still."""

    def renew_tasks(self, table: int, token: int) -> None:
        """Begin the rows of a table's tasks anew, without any; for that token."""

    def close(self) -> None:
        """Let go of it; what was begun is undone."""


class WriteAheadLog(Protocol):
    """One log, and how it is come by: nothing is made before the first write.

    `session` is in the hands of who has `lock`.
    """

    path: Path
    """What it is called in errors."""
    lock: threading.Lock
    on_loss: Callable[[], None]
    """Is called where what was read through its sessions counts no more."""

    @property
    def session(self) -> LogSession | None:
        """The one that all share; None while the log is not open, or is absent."""

    @property
    def identity(self) -> object | None:
        """Another one where the log was removed or replaced; None until it was looked at."""

    def is_open(self) -> bool:
        """Whether the shared session is there, and shows what is written."""

    async def opened(self) -> LogSession | None:
        """The shared session; None if there is no log.

        Raises StorageError if the log is another store's, or is missing and was there.
        """

    async def make(self) -> None:
        """Make the log, and the place for it, unless it is there. Raises as `opened`."""

    def shared(self) -> LogSession:
        """The shared session. Raises StorageError if the log has just gone."""

    async def take(self) -> LogSession:
        """A session of one's own: a transaction through the shared one would be everybody's."""

    def give_back(self, session: LogSession) -> None:
        """Let go of a session that was taken."""

    def close(self) -> None:
        """Let go of all sessions; closing twice is no error."""

    # Who commits to tables

    async def may_be_used(self) -> bool:
        """Whether all who may open the store can be kept apart by it."""

    def is_guarded(self) -> bool:
        """Whether who commits to a table has to have the store, also while there is no log."""

    def held(
        self, *, shared: bool, refusal: Callable[[float], Exception]
    ) -> AbstractAsyncContextManager[None]:
        """Have the store: alone, or beside others who share it, in all processes.

        Raises a `refusal` of so many seconds where another one has it for longer.
        """

    # Upkeep

    def is_small(self) -> bool:
        """Whether there is nothing for `keep_small` to do."""

    def keep_small(self) -> None:
        """Give back what the log has grown by, where that blocks no writer."""

    def shrink(self) -> None:
        """Give back the room of entries that were flushed, if it is much. Raises BusyError."""

    def wipe(self) -> None:
        """Leave nothing of what was removed, on any disk of it. Raises BusyError while others read."""

    def is_lost(self, error: StorageError) -> bool:
        """Whether that error means that the log is gone, damaged or another store's."""

    def set_aside(self) -> None:
        """Have the store take any log or none for its own; the one that is there is kept elsewhere."""

    def faults(self) -> list[str]:
        """What is wrong with what is kept, in the words of what keeps the log; empty if nothing is."""

    def copy_to(self, directory: Path) -> None:
        """Write all of it into a store that is copied to that directory."""

"""The interface of the write-ahead log, which stores small writes until a flush.

A log knows tables, each on each of its refs, and orders the entries of all of them. A transaction
is visible as a whole or not at all. The log also stores what must change in the same transaction as
entries: locks, and the state of tasks. All access goes through a `LogSession`; `SqliteLog` stores
the log in a file next to the tables.

No module above this one knows which log a store has; nothing here knows what a table contains.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from lance_context_core.errors import StorageError
from lance_context_core.storage.leases import Lease
from lance_context_core.storage.locks.requests import LockRequest


class BusyError(Exception):
    """Another writer is using the log; nothing was done: try again."""


class OutrunError(BusyError):
    """A transaction without the lock saw what others have changed since; the next one has it."""


class Part(NamedTuple):
    """One table on one ref."""

    name: str
    ref: str
    """Empty for main."""


class TableState(NamedTuple):
    """The log's notes on a table."""

    table: int
    """Its number: a table that is created again under its name has another one."""
    version: int
    """Merged with the entries, all that was acknowledged; negative during a direct commit to the
    table."""
    folded: int
    """The position of its last flushed entry."""
    folding: int
    """The position of the last entry of a flush that is under way, or has failed."""
    token: int
    """Changes with each change of the table's content."""
    stamp: int
    """Changes with each change of the table's part of the log."""


Stored = tuple[int, int, str, bytes | None, int, int, int | None]
"""A stored entry: position, how, key, payload, told, at, checksum; see `entries.entry_of`."""

DAMAGED = (
    "is damaged: put it back from a copy, or call accept_loss(), and the store goes on without what "
    "was not folded"
)
"""The error message for a log that cannot be read."""

Unplaced = tuple[int, str, bytes | None, int, int, int]
"""An entry without a position yet: how, key, payload, told, at, checksum."""


class KeptItem(NamedTuple):
    """The stored value of a board, or of one of its tasks."""

    revision: int
    created_at: str
    value: str
    """As JSON."""


class TaskRows(Protocol):
    """An index of the tasks of one board; valid for one token of their table."""

    head: KeptItem | None
    """The stored value of the board itself."""
    is_settled: bool
    """Whether the states of its tasks agree with each other, as far as is known."""

    def task(self, id: str) -> KeptItem | None:
        """The stored value of a task."""

    def parts(self, parent: str) -> dict[str, KeptItem]:
        """The subtasks of a task, in order."""

    def dependents(self, id: str) -> dict[str, KeptItem]:
        """The tasks that depend on one, in no order."""

    def with_status(self, ids: Sequence[str], statuses: Sequence[str]) -> set[str]:
        """Those of these tasks that exist and have one of these statuses."""

    def holders(self) -> list[tuple[str, Lease]]:
        """The ids of the started tasks, in order, with the leases of their holders."""

    def due(self, now: float) -> list[str]:
        """The ids of the blocked tasks due by now (seconds since 1970), in order."""

    def next(self, limit: int) -> dict[str, KeptItem]:
        """At most `limit` pending tasks without subtasks, most urgent first."""

    def ids(self) -> list[str]:
        """The ids of all tasks, in order."""

    def put_head(self, kept: KeptItem, *, is_settled: bool = True) -> None:
        """Store the value of the board itself."""

    def put(
        self,
        task: Mapping[str, object],
        kept: KeptItem,
        *,
        is_new: bool = True,
        needs: bool = True,
    ) -> None:
        """Store this task, replacing the one with its id unless it `is_new`.

        A task that is not new keeps its position, parent and priority. `needs` says whether its
        dependencies changed.
        """

    def remove(self, id: str, needed: Iterable[str]) -> None:
        """Remove a task that depended on these."""


class LogSession(Protocol):
    """A connection to a log, used by one caller at a time.

    Each call may raise BusyError, and then has done nothing, or StorageError, with the remedy.
    """

    # Transactions

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; an error may have rolled it back."""

    def begin(self) -> None:
        """Begin an exclusive write transaction; it reads the last writer's commit."""

    def begin_reading(self) -> None:
        """Begin a read transaction on one snapshot, concurrent with writers."""

    def commit(self) -> None:
        """Commit the transaction."""

    def is_current(self) -> bool:
        """Whether what the transaction has read is still so; with the lock it always is."""

    def undo(self) -> None:
        """Roll back the transaction; raises nothing."""

    def save(self) -> None:
        """Set a savepoint in a transaction; one at a time."""

    def undo_to_save(self) -> None:
        """Roll back to the savepoint of `save`."""

    def release(self) -> None:
        """Release the savepoint of `save`."""

    # Noted tables

    def parts(self) -> list[Part]:
        """The noted tables, in order."""

    def parts_with_entries(self) -> list[Part]:
        """The tables that have entries, in no order."""

    def refs(self, name: str) -> list[str]:
        """The refs of a noted table."""

    def state(self, part: Part) -> TableState | None:
        """The notes on a table; None if it is unknown."""

    def note(self, part: Part, version: int, *, is_change: bool = True) -> None:
        """Note a table with its version, which never decreases; its content may be unchanged."""

    def doubt(self, part: Part) -> None:
        """Make the version of a table negative until one is noted."""

    def discard(self, part: Part) -> None:
        """Delete a table with everything that is stored of it."""

    # Entries

    def entries(self, table: int, after: int, most: int) -> list[Stored]:
        """The first entries of a table after a position, in order."""

    def all_entries(self) -> list[Stored]:
        """All entries of all tables, in order."""

    def last_at(self, table: int) -> int:
        """When a table's last entry was acknowledged (microseconds since 1970); 0 if none."""

    def fullness(self, part: Part) -> tuple[int, int]:
        """The number of entries of a table, and their bytes."""

    def insert(self, table: int, new: Sequence[Unplaced]) -> list[int]:
        """Append entries; returns their positions, which are never reused."""

    def change(self, table: int) -> None:
        """Change the token and the stamp."""

    def begin_flush(self, part: Part, until: int) -> None:
        """Note that the entries up to that position are being flushed."""

    def forget(self, part: Part, last: int, version: int, *, tells_moments: bool) -> None:
        """Delete the entries up to `last`, which that version contains.

        Maps any other version that was reported to their writers to this one. If the table
        `tells_moments`, records for a month when rows were removed.
        """

    def lose(self, places: Sequence[int]) -> None:
        """Delete the entries at these positions, which cannot be read."""

    # Records of deleted entries

    def names(self, part: Part) -> dict[int, int]:
        """Maps the versions that were reported to writers to the versions that contain the rows."""

    def forget_names(self, part: Part, versions: Sequence[int]) -> None:
        """Delete the mapping of these versions."""

    def removals(self, part: Part, after: int, until: int) -> dict[str, int]:
        """When rows were removed in that time, by key, in microseconds since 1970."""

    # Locks

    def lock_requests(self, resource: str | None) -> list[LockRequest]:
        """The requests for one resource, or all, in the order of arrival."""

    def lock_request(self, seq: int) -> LockRequest | None:
        """The request with that number, if it exists."""

    def put_lock_requests(self, put: Sequence[LockRequest], removed: Sequence[int]) -> None:
        """Store these requests, replacing those with their numbers, and delete the `removed`."""

    def next_lock_number(self) -> int:
        """A number larger than all before, including those of a lost log."""

    # Tasks

    def task_rows(self, table: int, token: int, board: str) -> TaskRows | None:
        """The tasks of a board; None unless they are at this token of the table."""

    def follow_tasks(self, table: int, token: int) -> None:
        """Mark the rows of tasks as current at that token of the table."""

    def take_turn(self, table: int, now: float) -> bool:
        """Acquire the right to rebuild the rows of tasks; False while another has it.

        It expires if the other is considered gone; `now` is as `leases.ticks`.
        """

    def end_turn(self, table: int) -> None:
        """Release that right: others may rebuild them if still needed."""

    def renew_tasks(self, table: int, token: int) -> None:
        """Reset the rows of a table's tasks to none, for that token."""

    def close(self) -> None:
        """Close the session; rolls back an open transaction."""


@runtime_checkable
class StoreLocks(Protocol):
    """A log whose server locks parts of a store for all machines, as files do for one.

    A `WriteAheadLog` may be one.
    """

    def locked(
        self, name: str, *, patience_seconds: float, refusal: Callable[[], Exception]
    ) -> AbstractAsyncContextManager[Callable[[], None]]:
        """Hold the store's lock of that name, exclusively, across all processes and machines.

        Returns a function that raises StorageError if the lock was lost meanwhile; not for event
        loops. The end of the context raises it, too. Raises a `refusal` if another holder keeps it
        for longer than `patience_seconds`, and StorageError if the server cannot be reached.
        """


class ServerClock(Protocol):
    """The clock of the server that has the log: the same for all machines."""

    def now(self) -> datetime:
        """The time, with a time zone."""


class StoreId(Protocol):
    """The id that a store has, next to its tables, for a log that is elsewhere."""

    async def read(self) -> str | None:
        """The id; None if there is none. Raises StorageError if another log has its entries."""

    async def write(self, id: str) -> bool:
        """Give the store that id, durably; False if another creator was faster."""

    def forget(self) -> None:
        """Remove the id. Not on an event loop."""

    def is_also_at(self, place: str, id: str) -> bool:
        """Whether another store, at that place, has the id too. Not on an event loop."""


class WriteAheadLog(Protocol):
    """One log and access to it; creates nothing before the first write.

    `session` belongs to the holder of `lock`.
    """

    is_quick: bool
    """Whether its calls take microseconds, so that an event loop may make them; else they go over a
    network, and a thread makes them."""
    lock: threading.Lock
    on_loss: Callable[[], None]
    """Called when everything that was read through its sessions becomes invalid."""

    @property
    def path(self) -> Path | str:
        """Its name in errors."""

    @property
    def session(self) -> LogSession | None:
        """The shared session; None while the log is closed or absent."""

    @property
    def identity(self) -> object | None:
        """A value that changes when the log is removed or replaced; None until checked."""

    def is_open(self) -> bool:
        """Whether the shared session exists and shows new writes."""

    async def opened(self) -> LogSession | None:
        """The shared session; None if no log exists.

        Raises StorageError if the log is another store's, or existed and is missing.
        """

    async def make(self) -> None:
        """Create the log and its directory if absent. Raises as `opened`."""

    def shared(self) -> LogSession:
        """The shared session. Raises StorageError if the log has just disappeared."""

    async def take(self) -> LogSession:
        """A private session: everybody would share a transaction of the shared one."""

    def give_back(self, session: LogSession) -> None:
        """Return a session that was taken."""

    def close(self) -> None:
        """Close all sessions; closing twice is no error."""

    # Committers

    async def may_be_used(self) -> bool:
        """Whether the log can keep apart all processes that may open the store."""

    def is_guarded(self) -> bool:
        """Whether a commit to a table requires the store's lock, even without a log."""

    def held(
        self, *, shared: bool, refusal: Callable[[float], Exception]
    ) -> AbstractAsyncContextManager[None]:
        """Hold the store's lock, exclusive or shared, across all processes.

        Raises `refusal(seconds)` if another holder keeps it for that long.
        """

    async def require_held(self) -> None:
        """Raise StorageError if this process has lost the exclusive lock that it holds."""

    # Upkeep

    def is_small(self) -> bool:
        """Whether `keep_small` has nothing to do."""

    def keep_small(self) -> None:
        """Return the log's growth to the disk where that blocks no writer."""

    def shrink(self) -> None:
        """Return the disk space of flushed entries if it is much. Raises BusyError."""

    def wipe(self) -> None:
        """Wipe removed rows from all its disks. Raises BusyError while others read."""

    def is_lost(self, error: StorageError) -> bool:
        """Whether that error means that the log is missing, damaged or another store's."""

    def set_aside(self) -> None:
        """Accept any log or none as the store's own; the existing one is renamed."""

    def faults(self) -> list[str]:
        """The log's faults, in the words of its implementation; empty if it has none."""

    def copy_to(self, directory: Path) -> None:
        """Copy the whole log into a store that is being copied to that directory."""

"""A log in the memory of the test process: a second implementation, so that the interface is seen whole.

It shares no code with the one in SQLite. What is committed is one value that never changes; who writes
has a copy, and puts it in the place of the former one.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from lance_context_core.errors import StorageError
from lance_context_core.storage.leases import Lease
from lance_context_core.storage.wal.log import BusyError, KeptItem, TableState

MONTH = 31 * 24 * 3600 * 1_000_000


@dataclass
class Data:
    """All that is kept; its values are replaced, and never changed."""

    tables: dict = field(default_factory=dict)
    """`TableState` by `Part`."""
    entries: list = field(default_factory=list)
    """Each with the number of its table first, and then as `Stored`."""
    names: dict = field(default_factory=dict)
    removals: list = field(default_factory=list)
    locks: dict = field(default_factory=dict)
    boards: dict = field(default_factory=dict)
    """By table and name: the head, whether it is settled, the tasks by id, and their needs."""
    tokens: dict = field(default_factory=dict)
    turns: dict = field(default_factory=dict)
    last_entry: int = 0
    last_table: int = 0
    last_lock: int = 0

    def copied(self):
        return Data(**{name: copy(value) for name, value in vars(self).items()})


class Kept:
    """What all who open one place have in common."""

    def __init__(self):
        self.data = Data()
        self.is_made = False
        self.writing = threading.Lock()
        self.guard = threading.Lock()
        self.n_shared = 0
        self.is_alone = False


PLACES = {}
"""What is kept, by path: a store that is opened again finds it."""


class MemorySession:
    def __init__(self, kept):
        self._kept = kept
        self._data = None
        self._saved = None
        self._writes = False

    @property
    def _now(self):
        return self._kept.data if self._data is None else self._data

    # Transactions

    @property
    def in_transaction(self):
        return self._data is not None

    def begin(self):
        assert not self.in_transaction
        if not self._kept.writing.acquire(blocking=False):
            raise BusyError
        self._data, self._writes = self._kept.data.copied(), True

    def begin_reading(self):
        assert not self.in_transaction
        self._data = self._kept.data

    def commit(self):
        if self._writes:
            self._kept.data = self._data
        self.undo()

    def is_current(self):
        return True

    def undo(self):
        if self._writes:
            self._kept.writing.release()
        self._data, self._saved, self._writes = None, None, False

    def save(self):
        self._saved = self._data.copied()

    def undo_to_save(self):
        self._data = self._saved.copied()

    def release(self):
        self._saved = None

    # Tables

    def parts(self):
        return sorted(self._now.tables)

    def parts_with_entries(self):
        there = {one[0] for one in self._now.entries}
        return [part for part, state in self._now.tables.items() if state.table in there]

    def refs(self, name):
        return [part.ref for part in self._now.tables if part.name == name]

    def state(self, part):
        return self._now.tables.get(part)

    def note(self, part, version, *, is_change=True):
        with self._writing() as data:
            # A number is used up also where the table is noted, as SQLite does it.
            data.last_table += 1
            if (old := data.tables.get(part)) is None:
                first = time.time_ns() // 1000
                data.tables[part] = TableState(data.last_table, version, 0, 0, first, first)
            else:
                data.tables[part] = old._replace(
                    version=max(old.version, version),
                    token=old.token + is_change,
                    stamp=old.stamp + 1,
                )

    def doubt(self, part):
        with self._writing() as data:
            if (old := data.tables.get(part)) is not None:
                data.tables[part] = old._replace(version=-abs(old.version), stamp=old.stamp + 1)

    def discard(self, part):
        with self._writing() as data:
            if (old := data.tables.pop(part, None)) is not None:
                data.entries = [one for one in data.entries if one[0] != old.table]
                data.names = {key: v for key, v in data.names.items() if key[0] != old.table}
                data.removals = [one for one in data.removals if one[0] != old.table]

    # Entries

    def entries(self, table, after, most):
        found = [one[1:] for one in self._now.entries if one[0] == table and one[1] > after]
        return found[:most]

    def all_entries(self):
        return [one[1:] for one in self._now.entries]

    def last_at(self, table):
        return next((one[6] for one in reversed(self._now.entries) if one[0] == table), 0)

    def fullness(self, part):
        if (state := self.state(part)) is None:
            return 0, 0
        sizes = [len(one[4] or b"") for one in self._now.entries if one[0] == state.table]
        return len(sizes), sum(sizes)

    def insert(self, table, new):
        with self._writing() as data:
            first = data.last_entry + 1
            data.entries += [(table, first + n, *one) for n, one in enumerate(new)]
            data.last_entry += len(new)
            return list(range(first, data.last_entry + 1))

    def change(self, table):
        with self._writing() as data:
            for part, old in data.tables.items():
                if old.table == table:
                    new = old._replace(token=old.token + 1, stamp=old.stamp + 1)
                    data.tables[part] = new
                    return

    def begin_flush(self, part, until):
        with self._writing() as data:
            if (old := data.tables.get(part)) is not None:
                seqs = [one[1] for one in data.entries if one[0] == old.table and one[1] <= until]
                folding = max(seqs, default=old.folding)
                data.tables[part] = old._replace(folding=folding, stamp=old.stamp + 1)

    def forget(self, part, last, version, *, tells_moments):
        with self._writing() as data:
            past = time.time_ns() // 1000 - MONTH
            if (old := data.tables.get(part)) is not None:
                gone = [one for one in data.entries if one[0] == old.table and one[1] <= last]
                data.names |= {(old.table, one[5]): version for one in gone if one[5] != version}
                if tells_moments:
                    data.removals += [(old.table, one[3], one[6]) for one in gone if one[4] is None]
                data.entries = [one for one in data.entries if one not in gone]
                data.tables[part] = old._replace(
                    version=version, folded=max(old.folded, last), stamp=old.stamp + 1
                )
            data.removals = [one for one in data.removals if one[2] >= past]

    def lose(self, places):
        with self._writing() as data:
            tables = {one[0] for one in data.entries if one[1] in places}
            data.entries = [one for one in data.entries if one[1] not in places]
            for table in tables:
                self.change(table)

    # What stays

    def names(self, part):
        if (state := self.state(part)) is None:
            return {}
        return {told: version for (t, told), version in self._now.names.items() if t == state.table}

    def forget_names(self, part, versions):
        with self._writing() as data:
            if (state := data.tables.get(part)) is not None:
                data.names = {
                    (table, told): version
                    for (table, told), version in data.names.items()
                    if table != state.table or version not in versions
                }

    def removals(self, part, after, until):
        if (state := self.state(part)) is None:
            return {}
        found = [one for one in self._now.removals if one[0] == state.table]
        return {key: at for _, key, at in found if after < at <= until}

    # Locks

    def lock_requests(self, resource):
        found = sorted(self._now.locks.values(), key=lambda one: one.seq)
        return [one for one in found if resource in (None, one.resource)]

    def lock_request(self, seq):
        return self._now.locks.get(seq)

    def put_lock_requests(self, put, removed):
        with self._writing() as data:
            for seq in removed:
                data.locks.pop(seq, None)
            data.locks |= {one.seq: one for one in put}

    def next_lock_number(self):
        with self._writing() as data:
            now = time.time_ns() // 1000
            data.last_lock = max((data.last_lock or now) + 1, now)
            return data.last_lock

    # Tasks

    def task_rows(self, table, token, board):
        if self._now.tokens.get(table) != token:
            return None
        return MemoryTasks(self, (table, board))

    def follow_tasks(self, table, token):
        with self._writing() as data:
            data.tokens[table] = token

    def take_turn(self, table, now):
        with self._writing() as data:
            until = data.turns.get(table)
            if until is not None and now < until <= now + 2.0:
                return False
            data.turns[table] = now + 2.0
            return True

    def end_turn(self, table):
        with self._writing() as data:
            data.turns.pop(table, None)

    def renew_tasks(self, table, token):
        with self._writing() as data:
            data.boards = {key: one for key, one in data.boards.items() if key[0] != table}
            data.tokens[table] = token

    def close(self):
        if self.in_transaction:
            self.undo()

    def _writing(self):
        return _Written(self)


class _Written:
    """The data to write to: that of the transaction, or one of this change alone."""

    def __init__(self, session):
        self._session = session
        self._is_alone = not session.in_transaction

    def __enter__(self):
        if self._is_alone:
            self._session.begin()
        assert self._session._writes
        return self._session._data

    def __exit__(self, kind, *_):
        if self._is_alone:
            self._session.commit() if kind is None else self._session.undo()


@dataclass
class Board:
    head: KeptItem | None = None
    is_settled: bool = True
    tasks: dict = field(default_factory=dict)
    """By id: status, priority, place, parent, process, until, ticks, and what is kept."""
    needs: frozenset = frozenset()
    """What is needed, and by which task."""


class MemoryTasks:
    def __init__(self, session, at):
        self._session = session
        self._at = at
        self.head, self.is_settled = self._board.head, self._board.is_settled

    @property
    def _board(self):
        return self._session._now.boards.get(self._at) or Board()

    def _ordered(self, ids=None):
        tasks = self._board.tasks
        ids = tasks if ids is None else ids
        return sorted(ids, key=lambda one: (tasks[one]["place"], one))

    def _kept(self, ids):
        return {id: self._board.tasks[id]["kept"] for id in ids}

    def task(self, id):
        found = self._board.tasks.get(id)
        return found and found["kept"]

    def parts(self, parent):
        tasks = self._board.tasks
        return self._kept(self._ordered([id for id in tasks if tasks[id]["parent"] == parent]))

    def dependents(self, id):
        by = [one for needed, one in self._board.needs if needed == id]
        return self._kept([one for one in by if one in self._board.tasks])

    def with_status(self, ids, statuses):
        tasks = self._board.tasks
        return {id for id in ids if id in tasks and tasks[id]["status"] in statuses}

    def holders(self):
        tasks = self._board.tasks
        begun = self._ordered([id for id in tasks if tasks[id]["status"] == "in_progress"])
        return [(id, tasks[id]["lease"]) for id in begun]

    def due(self, now):
        tasks = self._board.tasks
        blocked = self._ordered([id for id in tasks if tasks[id]["status"] == "blocked"])
        return [id for id in blocked if (tasks[id]["due"] or now + 1) <= now]

    def next(self, limit):
        tasks = self._board.tasks
        parents = {one["parent"] for one in tasks.values()}
        free = [id for id in tasks if tasks[id]["status"] == "pending" and id not in parents]
        free.sort(key=lambda one: (-tasks[one]["priority"], tasks[one]["place"], one))
        return self._kept(free[:limit])

    def ids(self):
        return self._ordered()

    def put_head(self, kept, *, is_settled=True):
        self._put(replace(self._board, head=kept, is_settled=is_settled))

    def put(self, task, kept, *, is_new=True, needs=True):
        id, board = task["id"], self._board
        until = task["until"] and datetime.fromisoformat(task["until"]).timestamp()
        due = task.get("due") and datetime.fromisoformat(task["due"]).timestamp()
        old = board.tasks.get(id)
        if is_new:
            fixed = {
                "priority": task["priority"],
                "place": task["order"],
                "parent": task["parent_id"],
            }
        elif old is None:
            return
        else:
            fixed = {name: old[name] for name in ("priority", "place", "parent")}
        new = {
            **fixed,
            "status": task["status"],
            "lease": Lease(task["process"], until, task.get("ticks")),
            "due": due,
            "kept": kept,
        }
        needed = {(one, id) for one in task["depends_on"]} if needs else set()
        self._put(replace(board, tasks={**board.tasks, id: new}, needs=board.needs | needed))

    def remove(self, id, needed):
        board = self._board
        tasks = {one: task for one, task in board.tasks.items() if one != id}
        self._put(replace(board, tasks=tasks, needs=board.needs - {(one, id) for one in needed}))

    def _put(self, board):
        with self._session._writing() as data:
            data.boards[self._at] = board


class MemoryLog:
    """Satisfies `WriteAheadLog`, of all who open that directory in this process."""

    is_quick = True

    def __init__(self, root, *, is_synced, life):
        del is_synced
        self.path = Path(root) / "log-in-memory"
        self.lock = threading.Lock()
        self.session = None
        self.identity = None
        self.on_loss: Callable[[], None] = lambda: None
        self._root = Path(root)
        self._life = life
        self._kept = PLACES.setdefault(str(root), Kept())

    def is_open(self):
        self._life.require()
        return self.session is not None

    async def opened(self):
        self._life.require()
        self._life.is_there()
        with self.lock:
            if self.session is None and self._kept.is_made:
                self.session = MemorySession(self._kept)
                self.identity = self._kept
        return self.session

    async def make(self):
        self._root.mkdir(parents=True, exist_ok=True)
        self._kept.is_made = True
        await self.opened()

    def shared(self):
        if self.session is None:
            raise StorageError(f"the log {str(self.path)!r} is gone: try again")
        return self.session

    async def take(self):
        return MemorySession(self._kept)

    def give_back(self, session):
        session.close()

    def close(self):
        with self.lock:
            self.session = self.identity = None
            self.on_loss()

    async def may_be_used(self):
        return True

    def is_guarded(self):
        return True

    @asynccontextmanager
    async def held(self, *, shared, refusal) -> AsyncIterator[None]:
        kept, until = self._kept, time.monotonic() + 600
        self._root.mkdir(parents=True, exist_ok=True)
        while not self._may_hold(shared=shared):
            if time.monotonic() > until:
                raise refusal(600)
            await asyncio.sleep(0.001)
        try:
            yield
        finally:
            with kept.guard:
                if shared:
                    kept.n_shared -= 1
                else:
                    kept.is_alone = False

    def _may_hold(self, *, shared):
        with self._kept.guard:
            if self._kept.is_alone or (self._kept.n_shared and not shared):
                return False
            if shared:
                self._kept.n_shared += 1
            else:
                self._kept.is_alone = True
            return True

    async def require_held(self):
        pass

    def is_small(self):
        return True

    def keep_small(self):
        pass

    def shrink(self):
        pass

    def wipe(self):
        with _Written(MemorySession(self._kept)) as data:
            data.removals, data.boards, data.tokens, data.turns = [], {}, {}, {}

    def is_lost(self, error):
        del error
        return False

    def set_aside(self):
        raise NotImplementedError

    def faults(self):
        return []

    def copy_to(self, directory):
        copied = PLACES.setdefault(str(directory), Kept())
        copied.data, copied.is_made = self._kept.data, self._kept.is_made

"""What every log does, by the same calls on those in SQLite and PostgreSQL and on one written apart, in memory."""

import asyncio
import random
import time
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from core.storage.wal.log_in_memory import Kept, MemorySession

from lance_context_core.storage.lifecycle import Lifecycle
from lance_context_core.storage.locks.requests import LockRequest
from lance_context_core.storage.wal.identity import FileId
from lance_context_core.storage.wal.log import BusyError, KeptItem, Part
from lance_context_core.storage.wal.postgres.log import PostgresLog
from lance_context_core.storage.wal.postgres.server import Address, Watch, server_of
from lance_context_core.storage.wal.postgres.session import PostgresSession
from lance_context_core.storage.wal.sqlite_log import SqliteLog, held_here
from lance_context_core.storage.wal.transactions import Transaction

PARTS = [Part("records", ""), Part("records", "try"), Part("kv", "")]
NO_END = 2**63 - 1
N_CALLS = 150


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_session(request, tmp_path):
    """Another session with one log, each time."""
    if request.param == "memory":
        kept = Kept()
        yield lambda: MemorySession(kept)
        return
    if request.param == "postgres":
        log = request.getfixturevalue("postgres_log")
        watch = Watch(log._server, timedelta(0))
        yield lambda: PostgresSession(watch, log.shared().store, is_private=True)
        return
    log = SqliteLog(tmp_path, is_synced=False, life=Lifecycle(str(tmp_path), is_read_only=False))
    taken = asyncio.run(made(log, 3))
    spare = [*taken]
    yield spare.pop
    for one in taken:
        one.close()
    log.close()


@pytest.fixture
def postgres_log(postgres_server, tmp_path):
    """The log of a store of its own in PostgreSQL."""
    life = Lifecycle(str(tmp_path), is_read_only=False)
    log = PostgresLog(
        server_of(Address(postgres_server.address())), str(tmp_path), FileId(tmp_path), partial(held_here, tmp_path),
        life=life, read_consistency=timedelta(0),
    )  # fmt: skip
    asyncio.run(log.make())
    yield log
    log.close()


async def made(log, n):
    await log.make()
    return [await log.take() for _ in range(n)]


def entry(key="k", *, payload=b"{}", told=2, at=5):
    return (0, key, payload, told, at, None)


async def test_one_writes_at_a_time_and_the_others_read_what_was_there(open_session):
    one, other = open_session(), open_session()
    one.begin()
    one.note(PARTS[0], 1)
    with pytest.raises(BusyError):
        other.begin()
    assert other.state(PARTS[0]) is None
    one.commit()
    assert other.state(PARTS[0]).version == 1
    other.begin()
    other.undo()


async def test_who_reads_a_moment_sees_nothing_of_later_ones(open_session):
    one, other = open_session(), open_session()
    one.note(PARTS[0], 1)
    other.begin_reading()
    before = other.state(PARTS[0])
    one.insert(before.table, [entry()])
    one.change(before.table)
    assert (other.state(PARTS[0]), other.entries(before.table, 0, 9)) == (before, [])
    other.commit()
    assert len(other.entries(before.table, 0, 9)) == 1
    assert other.state(PARTS[0]).token == before.token + 1


async def test_what_raises_in_a_transaction_leaves_nothing_of_it(open_session):
    one = open_session()
    with suppress(ZeroDivisionError), Transaction(one) as session:
        session.note(PARTS[0], 1)
        raise ZeroDivisionError
    assert not one.in_transaction
    assert one.parts() == []
    with Transaction(one) as session:
        session.note(PARTS[0], 1)
    assert one.parts() == [PARTS[0]]


async def test_one_of_several_in_a_transaction_can_be_undone_alone(open_session):
    one = open_session()
    with Transaction(one) as session:
        for n, part in enumerate(PARTS):
            session.save()
            session.note(part, 1)
            if n == 1:
                session.undo_to_save()
            session.release()
    assert one.parts() == sorted([PARTS[0], PARTS[2]])


async def test_a_place_is_given_once_though_its_entry_is_gone(open_session):
    one = open_session()
    one.note(PARTS[0], 1)
    table = one.state(PARTS[0]).table
    (first,) = one.insert(table, [entry()])
    one.forget(PARTS[0], first, 2, tells_moments=False)
    (second,) = one.insert(table, [entry()])
    assert second > first
    one.discard(PARTS[0])
    one.note(PARTS[0], 1)
    assert one.state(PARTS[0]).table > table


class Pair:
    """Both logs, which are asked the same."""

    def __init__(self, real):
        self.sessions = (real, MemorySession(Kept()))

    def __call__(self, verb, *arguments, **options):
        found, wanted = (getattr(one, verb)(*arguments, **options) for one in self.sessions)
        if verb != "dependents":  # Which are in no order.
            found, wanted = _plain(found), _plain(wanted)
        assert found == wanted, (verb, arguments)
        return found

    def rows(self, table, token, board):
        found, wanted = (one.task_rows(table, token, board) for one in self.sessions)
        assert (found is None) == (wanted is None)
        return found and Rows(found, wanted)


class Rows(Pair):
    def __init__(self, *both):
        self.sessions = both

    def look(self):
        ids = self("ids")
        self("holders")
        self("next", 3)
        self("due", 1_767_312_000.0)
        for id in [*ids, "absent"]:
            for verb in ("task", "parts", "dependents"):
                self(verb, id)
        self("with_status", [*ids, "absent"], ["pending", "failed"])
        (head, wanted) = ((one.head, one.is_settled) for one in self.sessions)
        assert head == wanted


def _plain(value):
    if isinstance(value, dict):
        return list(value.items()) if value and not isinstance(next(iter(value)), int) else value
    return value


def look(pair, clock):
    """Every read there is."""
    pair("parts")
    assert set(pair.sessions[0].parts_with_entries()) == set(pair.sessions[1].parts_with_entries())
    assert set(pair.sessions[0].refs("records")) == set(pair.sessions[1].refs("records"))
    entries = pair("all_entries")
    for part in PARTS:
        state = pair("state", part)
        for verb in ("fullness", "names"):
            pair(verb, part)
        removed = [one.removals(part, 0, clock) for one in pair.sessions]
        assert removed[0] == removed[1]
        if state is not None:
            middle = entries[len(entries) // 2][0] if entries else 0
            pair("entries", state.table, middle, 5)
            pair("last_at", state.table)
    for resource in (None, "a"):
        pair("lock_requests", resource)


def change(pair, rng, clock):
    part = rng.choice(PARTS)
    state = pair("state", part)
    verb = rng.choice(CHANGES)
    if verb == "note":
        pair("note", part, rng.randrange(1, 9), is_change=rng.random() < 0.7)
    elif verb in ("doubt", "discard"):
        pair(verb, part)
    elif verb == "forget_names":
        pair("forget_names", part, rng.sample(range(1, 9), 3))
    elif verb == "begin_flush":
        pair("begin_flush", part, rng.choice([NO_END, 3, 10]))
    elif verb == "forget":
        last = rng.choice([0, 5, *[one[0] for one in pair("all_entries")]])
        pair("forget", part, last, rng.randrange(1, 9), tells_moments=rng.random() < 0.5)
    elif verb == "lose":
        places = [one[0] for one in pair("all_entries")]
        pair("lose", rng.sample(places, min(len(places), 1)))
    elif verb == "locks":
        seq = pair("next_lock_number")
        mine = LockRequest(
            process="p", until=9.5, ticks=1.5, token=rng.choice([None, seq]), seq=seq,
            resource=rng.choice("ab"), mode="exclusive", owner="ann", since=1.0, lease=30.0,
        )  # fmt: skip
        there = [one.seq for one in pair("lock_requests", None)]
        pair("put_lock_requests", [mine], rng.sample(there, min(len(there), 1)))
        pair("lock_request", seq)
    elif state is not None:
        table = state.table
        if verb == "insert":
            many = [
                entry(f"k{rng.randrange(5)}", payload=rng.choice([None, b"{}", b"long" * 9]),
                      told=rng.randrange(1, 9), at=clock)
                for _ in range(rng.randrange(4))
            ]  # fmt: skip
            pair("insert", table, many)
            pair("change", table)
        elif verb == "turns":
            pair("take_turn", table, clock / 1000)
            if rng.random() < 0.5:
                pair("end_turn", table)
        elif verb == "renew_tasks":
            pair("renew_tasks", table, state.token)
        elif (rows := pair.rows(table, state.token, rng.choice(["plan", "other"]))) is not None:
            tasks(rows, rng)
            rows.look()
            if rng.random() < 0.8:
                pair("change", table)
                pair("follow_tasks", table, state.token + 1)


def tasks(rows, rng):
    ids = [f"t{n}" for n in range(6)]
    id, kept = rng.choice(ids), KeptItem(rng.randrange(99), "2026-01-01T00:00:00", "{}")
    there = rows("task", id) is not None
    if rng.random() < 0.2:
        rows("put_head", kept, is_settled=rng.random() < 0.5)
    if there and rng.random() < 0.2:
        rows("remove", id, ids)
        return
    begun = rng.random() < 0.4
    task = {
        "id": id,
        "status": "in_progress" if begun else rng.choice(["pending", "blocked", "failed"]),
        "process": "p" if begun else None,
        "until": "2026-01-02T00:00:00+00:00" if begun else None,
        "ticks": 7.5 if begun else None,
        "due": rng.choice([None, "2026-01-01T00:00:00+00:00", "2026-01-03T00:00:00+00:00"]),
        "priority": rng.randrange(3),
        "order": rng.randrange(9),
        "parent_id": rng.choice([None, "t0"]),
        "depends_on": rng.sample(ids, rng.randrange(3)),
    }
    rows("put", task, kept, is_new=not there, needs=rng.random() < 0.8)


CHANGES = [
    *("note", "note", "insert", "insert", "insert", "doubt", "discard", "begin_flush", "forget"),
    *("forget_names", "lose", "locks", "turns", "renew_tasks", "tasks", "tasks", "tasks"),
]


@pytest.mark.parametrize("seed", range(12))
async def test_the_same_calls_in_any_order_have_the_same_outcome(seed, tmp_path, monkeypatch):
    life = Lifecycle(str(tmp_path), is_read_only=False)
    log = SqliteLog(tmp_path, is_synced=False, life=life)
    await log.make()
    call_in_any_order(log.shared(), seed, monkeypatch)
    log.close()


@pytest.mark.parametrize("seed", range(4))
def test_the_log_in_postgres_has_the_outcome_of_the_one_in_memory(seed, postgres_log, monkeypatch):
    call_in_any_order(postgres_log.shared(), seed, monkeypatch)


def call_in_any_order(session, seed, monkeypatch):
    pair, rng, clock = Pair(session), random.Random(seed), 1_800_000_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: clock * 1000)
    for _ in range(N_CALLS):
        clock += rng.choice([0, 1, 10**6, 10**12])
        pair("begin")
        for _ in range(rng.randrange(1, 4)):
            pair("save")
            change(pair, rng, clock)
            if rng.random() < 0.2:
                pair("undo_to_save")
            pair("release")
        pair("undo" if rng.random() < 0.2 else "commit")
        look(pair, clock)

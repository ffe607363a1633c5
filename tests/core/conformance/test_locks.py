"""Locks keep one contract in a directory, in memory and on S3, whatever they are kept in."""

import asyncio
import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from lance_context_core.coordination.changes import STANDARD_CONFLICTS, Conflicts
from lance_context_core.errors import (
    DeadlockError,
    InvalidRequestError,
    LockTimeoutError,
    ReadOnlyError,
    StaleLockError,
)
from lance_context_core.messages import Message
from lance_context_core.storage import leases

AT_ONCE = timedelta(0)
LEASE = timedelta(seconds=30)
PATIENCE_SECONDS = 120


@pytest.fixture(params=["local", "memory", "s3"])
def store(request, clock):
    opened = request.getfixturevalue(f"{request.param}_backend").open(clock=clock)
    yield opened
    asyncio.run(opened.close())


async def until(condition):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():  # noqa: ASYNC110 - another process may bring it about
            await asyncio.sleep(0.01)


async def waits(locks, resource, n=1):
    """Until so many wait for a resource."""

    async def are_there():
        return sum(one.token is None for one in await locks.list(resource)) >= n

    await until(are_there)


async def lapse(lock):
    """As if its process had been stopped until its lease was over."""
    lock._keeper.let_go(lock._seq)

    def end(book):
        book.put(replace(book.tickets[lock._seq], ticks=0.0, until=0.0))

    await lock._keeper.shelf.change(end, resource=lock.resource)
    assert not await lock.is_held()


async def test_an_exclusive_lock_keeps_others_out_until_its_block_ends(store):
    async with store.locks.acquire("report", owner="ann") as lock:
        assert await store.locks.try_acquire("report", owner="ben") is None
        assert await store.locks.try_acquire("report", mode="shared", owner="ben") is None
        assert await store.locks.try_acquire("other", owner="ben") is not None
        assert await lock.is_held()
    assert not await lock.is_held()
    assert await store.locks.try_acquire("report", owner="ben") is not None


async def test_shared_locks_are_held_together_and_none_beside_an_exclusive_one(store):
    ann = await store.locks.acquire("report", mode="shared", owner="ann")
    ben = await store.locks.acquire("report", mode="shared", owner="ben")
    assert await store.locks.try_acquire("report", owner="eve") is None
    assert await ann.release()
    assert await store.locks.try_acquire("report", owner="eve") is None
    assert await ben.release()
    assert not await ben.release()
    assert await store.locks.try_acquire("report", owner="eve") is not None


async def test_tokens_only_grow(store):
    tokens = []
    for n in range(3):
        for resource in ("a", "b"):
            async with store.locks.acquire(resource, owner=f"agent {n}") as lock:
                tokens.append(lock.token)
    assert tokens == sorted(set(tokens))


async def test_those_who_wait_get_it_in_the_order_in_which_they_asked(store):
    locks, got = store.locks, []
    first = await locks.acquire("r", owner="first")

    async def ask(name, mode):
        async with locks.acquire("r", mode=mode, owner=name):
            got.append(name)

    async with asyncio.TaskGroup() as group:
        for n, (name, mode) in enumerate([("a", "exclusive"), ("b", "shared"), ("c", "exclusive")]):
            group.create_task(ask(name, mode))
            await waits(locks, "r", n + 1)
        await first.release()
    assert got == ["a", "b", "c"]


async def test_who_shares_does_not_pass_by_one_who_waits_to_be_alone(store):
    locks = store.locks
    reader = await locks.acquire("r", mode="shared", owner="reader")
    writer = asyncio.ensure_future(
        locks._acquired(locks._asked("r", "exclusive", LEASE, "w"), None)
    )
    await waits(locks, "r")
    assert await locks.try_acquire("r", mode="shared", owner="late") is None
    await reader.release()
    assert (await writer).owner == "w"


async def test_waiting_ends_after_its_time_and_names_who_was_in_the_way(store):
    await store.locks.acquire("r", owner="ann")
    with pytest.raises(LockTimeoutError, match=r"'r' was not free for 0 seconds: 'ann' \(process"):
        await store.locks.acquire("r", owner="ben", wait=AT_ONCE)
    assert [one.owner for one in await store.locks.list()] == ["ann"]


async def test_who_waits_and_is_cancelled_leaves_the_queue(store):
    locks = store.locks
    lock = await locks.acquire("r", owner="ann")
    waiting = asyncio.ensure_future(
        locks._acquired(locks._asked("r", "exclusive", LEASE, "b"), None)
    )
    await waits(locks, "r")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [one.token for one in await locks.list()] == [lock.token]


@pytest.mark.parametrize("is_free", [True, False], ids=["free", "held"])
async def test_who_is_cancelled_before_he_is_told_has_neither_the_lock_nor_a_place(
    store, monkeypatch, is_free
):
    locks = store.locks
    held = [] if is_free else [await locks.acquire("r", owner="ann")]
    shelf = (await locks._keeper()).shelf
    change, cancelled = shelf.change, []

    async def told_late(decide, *, resource):
        outcome = await change(decide, resource=resource)
        while outcome is not None and not cancelled:  # noqa: ASYNC110 - bound to no loop
            await asyncio.sleep(0.001)
        return outcome

    async def is_in_the_book():
        return len(await locks.list("r")) > len(held)

    monkeypatch.setattr(shelf, "change", told_late)
    # Where it is, nobody can be cancelled at that moment: see the next test.
    monkeypatch.setattr(type(shelf), "is_transactional", False)
    acquiring = asyncio.ensure_future(
        locks._acquired(locks._asked("r", "exclusive", LEASE, "b"), None)
    )
    await until(is_in_the_book)
    acquiring.cancel()
    await asyncio.sleep(0)
    cancelled.append(True)
    with pytest.raises(asyncio.CancelledError):
        await acquiring
    assert [one.token for one in await locks.list()] == [one.token for one in held]


async def test_an_acquisition_that_is_cancelled_at_any_moment_is_told_or_leaves_nothing(store):
    outcomes = set()
    for n_turns in range(24):
        asked = store.locks._asked("r", "exclusive", LEASE, "ann")
        acquiring = asyncio.ensure_future(store.locks._acquired(asked, None))
        for _ in range(n_turns):
            await asyncio.sleep(0)
        acquiring.cancel()
        try:
            lock = await acquiring
        except asyncio.CancelledError:
            outcomes.add("cancelled")
        else:
            outcomes.add("told")
            await lock.release()
        assert await store.locks.list() == []
    assert "cancelled" in outcomes


async def test_a_deadlock_is_refused_and_its_circle_named(store):
    locks = store.locks
    held = {name: await locks.acquire(name, owner=f"has {name}") for name in ("a", "b", "c")}
    asked = {"a": "b", "b": "c"}
    waiting = [
        asyncio.ensure_future(
            locks._acquired(locks._asked(wanted, "exclusive", LEASE, f"has {name}"), None)
        )
        for name, wanted in asked.items()
    ]
    await waits(locks, "b")
    await waits(locks, "c")
    with pytest.raises(DeadlockError, match=r"'has c' .* waits for 'a'") as caught:
        await locks.acquire("a", owner="has c")
    assert caught.value.cycle == (("has c", "a"), ("has a", "b"), ("has b", "c"))
    await held["c"].release()
    assert (await waiting[1]).resource == "c"
    await held["b"].release()
    assert (await waiting[0]).resource == "b"


async def test_two_who_share_and_both_want_to_be_alone_do_not_wait_for_ever(store):
    locks = store.locks
    ann = await locks.acquire("r", mode="shared", owner="ann")
    await locks.acquire("r", mode="shared", owner="ben")
    upgrade = asyncio.ensure_future(
        locks._acquired(locks._asked("r", "exclusive", LEASE, "ben"), None)
    )
    await waits(locks, "r")
    with pytest.raises(DeadlockError):
        await locks.acquire("r", owner="ann")
    await ann.release()
    assert (await upgrade).mode == "exclusive"


async def test_what_one_owner_holds_does_not_keep_that_owner_from_more(store):
    async with store.locks.acquire("r", owner="ann") as outer:
        async with store.locks.acquire("r", owner="ann") as inner:
            assert inner.token > outer.token
        assert await outer.is_held()
        assert await store.locks.try_acquire("r", owner="ben") is None


async def test_each_task_is_an_owner_of_its_own(store):
    async def ask():
        return await store.locks.try_acquire("r")

    async with store.locks.acquire("r"):
        assert await asyncio.create_task(ask()) is None
        assert await ask() is not None


# Modes


async def test_builds_tests_and_work_with_git_exclude_each_other_as_is_said(store):
    excluded = {
        ("build", "build_test"),
        ("test", "build_test"),
        ("git_index", "git_commit"),
        ("git_index", "git_remote_merge"),
        ("git_index", "git_destructive"),
        ("git_commit", "git_destructive"),
        *itertools.product(
            ("build", "test", "build_test"), ("git_remote_merge", "git_destructive")
        ),
    }
    work = [mode for mode in STANDARD_CONFLICTS.modes if mode not in ("exclusive", "shared")]
    assert len(work) == 7
    for one, other in itertools.product(work, work):
        expected = one == other or (one, other) in excluded or (other, one) in excluded
        assert STANDARD_CONFLICTS.are_between(one, other) == expected, (one, other)
    async with store.locks.acquire("/project", mode="build", owner="ann"):
        assert await store.locks.try_acquire("/project", mode="build_test", owner="ben") is None
        assert await store.locks.try_acquire("/project", mode="git_index", owner="ben")
        assert await store.locks.try_acquire("/other", mode="build", owner="ben")


async def test_modes_may_be_one_s_own(store):
    locks = store.locks.using(Conflicts({"edit": ["print"], "print": [], "read": []}))
    async with locks.acquire("page", mode="edit", owner="ann"):
        assert await locks.try_acquire("page", mode="print", owner="ben") is None
        assert await locks.try_acquire("page", mode="edit", owner="ben") is not None
        with pytest.raises(InvalidRequestError, match="use one of edit, print, read"):
            await locks.try_acquire("page", mode="exclusive")
        # Who has another table does not know what such a mode is.
        assert await store.locks.try_acquire("page", mode="shared", owner="eve") is None


# Losing it


async def test_a_lock_that_is_held_is_renewed(store):
    lock = await store.locks.acquire("r", owner="ann", lease=timedelta(seconds=3))
    first = await lock._ticket()

    async def was_renewed():
        return (await lock._ticket()).ticks > first.ticks

    await until(was_renewed)


async def test_a_lock_whose_lease_is_over_is_taken_and_its_writes_are_refused(store):
    old = await store.locks.acquire("r", owner="ann")
    with old.fencing():
        await store.history.append("ann", Message.user("in time"), session_id="s")
    await lapse(old)
    (info,) = await store.locks.list()
    assert info.is_stale
    new = await store.locks.acquire("r", owner="ben", wait=AT_ONCE)
    assert new.token > old.token
    with old.fencing():
        with pytest.raises(StaleLockError, match=f"'r' with token {old.token} is held no more"):
            await store.history.append("ann", Message.user("late"), session_id="s")
        with pytest.raises(StaleLockError):
            await store.history.append_many("ann", [Message.user("late")] * 300, session_id="s")
        with pytest.raises(StaleLockError):
            await store.memory.add(["late"], user_id="ann")
    with new.fencing():
        await store.history.append("ann", Message.user("new"), session_id="s")
    kept = await store.history.get_messages("ann", session_id="s")
    assert [one.text for one in kept] == ["in time", "new"]
    with pytest.raises(StaleLockError, match="lost before it was released"):
        await old.__aexit__(None, None, None)
    with pytest.raises(StaleLockError):
        await old.renew()
    assert await new.is_held()


async def test_force_release_takes_it_from_whoever_holds_it(store):
    with pytest.raises(StaleLockError, match="force_release"):  # noqa: PT012 - at its end
        async with store.locks.acquire("r", owner="ann") as lock:
            assert await store.locks.force_release("r", token=lock.token + 1) == 0
            assert await store.locks.force_release("r", token=lock.token) == 1
            assert await store.locks.force_release("r") == 0
            assert await store.locks.try_acquire("r", owner="ben")


async def test_what_fails_in_the_block_is_told_and_not_that_the_lock_was_lost(store):
    with pytest.raises(KeyError):  # noqa: PT012 - and nothing else at its end
        async with store.locks.acquire("r", owner="ann"):
            await store.locks.force_release("r")
            raise KeyError


async def test_stats_tell_what_is_held_waited_for_and_stale(store):
    locks = store.locks
    none = await locks.stats()
    assert (none.n_held, none.n_waiting, none.n_stale, none.oldest) == (0, 0, 0, None)
    await lapse(await locks.acquire("r", mode="shared", owner="ann"))
    await locks.acquire("s", owner="ben")
    stats = await locks.stats()
    assert (stats.n_held, stats.n_waiting, stats.n_stale) == (2, 0, 1)
    assert stats.by_mode == {"shared": 1, "exclusive": 1}
    assert stats.oldest.owner == "ann"
    assert await locks.release_stale() == 1
    assert [one.owner for one in await locks.list()] == ["ben"]


async def test_a_clock_that_jumps_takes_no_lock_from_a_process_of_this_machine(store, clock):
    async with store.locks.acquire("r", owner="ann") as lock:
        clock.advance(days=400)
        assert await lock.is_held()
        clock.advance(days=-800)
        assert await store.locks.try_acquire("r", owner="ben") is None


async def test_who_slept_past_his_lease_has_lost_the_lock_and_his_late_write_is_refused(
    store, monkeypatch
):
    """A machine that sleeps renews nothing; its boot is as long ago as if it had not slept."""
    lock = await store.locks.acquire("r", owner="ann")
    ticks = leases.ticks
    monkeypatch.setattr(leases, "ticks", lambda: ticks() + 3600)
    # As it wakes up it would renew all that it holds.
    await lock._keeper.renew()
    assert not await lock.is_held()
    with lock.fencing(), pytest.raises(StaleLockError):
        await store.history.append("ann", Message.user("late"), session_id="s")
    async with store.locks.acquire("r", owner="ben", wait=AT_ONCE) as other:
        assert other.token > lock.token
    assert await store.history.count("ann", session_id="s") == 0


# Requests


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"resource": ""}, "resource is empty"),
        ({"resource": "a\0b"}, "NUL"),
        ({"resource": 7}, "resource must be a str"),
        ({"mode": "write"}, "mode='write': use one of exclusive, shared"),
        ({"mode": None}, "mode=None"),
        ({"lease": timedelta(0)}, "lease="),
        ({"lease": timedelta(days=36_500)}, "lease="),
        ({"lease": 30}, "lease=30"),
        ({"wait": timedelta(-1)}, "wait="),
        ({"wait": 1}, "wait=1"),
        ({"owner": ""}, "owner is empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
async def test_a_wrong_request_is_refused_before_anything_is_written(store, request_, message):
    with pytest.raises(InvalidRequestError, match=message):
        await store.locks.acquire(**{"resource": "r", **request_})
    assert await store.locks.list() == []


async def test_names_may_hold_quotes_and_any_letters(store):
    for name in ("it's", 'a "b"', "ä\n\u2028", "%_;--", "x" * 3_000):
        async with store.locks.acquire(name, owner=name):
            (info,) = await store.locks.list(name)
            assert (info.resource, info.owner) == (name, name)


@pytest.mark.parametrize("table", [{}, None, {"a": ["b"]}, {"": []}, {"a": "a"}])
async def test_conflicts_name_modes_that_there_are(table):
    with pytest.raises(InvalidRequestError):
        Conflicts(table)


async def test_locks_are_the_same_on_every_branch_and_are_not_taken_in_the_past(store):
    await store.history.append("ann", Message.user("one"), session_id="s")
    branch = await store.create_branch("try")
    async with store.locks.acquire("r", owner="ann"):
        assert await branch.locks.try_acquire("r", owner="ben") is None
    past = await store.checkout(await store.version())
    with pytest.raises(ReadOnlyError):
        await past.locks.acquire("r")

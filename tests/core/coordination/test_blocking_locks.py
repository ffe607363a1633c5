"""Locks by blocking calls, which are taken in the caller's own thread where nobody is in the way."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from lance_context_core import ContextStore
from lance_context_core.coordination.locks import AsyncLocks
from lance_context_core.errors import (
    InvalidRequestError,
    LockTimeoutError,
    NotFoundError,
    StaleLockError,
    StorageError,
)
from lance_context_core.storage.leases import LeaseRenewer

AT_ONCE = timedelta(0)


@pytest.fixture
def store(tmp_path):
    with ContextStore.open(tmp_path / "store") as opened:
        yield opened


def test_threads_have_a_lock_one_after_the_other(store):
    count = {"inside": 0, "most": 0, "done": 0}

    def work(_):
        for _ in range(20):
            with store.locks.acquire("file"):
                count["inside"] += 1
                count["most"] = max(count["most"], count["inside"])
                count["done"] += 1
                count["inside"] -= 1

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert count == {"inside": 0, "most": 1, "done": 80}
    assert store.locks.list() == []


def test_who_is_in_the_way_is_waited_for_and_named(store):
    held = store.locks.acquire("file", owner="ann")
    with pytest.raises(LockTimeoutError, match="'ann'"):
        store.locks.acquire("file", owner="ben", wait=AT_ONCE)
    assert store.locks.try_acquire("file", owner="ben") is None
    timer = threading.Timer(0.05, held.release)
    timer.start()
    with store.locks.acquire("file", owner="ben") as lock:
        assert lock.token > held.token
    timer.join()


def test_a_block_whose_lock_was_lost_says_so_unless_something_else_failed(store):
    with pytest.raises(StaleLockError), store.locks.acquire("file"):
        store.locks.force_release("file")
    with pytest.raises(NotFoundError), store.locks.acquire("file"):
        store.locks.force_release("file") and store.tasks.board().get("nothing")
    lock = store.locks.acquire("file")
    assert lock.release()
    assert not lock.release()


def test_any_number_of_locks_are_taken_and_given_back(store):
    tokens = []
    for _ in range(300):  # the log of the journal is looked at in between
        with store.locks.acquire("file") as lock:
            tokens.append(lock.token)
    assert tokens == sorted(set(tokens))


def test_a_lock_that_was_taken_in_a_thread_is_renewed(store):
    with store.locks.acquire("file", lease=timedelta(milliseconds=300)) as lock:
        threading.Event().wait(0.6)
        assert lock.is_held()


@pytest.mark.parametrize("error", [StorageError("busy"), OSError("busy")])
def test_a_lock_is_renewed_again_after_a_renewal_failed(store, monkeypatch, error):
    renew, calls, went_on = LeaseRenewer.renew, [], threading.Event()

    async def flaky(self):
        calls.append(self)
        if len(calls) == 1:
            raise error
        await renew(self)
        went_on.set()

    monkeypatch.setattr(LeaseRenewer, "renew", flaky)
    lock = store.locks.acquire("file", lease=timedelta(seconds=1))
    assert went_on.wait(60)
    lock.release()


def test_who_replaces_the_method_is_asked(store, monkeypatch):
    asked, acquire = [], AsyncLocks.acquire

    def told(self, resource, **given):
        asked.append(resource)
        return acquire(self, resource, **given)

    monkeypatch.setattr(AsyncLocks, "acquire", told)
    for _ in range(2):
        store.locks.acquire("file").release()
    assert asked == ["file", "file"]


def test_a_wrong_request_is_refused_once_there_are_locks(store):
    store.locks.acquire("file").release()
    for given in ({"lease": AT_ONCE}, {"mode": "mine"}, {"wait": 3}, {"owner": ""}):
        with pytest.raises(InvalidRequestError):
            store.locks.acquire("file", **given)
    assert store.locks.list() == []

"""Closed handles, threads, event loops and cancelled calls: no hang, and no half of a write."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest
from adapters.crewai.samples import contents, found_in, record, vector
from crewai_lance_context import LanceFlowPersistence, LanceKnowledgeStorage, LanceMemoryStorage

from lance_context_core.errors import StorageError, StoreClosedError


def test_it_closes_what_it_opened_and_nothing_else(place, store):
    for made in (LanceMemoryStorage, LanceFlowPersistence, LanceKnowledgeStorage):
        made(store).close()
    storage = LanceMemoryStorage(store)
    storage.save([record("tea")])
    assert store.memory.list().total == 1
    with LanceFlowPersistence(place) as flows:
        assert flows.load_state("1") is None
    with pytest.raises(StoreClosedError):
        flows.save_state("1", "m", {})
    store.close()
    for attempt in (storage.count, lambda: storage.save([record("milk")])):
        with pytest.raises(StorageError, match="closed"):
            attempt()


def test_a_copy_is_the_same_storage(storage, flows, store):
    for one in (storage, flows, LanceKnowledgeStorage(store)):
        assert deepcopy([one])[0] is one


def test_threads_and_event_loops_lose_nothing(storage, flows):
    def work(n):
        storage.save([record(f"blocking {n}")])
        flows.save_state(f"{n}", "m", {"n": n})
        asyncio.run(storage.asave([record(f"awaited {n}")]))
        return found_in(storage, f"blocking {n}", limit=1)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(16)))
    assert found == [[f"blocking {n}"] for n in range(16)]
    expected = {f"{how} {n}" for how in ("blocking", "awaited") for n in range(16)}
    assert set(contents(storage.list_records())) == expected
    assert [flows.load_state(f"{n}") for n in range(16)] == [{"n": n} for n in range(16)]


def test_a_cancelled_save_is_whole_or_absent(storage, store):
    async def run(delay):
        task = asyncio.ensure_future(
            storage.asave([record("tea", id=f"{delay}{n}") for n in range(20)])
        )
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for delay in (0, 0.001, 0.004):
        asyncio.run(run(delay))
    counted = storage.count()
    assert counted in (0, 20, 40, 60)
    assert len(storage.search(vector("tea"), limit=100)) == store.memory.list().total == counted

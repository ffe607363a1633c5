"""Small puts that are written in the caller's thread: what threads, folds and other stores do to them."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lance_context_core import ContextStore, Item
from lance_context_core.errors import ConflictError, InvalidRequestError, StoreClosedError
from lance_context_core.settings import JournalPolicy
from lance_context_core.stores.key_values import AsyncKeyValues

SMALL = JournalPolicy(rows=16)
"""A fold now and then, while others write."""
N_THREADS, N_EACH = 4, 32


def item(key, n):
    return Item(namespace=("n",), key=key, value={"n": n})


def test_a_put_goes_no_way_to_the_loop_once_the_table_is_known(tmp_path, hops):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item("a", 1)])
        kv.put([item("b", 1)])
        hops.clear()
        kv.put([item("c", 1), item("a", 2), item("a", 3)])
        assert not hops
        assert [(one.key, one.value["n"]) for one in kv.list()] == [("a", 3), ("b", 1), ("c", 1)]


def test_a_put_replaces_what_was_folded(tmp_path):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item("a", 1)])
        (first,) = kv.list()
        store.flush()
        kv.put([item("b", 1)])
        kv.put([item("a", 2)])
        store.flush()
        (a, b) = kv.list()
        assert (a.value, a.created_at, b.key) == ({"n": 2}, first.created_at, "b")


def test_what_takes_the_place_of_a_call_is_called(tmp_path, monkeypatch):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item("a", 1)])
        told = []
        put = AsyncKeyValues.put

        async def telling(self, items):
            told.append(len(items))
            await put(self, items)

        monkeypatch.setattr(AsyncKeyValues, "put", telling)
        kv.put([item("b", 1), item("c", 1)])
        assert told == [2]


@pytest.mark.parametrize(
    "items", [[item("a\0", 1)], [None], [item("a", 1), "b"]], ids=["NUL", "nothing", "a text"]
)
def test_a_put_that_cannot_be_understood_writes_nothing(tmp_path, items):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item("z", 1)])
        kv.put([item("z", 2)])
        with pytest.raises(InvalidRequestError, match=r"items\["):
            kv.put(items)
        assert [one.key for one in kv.list()] == ["z"]


def test_a_closed_store_takes_no_put(tmp_path):
    store = ContextStore.open(tmp_path)
    kv = store.kv("k")
    kv.put([item("a", 1)])
    kv.put([item("b", 1)])
    store.close()
    with pytest.raises(StoreClosedError):
        kv.put([item("c", 1)])


def test_threads_lose_nothing_while_others_write_fold_and_maintain(tmp_path):
    opened = [ContextStore.open(tmp_path, journal=SMALL) for _ in range(2)]
    is_done = threading.Event()

    def put(number):
        kv = opened[number % 2].kv("k")
        for n in range(N_EACH):
            kv.put([item(f"{number} {n}", n), item("shared", n)])
            (mine,) = kv.get([(("n",), f"{number} {n}")])
            assert mine.value == {"n": n}

    def count(number):
        """Add to one number, as often as nobody was faster."""
        kv, done = opened[number % 2].kv("k"), 0
        while done < N_EACH // 4:
            (there,) = kv.get([(("n",), "sum")])
            new = 1 if there is None else there.value["n"] + 1
            revision = None if there is None else there.revision
            with contextlib.suppress(ConflictError):
                kv.write(puts=[item("sum", new)], expected={(("n",), "sum"): revision})
                done += 1

    async def put_beside():
        kv = opened[0].aio.kv("k")
        for n in range(N_EACH):
            await kv.put([item(f"awaited {n}", n), item("shared", n)])

    def fold():
        while not is_done.is_set():
            opened[0].flush()
            opened[1].maintain()

    with ThreadPoolExecutor(N_THREADS + 4) as threads:
        folding = threads.submit(fold)
        work = [threads.submit(put, number) for number in range(N_THREADS)]
        work += [threads.submit(count, number) for number in range(2)]
        work.append(threads.submit(lambda: asyncio.run(put_beside())))
        try:
            for one in work:
                one.result(timeout=300)
        finally:
            is_done.set()
        folding.result(timeout=300)
    for store in opened:
        store.close()

    with ContextStore.open(tmp_path) as store:
        values = {one.key: one.value["n"] for one in store.kv("k").list()}
    expected = {f"{thread} {n}": n for thread in range(N_THREADS) for n in range(N_EACH)}
    expected |= {f"awaited {n}": n for n in range(N_EACH)}
    expected |= {"sum": 2 * (N_EACH // 4), "shared": values["shared"]}
    assert values == expected

"""Items that are known in memory: they cost no look at the disk, and are what a look would find."""

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core import AsyncContextStore, ContextStore, Item
from lance_context_core.errors import StorageError, StoreClosedError
from lance_context_core.storage import row_cache
from lance_context_core.storage.lance import reads as reading
from lance_context_core.storage.wal.transactions import Transactions

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
KEY = (("n",), "a")


class Clock:
    """Says what it is told."""

    def __init__(self):
        self.time = NOON

    def now(self):
        return self.time


@pytest.fixture
def reads(monkeypatch):
    """How often the engine was asked for rows."""
    seen = []
    scan = reading.scan

    async def counted(*arguments, **options):
        seen.append(arguments)
        return await scan(*arguments, **options)

    monkeypatch.setattr(reading, "scan", counted)
    return seen


def item(key="a", n=1, **more):
    return Item(namespace=("n",), key=key, value={"n": n}, **more)


def value(found):
    (one,) = found
    return None if one is None else one.value["n"]


def test_what_was_written_is_known_without_the_loop_and_the_disk(tmp_path, reads, hops):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item("a"), item("b", 2)])
        hops.clear()
        assert [one.value for one in kv.get([(("n",), "b"), KEY])] == [{"n": 2}, {"n": 1}]
        assert not hops
        assert not reads


def test_that_there_is_none_is_known_until_another_store_writes_one(tmp_path, hops):
    with ContextStore.open(tmp_path) as store, ContextStore.open(tmp_path) as other:
        kv = store.kv("k")
        kv.put([item("a")])
        kv.put([item("b")])
        hops.clear()
        assert kv.get([(("n",), "c")]) == [None]
        assert not hops
        other.kv("k").put([item("c", 3)])
        assert value(kv.get([(("n",), "c")])) == 3
        other.kv("k").put([item("d", 4)])
        other.flush()
        assert value(kv.get([(("n",), "d")])) == 4


def test_what_was_folded_is_read_once(tmp_path, reads, hops):
    with ContextStore.open(tmp_path) as store:
        store.kv("k").put([item()])
        store.flush()
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        first = kv.get([KEY, (("n",), "none")])
        assert len(reads) == 1
        hops.clear()
        assert kv.get([KEY, (("n",), "none")]) == first
        assert kv.get([KEY]) == first[:1]
        assert not hops
        assert len(reads) == 1
        assert first == [kv.list()[0], None]


def named(n):
    return (("n",), f"{n}")


def laid(folder, n_items, **more):
    """A store with that many items, in its table alone, which nothing has read yet."""
    with ContextStore.open(folder) as store:
        store.kv("k").put([item(f"{n}", n, **more) for n in range(n_items)])
        store.flush()
    return ContextStore.open(folder)


def test_the_first_read_of_a_small_table_reads_all_of_it(tmp_path, reads, hops):
    with laid(tmp_path, 40) as store:
        kv = store.kv("k")
        assert value(kv.get([named(7)])) == 7
        assert len(reads) == 1
        hops.clear()
        assert [value(kv.get([named(n)])) for n in range(39)] == [*range(39)]
        assert kv.get([named(40), named(39)])[0] is None
        assert not hops
        assert len(reads) == 1
        assert {one.key: one for one in kv.get([named(n) for n in range(40)])} == {
            one.key: one for one in kv.list()
        }


@pytest.mark.parametrize("is_folded", [False, True], ids=["in the log", "flushed"])
def test_what_is_written_since_a_table_was_read_is_seen(tmp_path, is_folded):
    with laid(tmp_path, 6) as store, ContextStore.open(tmp_path) as other:
        kv = store.kv("k")
        assert value(kv.get([named(0)])) == 0
        other.kv("k").put([item("1", 11), item("9", 9)])
        other.kv("k").append([item("8", 8)])
        other.kv("k").delete([named(2), named(9)])
        kv.put([item("3", 13)])
        other.kv("k").delete([named(4)])
        kv.put([item("4", 14)])
        if is_folded:
            other.flush()
        found = kv.get([named(n) for n in range(10)])
        expected = [0, 11, None, 13, 14, 5, None, None, 8, None]
        assert [one and one.value["n"] for one in found] == expected


def test_what_was_evicted_is_read_as_it_was_last_written(tmp_path, monkeypatch):
    monkeypatch.setattr(row_cache, "_MOST_ROWS", 3)
    with laid(tmp_path, 20) as store:
        kv = store.kv("k")
        assert value(kv.get([named(0)])) == 0
        kv.put([item("0", 100), item("30", 30)])
        kv.delete([named(1)])
        assert [value(kv.get([named(n)])) for n in range(2, 20)] == [*range(2, 20)]
        store.flush()
        found = kv.get([named(0), named(1), named(30), named(31)])
        assert [one and one.value["n"] for one in found] == [100, None, 30, None]


def test_a_larger_table_is_read_whole_once_single_reads_have_cost_as_much(
    tmp_path, reads, monkeypatch
):
    monkeypatch.setattr(row_cache, "_ROWS_PER_READ", 10)
    with laid(tmp_path, 40) as store:
        n_reads = []
        for n in range(6):
            assert value(store.kv("k").get([named(n)])) == n
            n_reads.append(len(reads))
    assert n_reads == [1, 2, 3, 4, 4, 4]


@pytest.mark.parametrize("is_large", [True, False], ids=["too large", "two rows of a key"])
def test_a_table_that_cannot_be_kept_whole_is_read_row_by_row(
    tmp_path, reads, monkeypatch, is_large
):
    if is_large:
        monkeypatch.setattr(row_cache, "_MOST_ALL_BYTES", 3_000)
    with laid(tmp_path, 40) as store:
        if not is_large:
            store.kv("k").append([item("0", 100)])
            store.flush()
        kv = store.kv("k")
        assert [value(kv.get([named(n)])) for n in range(5, 9)] == [5, 6, 7, 8]
        assert len(reads) == 4 + (not is_large)
        assert value(kv.get([named(0)])) == (0 if is_large else 100)


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda kv: kv.put([item("1", 11)]), 11),
        (lambda kv: kv.delete([named(1)]), None),
        (lambda kv: kv.delete_under(("n",)), None),
    ],
    ids=["put", "deleted", "all deleted"],
)
def test_what_is_written_while_a_table_is_read_whole_is_seen(tmp_path, monkeypatch, act, expected):
    laid(tmp_path, 6).close()
    monkeypatch.setattr(row_cache, "_MOST_ROWS", 1)
    scan = reading.scan

    async def run():
        async with AsyncContextStore.open(tmp_path) as store, AsyncContextStore.open(tmp_path) as o:
            kv = store.kv("k")

            async def meanwhile(*arguments, **options):
                monkeypatch.setattr(reading, "scan", scan)
                rows = await scan(*arguments, **options)
                await act(o.kv("k"))
                # Now the cache has read of it, and evicted it.
                await kv.get([named(2)])
                return rows

            monkeypatch.setattr(reading, "scan", meanwhile)
            await kv.get([named(0)])
            assert value(await kv.get([named(1)])) == expected

    asyncio.run(run())


def test_a_table_that_was_read_whole_is_forgotten_also_during_the_read(tmp_path, monkeypatch):
    laid(tmp_path, 6).close()
    scan = reading.scan

    async def run(is_meanwhile):
        async with AsyncContextStore.open(tmp_path) as store:
            kv = store.kv("k")

            async def meanwhile(*arguments, **options):
                monkeypatch.setattr(reading, "scan", scan)
                rows = await scan(*arguments, **options)
                if is_meanwhile:
                    kv._table.remembered.forget()
                return rows

            monkeypatch.setattr(reading, "scan", meanwhile)
            await kv.get([named(0)])
            assert (kv._table.remembered._all is None) == is_meanwhile
            kv._table.remembered.forget()
            assert kv._table.remembered._all is None

    asyncio.run(run(False))
    asyncio.run(run(True))


def test_a_table_that_cannot_be_read_whole_is_read_row_by_row(tmp_path, monkeypatch):
    async def refused(*_, **__):
        raise StorageError("a file is damaged")

    with laid(tmp_path, 6) as store:
        kv = store.kv("k")
        monkeypatch.setattr(kv._aio._table, "select", refused)
        assert [value(kv.get([named(n)])) for n in range(6)] == [*range(6)]


def test_an_item_that_was_folded_is_replaced_without_a_look_at_the_disk(tmp_path, reads):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item()])
        (before,) = kv.get([KEY])
        store.flush()
        reads.clear()
        kv.put([item(n=2)])
        (after,) = kv.get([KEY])
        assert not reads
        assert (after.value, after.created_at) == ({"n": 2}, before.created_at)
        assert after.revision != before.revision


@pytest.mark.parametrize("is_folded", [False, True], ids=["in the journal", "folded"])
def test_a_put_and_a_deletion_see_what_another_store_wrote_just_before(tmp_path, is_folded):
    with ContextStore.open(tmp_path) as store, ContextStore.open(tmp_path) as other:
        kv = store.kv("k")
        kv.put([item("a")])
        kv.put([item("b")])
        other.kv("k").put([item("c", 3)])
        if is_folded:
            other.flush()
        (first,) = other.kv("k").get([(("n",), "c")])
        kv.put([item("c", 4)])
        (after,) = kv.get([(("n",), "c")])
        assert (after.value, after.created_at) == ({"n": 4}, first.created_at)
        other.kv("k").put([item("d")])
        assert kv.delete([(("n",), "d"), (("n",), "e")]) == [True, False]
        assert kv.add([item("c"), item("d", 5)]) == [False, True]
        assert kv.count() == 4


def test_a_small_write_asks_the_journal_once(tmp_path, monkeypatch):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item("a")])
        kv.put([item("b")])
        asked = []

        def watched(name):
            do = getattr(Transactions, name)

            def counted(self, *arguments, **options):
                asked.append(name)
                return do(self, *arguments, **options)

            monkeypatch.setattr(Transactions, name, counted)

        for name in ("view", "news", "write"):
            watched(name)
        kv.put([item("c")])
        kv.put([item("b", 2)])
        assert asked == ["write", "write"]


def test_what_a_caller_does_to_an_item_stays_with_the_caller(tmp_path):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item()])
        kv.get([KEY])[0].value["n"] = "mine"
        assert value(kv.get([KEY])) == 1


def test_what_expires_is_gone_when_it_does(tmp_path):
    clock = Clock()
    with ContextStore.open(tmp_path, clock=clock) as store:
        kv = store.kv("k")
        kv.put([item(expires_at=NOON + timedelta(hours=1))])
        assert value(kv.get([KEY])) == 1
        clock.time = NOON + timedelta(hours=2)
        assert kv.get([KEY]) == [None]


def test_an_item_of_a_tenant_is_known_to_nobody_else(tmp_path):
    with ContextStore.open(tmp_path) as store:
        mine, other = (store.scope(tenant=one).kv("k") for one in ("mine", "other"))
        mine.put([item()])
        assert value(mine.get([KEY])) == 1
        assert other.get([KEY]) == store.kv("k").get([KEY]) == [None]


@pytest.mark.parametrize("is_folded", [True, False], ids=["folded", "in the journal"])
def test_nothing_of_an_erased_item_stays_in_memory(tmp_path, is_folded):
    secret = "the heron's name is Ottokar"
    with ContextStore.open(tmp_path) as store:
        kv = store.scope(user_id="u").kv("k")
        kv.put([Item(namespace=("n",), key="a", value={"secret": secret})])
        if is_folded:
            store.flush()
        assert kv.get([KEY])[0].value == {"secret": secret}
        table = kv._aio._table.remembered
        assert table._known
        store.scope(user_id="u").erase()
        assert secret not in repr(table._known)
        assert table._all is None
        assert kv.get([KEY]) == [None]


def test_nothing_stays_of_an_item_that_another_process_erased(tmp_path):
    with ContextStore.open(tmp_path) as store, ContextStore.open(tmp_path) as other:
        kv = store.scope(user_id="u").kv("k")
        kv.put([item(n="Ottokar")])
        store.flush()
        assert value(kv.get([KEY])) == "Ottokar"
        other.scope(user_id="u").erase()
        assert kv.list(key_prefix="a") == []
        assert "Ottokar" not in repr(kv._aio._table.remembered._known)
        assert kv._aio._table.remembered._all is None


def test_what_another_program_writes_into_the_table_is_seen(tmp_path):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item()])
        store.flush()
        assert value(kv.get([KEY])) == 1
        with ContextStore.open(tmp_path, journal=None) as other:
            other.kv("k").put([item(n=2)])
        assert value(kv.get([KEY])) == 2


def test_a_restored_version_is_what_is_read(tmp_path):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item()])
        store.tag("before")
        kv.put([item(n=2)])
        assert value(kv.get([KEY])) == 2
        store.restore("before")
        assert value(kv.get([KEY])) == 1
        assert value(store.checkout("before").kv("k").get([KEY])) == 1


def test_the_later_of_two_under_one_key_is_found(tmp_path):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        for n in (1, 2):
            kv.append([item(n=n)])
        assert value(kv.get([KEY])) == 2
        store.flush()
        assert value(kv.get([KEY])) == value(kv.get([KEY])) == 2
        kv.append([item(n=3)])
        assert value(kv.get([KEY])) == 3
        kv.delete([KEY])
        assert kv.get([KEY]) == [None]


def test_large_items_are_not_kept_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(row_cache, "_MOST_ROW_BYTES", 2_000)
    monkeypatch.setattr(row_cache, "_MOST_BYTES", 5_000)
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item(data=b"x" * 3_000), *(item(f"{n}") for n in range(20))])
        known = kv._aio._table.remembered
        assert kv.get([KEY])[0].data == b"x" * 3_000
        assert [value(kv.get([(("n",), f"{n}")])) for n in range(20)] == [1] * 20
        assert 0 < known._n_bytes <= 5_000
        assert sum(one.n_bytes for one in known._known.values()) == known._n_bytes
        assert kv.get([KEY])[0].data == b"x" * 3_000


def test_a_closed_store_tells_nothing(tmp_path):
    with ContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        kv.put([item()])
        assert value(kv.get([KEY])) == 1
    with pytest.raises(StoreClosedError):
        kv.get([KEY])


KEYS = [(("n",), "a"), (("n",), "b"), (("n", "o"), "a")]
sides = st.sampled_from(["one", "two", "plain"])
keys = st.sampled_from(KEYS)
acts = st.one_of(
    st.tuples(sides, st.just("put"), keys, st.integers(0, 9)),
    st.tuples(sides, st.just("add"), keys, st.integers(0, 9)),
    st.tuples(sides, st.just("append"), keys, st.integers(0, 9)),
    st.tuples(sides, st.just("delete"), keys, st.none()),
    st.tuples(sides, st.just("mortal"), keys, st.integers(0, 3)),
    st.tuples(sides, st.sampled_from(["flush", "sweep", "maintain", "erase"]), keys, st.none()),
    st.tuples(sides, st.just("wait"), keys, st.none()),
)


@pytest.mark.slow
@given(st.lists(acts, min_size=3, max_size=14), st.sampled_from([(0, 9), (9, 9), (9, 1)]))
def test_whoever_wrote_it_and_however_it_is_what_is_there(given_acts, bounds):
    async def run(folder):
        clock, oracle = Clock(), {}
        stores = {
            name: AsyncContextStore.open(folder, clock=clock, **options)
            for name, options in (("one", {}), ("two", {}), ("plain", {"journal": None}))
        }
        blocking = {name: ContextStore(store) for name, store in stores.items()}
        for side, act, key, number in given_acts:
            store, kv = stores[side], stores[side].kv("k")
            now = clock.now()
            oracle = {k: v for k, v in oracle.items() if v[1] is None or v[1] > now}
            written = Item(namespace=key[0], key=key[1], value={"n": number})
            match act:
                case "put":
                    await kv.put([written])
                    oracle[key] = number, None
                case "add":
                    assert await kv.add([written]) == [key not in oracle]
                    oracle.setdefault(key, (number, None))
                case "append":
                    # Promised alone of keys that are new.
                    if key not in oracle:
                        await kv.append([written])
                        oracle[key] = number, None
                case "mortal":
                    end = now + timedelta(minutes=number + 1)
                    await kv.put(
                        [Item(key=key[1], namespace=key[0], value={"n": 0}, expires_at=end)]
                    )
                    oracle[key] = 0, end
                case "delete":
                    assert await kv.delete([key]) == [oracle.pop(key, None) is not None]
                case "flush" | "maintain":
                    await getattr(store, act)()
                case "sweep":
                    await kv.sweep()
                case "erase":
                    await kv.delete_under(("n", "o"))
                    oracle = {k: v for k, v in oracle.items() if k[0] != ("n", "o")}
                case "wait":
                    clock.time += timedelta(minutes=2)
            now = clock.now()
            expected = [
                None if k not in oracle or (oracle[k][1] or datetime.max.replace(tzinfo=UTC)) <= now else oracle[k][0]
                for k in KEYS
            ]  # fmt: skip
            for name, one in stores.items():
                found = await one.kv("k").get(KEYS)
                assert [item and item.value["n"] for item in found] == expected, name
                known = await asyncio.to_thread(blocking[name].kv("k").get, KEYS)
                assert [item and item.value["n"] for item in known] == expected, name
        for one in stores.values():
            await one.close()

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        for name, bound in zip(("_ROWS_PER_READ", "_MOST_ROWS"), bounds, strict=True):
            patched.setattr(row_cache, name, bound)
        asyncio.run(run(Path(folder)))

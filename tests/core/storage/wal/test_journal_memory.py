"""What a process remembers of the journal is bounded, and nobody misses what it lets go of."""

import pytest
from core.storage.journaling import read, say

from lance_context_core import Item
from lance_context_core.storage import key_filter
from lance_context_core.storage.key_filter import Budget
from lance_context_core.storage.wal import log_reader
from lance_context_core.storage.wal import log_reader as lately

TEXTS = [f"{n}" for n in range(6)]


def remembered(store):
    """The mirrors, and what is known of folded entries."""
    mirrors = store._resources.database.connection.journal.mirrors
    return mirrors._mirrors, mirrors._past


async def say_all(store):
    for text in TEXTS:
        await say(store, text)


@pytest.mark.parametrize("most", [10_000, 500, 0], ids=["all", "a few", "none"])
async def test_a_page_that_was_folded_since_its_ids_were_read_is_whole(store, most, monkeypatch):
    monkeypatch.setattr(lately, "_MOST_BYTES_OF_PAST", most)
    await say(store, "in the table")
    await store.flush()
    await say_all(store)
    table = store._resources.records
    ids = (await table.select(None, columns=[]))["_rowid"].to_pylist()[::-1]
    await store.flush()
    await say(store, "later")
    rows = await table.take(ids, columns=["id", "text"])
    assert rows["_rowid"].to_pylist() == ids
    assert rows["text"].to_pylist() == [*reversed(TEXTS), "in the table"]
    assert rows.schema == (await table.take(ids[-1:], columns=["id", "text"])).schema
    without_keys = await table.take(ids[:-1], columns=["text"])
    assert without_keys["text"].to_pylist() == TEXTS[::-1]


async def test_of_what_is_folded_so_much_is_remembered_and_no_more(store, monkeypatch):
    monkeypatch.setattr(lately, "_MOST_BYTES_OF_PAST", 1500)
    monkeypatch.setattr(lately, "_MOST_KEYS", 5)
    n_entries = set()
    for _ in range(3):
        await say_all(store)
        await store.kv().put([Item(key=text, value={"n": 1}) for text in TEXTS[:3]])
        await store.flush()
        await read(store)
        _, past = remembered(store)
        sizes = [entry.size for entry in past._entries.values()]
        assert sum(sizes) == past._n_bytes <= 1500
        assert len(past._keys) <= 5
        n_entries.add(len(sizes))
    assert max(n_entries) < 3 * len(TEXTS)
    assert min(n_entries) > 0


@pytest.mark.parametrize(("n_tables", "n_bytes"), [(2, 1 << 20), (1024, 300)])
async def test_of_many_tables_those_are_remembered_that_were_asked_for_last(
    store, n_tables, n_bytes, monkeypatch
):
    monkeypatch.setattr(log_reader, "_MOST_TABLES", n_tables)
    monkeypatch.setattr(log_reader, "_MOST_BYTES", n_bytes)
    names = [f"name{n}" for n in range(5)]
    for n in range(3):
        for name in names:
            assert await store.kv(name).add([Item(key=f"{n}", value={"of": name})]) == [True]
            assert await store.kv(name).add([Item(key=f"{n}", value={})]) == [False]
            mirrors, _ = remembered(store)
            assert len(mirrors) <= n_tables
            assert sum(one.n_bytes for one in list(mirrors.values())[:-1]) <= n_bytes
    for _ in range(2):
        for name in names:
            items = await store.kv(name).list()
            assert [(one.key, one.value) for one in items] == [
                (f"{n}", {"of": name}) for n in range(3)
            ]
        await say_all(store)
        assert (await read(store))[-6:] == TEXTS
        await store.flush()


async def test_what_is_known_of_the_keys_of_many_tables_is_bounded_and_new_keys_stay_new(
    store, monkeypatch
):
    kept = Budget(20)
    monkeypatch.setattr(key_filter, "_kept", kept)
    names = [f"name{n}" for n in range(5)]
    for n in range(3):
        for name in names:
            assert await store.kv(name).add([Item(key=f"{n}", value={})]) == [True]
            assert await store.kv(name).add([Item(key=f"{n}", value={})]) == [False]
        await store.flush()
        for name in names:
            assert await store.kv(name).add([Item(key="0", value={})]) == [False]
            assert await store.kv(name).add([Item(key=f"new{n}", value={})]) == [True]
        sizes = [size for _, size in kept._sizes.items()]
        assert 0 < len(sizes) < len(names)
        assert sum(sizes[:-1]) <= 20

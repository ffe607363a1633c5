"""Few rows that are replaced, changed or removed: by way of the journal, and each in its place."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from lance_context_core import (
    AlreadyExistsError,
    AsyncContextStore,
    AsyncKeyValues,
    ConflictError,
    Document,
    Item,
    Message,
)
from lance_context_core.settings import JournalPolicy

AGENT = "cook"


@pytest.fixture
def store(tmp_path):
    """Closed by nobody: its journal is read again only after a flush."""
    return AsyncContextStore.open(tmp_path)


def n_commits(store: AsyncContextStore) -> int:
    return len(list(Path(store.uri).rglob("_versions/*.manifest")))


async def texts(store: AsyncContextStore, **which: object) -> Sequence[str]:
    found = await store.history.get_messages(AGENT, session_id="s", **which)
    return [one.text for one in found]


async def say(store: AsyncContextStore, *words: str) -> None:
    said = [Message.user(word, id=word) for word in words]
    await store.history.append_many(AGENT, said, session_id="s")


async def test_few_documents_are_replaced_and_deleted_without_a_commit(store):
    await store.vectors("d").add([Document(id="a", text="plum", embedding=[1.0, 0.0])])
    before = n_commits(store)
    for number in range(3):
        await store.vectors("d").upsert([Document(id="a", text=f"{number}", embedding=[0.0, 1.0])])
        await store.vectors("d").upsert([Document(id=f"{number}", text="x", embedding=[1.0, 1.0])])
        assert await store.vectors("d").delete([f"{number}"]) == 1
    (document,) = await store.vectors("d").list(include_embedding=True)
    assert (document.id, document.text, list(document.embedding)) == ("a", "2", [0.0, 1.0])
    assert n_commits(store) == before
    await store.flush()
    assert await store.vectors("d").list(include_embedding=True) == [document]


async def test_an_item_lives_on_without_a_commit(store):
    kv = store.kv("k")
    soon = (await kv_time(store)) + timedelta(hours=1)
    await kv.put([Item(namespace=("n",), key="a", value={"n": 1}, expires_at=soon)])
    before = n_commits(store)
    assert await kv.touch([(("n",), "a"), (("n",), "b")], expires_at=None) == 1
    (item,) = await kv.get([(("n",), "a")])
    assert (item.value, item.expires_at) == ({"n": 1}, None)
    assert n_commits(store) == before
    await store.flush()
    assert (await kv.get([(("n",), "a")])) == [item]


async def kv_time(store: AsyncContextStore):
    await store.kv("clock").put([Item(namespace=(), key="now", value={})])
    ((item,),) = [await store.kv("clock").get([((), "now")])]
    return item.updated_at


@pytest.mark.parametrize("is_folded_before", [False, True])
@pytest.mark.parametrize("is_folded_after", [False, True])
async def test_what_replaces_a_row_stands_in_its_place(store, is_folded_before, is_folded_after):
    documents = store.vectors("d")
    await documents.add([Document(id=one, text=one) for one in "abc"])
    if is_folded_before:
        await store.flush()
    await documents.upsert([Document(id="b", text="new"), Document(id="d", text="d")])
    await documents.upsert([Document(id="a", text="newer")])
    if is_folded_after:
        await store.flush()
    found = await documents.list()
    assert [one.text for one in found] == ["newer", "new", "c", "d"]
    for offset in range(5):
        for limit in range(5):
            part = await documents.list(offset=offset, limit=limit)
            assert part == found[offset:][:limit]


@pytest.mark.parametrize("is_folded_before", [False, True])
@pytest.mark.parametrize("is_folded_after", [False, True])
async def test_what_was_removed_and_is_said_again_comes_last(
    store, is_folded_before, is_folded_after
):
    await say(store, "a", "b", "c")
    if is_folded_before:
        await store.flush()
    assert await store.history.clear(AGENT, session_id="s", filter={"id": "a"}) == 1
    await say(store, "d", "a")
    if is_folded_after:
        await store.flush()
    assert await texts(store) == ["b", "c", "d", "a"]
    assert await texts(store, last=2) == ["d", "a"]
    assert await store.history.count(AGENT, session_id="s") == 4


async def test_what_was_appended_removed_and_appended_again_is_there_once(store):
    kv = store.kv("k")
    item = Item(namespace=("n",), key="a", value={"n": 1})
    for _ in range(3):
        await kv.append([item])
        assert await kv.count() == 1
        assert await kv.delete([(("n",), "a")]) == [True]
    await kv.append([item])
    assert await kv.count() == 1
    await store.flush()
    assert await kv.count() == 1


async def test_a_fold_that_is_done_again_leaves_the_order_as_it_is(tmp_path, monkeypatch):
    """It was cut short between its commit and the journal's forgetting."""
    from lance_context_core.storage.wal.table_log import TableLog

    async with AsyncContextStore.open(tmp_path) as store:
        await say(store, "a", "b")
        await store.flush()
        await store.history.clear(AGENT, session_id="s", filter={"id": "a"})
        await say(store, "a", "c")
        forget = TableLog.forget

        async def cut_short(*_: object, **__: object) -> None:
            raise RuntimeError("killed")

        monkeypatch.setattr(TableLog, "forget", cut_short)
        with pytest.raises(RuntimeError, match="killed"):
            await store.flush()
        monkeypatch.setattr(TableLog, "forget", forget)
        assert await texts(store) == ["b", "a", "c"]
        await store.flush()
        assert await texts(store) == ["b", "a", "c"]


async def test_many_rows_are_a_commit_of_their_own(tmp_path):
    policy = JournalPolicy(batch_rows=3)
    async with AsyncContextStore.open(tmp_path, journal=policy) as store:
        await store.vectors("d").add([Document(id=f"{n}", text="x") for n in range(3)])
        before = n_commits(store)
        await store.vectors("d").upsert([Document(id=f"{n}", text="y") for n in range(5)])
        assert n_commits(store) > before
        assert [one.text for one in await store.vectors("d").list()] == ["y"] * 5
        assert await store.vectors("d").delete([f"{n}" for n in range(5)]) == 5
        assert await store.vectors("d").count() == 0


async def test_items_of_many_bytes_are_a_commit_of_their_own_and_lose_no_others(tmp_path):
    policy = JournalPolicy(batch_bytes=2_000)
    async with AsyncContextStore.open(tmp_path, journal=policy) as store:
        kv = store.kv("k")
        await kv.put([item("small", 1)])
        before = n_commits(store)
        await kv.put([item("small", 2)])
        assert n_commits(store) == before
        # What waits in the journal comes before it, and what it replaces is gone.
        await kv.put([item("large", 1, n_bytes=3_000), item("small", 3)])
        assert n_commits(store) > before
        await kv.put([item("small", 4), item("large", 2, n_bytes=10)])
        assert await kv.add([item("large", 0, n_bytes=3_000), item("new", 1)]) == [False, True]
        await kv.append([item("appended", 1, n_bytes=3_000)])
        written = await kv.write(
            puts=[item("new", 2, n_bytes=3_000)], deletes=[(("n",), "small"), (("n",), "none")]
        )
        assert written.deleted == [True, False]
        expected = {"large": 2, "new": 2, "appended": 1}
        assert await counted(kv) == expected
        await store.flush()
        assert await counted(kv) == expected
        assert [one.key for one in await kv.list(order="created")] == ["large", "new", "appended"]


async def test_what_is_expected_of_items_of_many_bytes_holds_as_well(tmp_path):
    async with AsyncContextStore.open(tmp_path, journal=JournalPolicy(batch_bytes=2_000)) as store:
        kv = store.kv("k")
        await kv.put([item("a", 1)])
        (read,) = await kv.get([(("n",), "a")])
        await kv.put([item("a", 2)])
        with pytest.raises(ConflictError, match="is expected to be of revision"):
            await kv.write(
                puts=[item("a", 3, n_bytes=3_000)], expected={(("n",), "a"): read.revision}
            )
        with pytest.raises(AlreadyExistsError, match="is taken"):
            await kv.write(adds=[item("a", 3), item("b", 1, n_bytes=3_000)])
        assert await counted(kv) == {"a": 2}


def item(key: str, count: int, *, n_bytes: int = 0) -> Item:
    return Item(namespace=("n",), key=key, value={"count": count}, data=b"x" * n_bytes)


async def counted(kv: AsyncKeyValues) -> dict[str, int]:
    return {one.key: one.value["count"] for one in await kv.list()}

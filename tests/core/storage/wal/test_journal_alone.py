"""What the journal alone can tell is answered without a look into the table."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from core.storage.journaling import in_the_table, read, say

from lance_context_core import AsyncContextStore, Item, ItemVector, Message
from lance_context_core.settings import JournalPolicy
from lance_context_core.storage.lance.table_handle import TableHandle

KEY = (("a",), "x")


@pytest.fixture
def looks(monkeypatch):
    """What was looked for in tables, in the words of error messages."""
    seen = []
    read_at, look = TableHandle.read_at, TableHandle.look

    async def noted_read_at(access, moment, action, read):
        seen.append(action.format(access.label))
        return await read_at(access, moment, action, read)

    async def noted_look(access, action, read, absent):
        seen.append(action.format(access.label))
        return await look(access, action, read, absent)

    monkeypatch.setattr(TableHandle, "read_at", noted_read_at)
    monkeypatch.setattr(TableHandle, "look", noted_look)
    return seen


async def test_while_nothing_is_folded_nothing_is_looked_for_in_the_table(tmp_path, looks):
    async with AsyncContextStore.open(tmp_path) as store:
        (first, *_) = await say(store, "tea", "soup", "cake")
        await store.kv("k").put([Item(namespace=KEY[0], key=KEY[1], value={"n": 1})])
        looks.clear()
        assert (await store.context("default").get(id=first))["text"] == "tea"
        assert await read(store) == ["tea", "soup", "cake"]
        assert await read(store, offset=1, limit=1) == ["soup"]
        assert await read(store, last=5, offset=1) == ["tea", "soup"]
        assert await read(store, "other") == []
        assert [one.value for one in await store.kv("k").get([KEY])] == [{"n": 1}]
        assert [one.key for one in await store.kv("k").list(prefix=("a",))] == ["x"]
        assert looks == []


async def test_a_session_that_has_begun_since_is_not_looked_for_in_the_table(tmp_path, looks):
    async with AsyncContextStore.open(tmp_path) as store:
        await say(store, "tea", session="older")
        await store.flush()
        await say(store, "soup", session="newer")
        looks.clear()
        assert await read(store, "newer") == ["soup"]
        assert looks == []
        assert await read(store, "older") == ["tea"]
        assert looks == ["read table 'records'"]


async def test_to_read_a_page_of_the_table_folds_nothing(tmp_path):
    async with AsyncContextStore.open(tmp_path) as store:
        kv = store.kv("k")
        await kv.put([Item(namespace=KEY[0], key=key) for key in "abc"])
        ids = await store.memory.add(["tea", "soup"])
        await store.flush()
        await kv.put([Item(namespace=KEY[0], key="d")])
        await store.memory.add(["cake"])
        assert [one.key for one in await kv.list(limit=2)] == ["a", "b"]
        assert [one.key for one in await kv.list(limit=2, offset=2)] == ["c", "d"]
        for by_session in (True, False):
            page = await store.memory.latest(limit=2, offset=1, by_session=by_session)
            assert [one.id for one in page] == ids[::-1]
        assert len(await in_the_table(store, "kv.k")) == 3
        assert len(await in_the_table(store)) == 2


async def test_what_is_read_of_the_journal_is_what_is_read_of_the_table(tmp_path):
    vector = np.array([0.1, 0.2, 0.7])
    until = datetime.now(UTC) + timedelta(days=1)
    async with AsyncContextStore.open(tmp_path) as store:
        item = Item(
            namespace=KEY[0],
            key=KEY[1],
            value={"n": [1.5, None, "ä"]},
            data=b"\0bytes",
            data_type="some",
            expires_at=until,
            vectors=[ItemVector(path="p", vector=vector.tolist())],
        )
        await store.kv("k").put([item])
        context = store.context("default")
        await context.add("user", "tea", id="one", tags=["hot"], metadata={"n": 1})
        await store.history.append("a", Message.user("soup", id="two"), session_id="s")

        async def found():
            ids = [await context.get(id=id) for id in ("one", "two")]
            return [*await store.kv("k").get([KEY], include_vectors=True), *ids]

        before = await found()
        assert None not in before
        assert {type(number) for number in before[0].vectors[0].vector} == {float}
        # To change something keeps the others' forms: first of the journal, then of the table.
        assert await store.kv("k").touch([KEY], expires_at=until) == 1
        assert await found() == before
        await store.flush()
        assert await found() == before


@pytest.mark.parametrize("branch", ["main", "trial"])
async def test_stores_that_are_opened_for_one_write_each_keep_the_journal_small(tmp_path, branch):
    few, n = JournalPolicy(rows=5), 23

    @asynccontextmanager
    async def opened():
        async with AsyncContextStore.open(tmp_path, journal=few) as store:
            yield store if branch == "main" else await store.branch(branch)

    async with AsyncContextStore.open(tmp_path, journal=few) as store:
        await say(store, "before")
        if branch != "main":
            await store.create_branch(branch)
    for number in range(n):
        async with opened() as store:
            await say(store, f"turn {number}")
    async with opened() as store:
        (records,) = [one for one in (await store.stats()).tables if one.table == "records"]
        assert records.journal_rows < few.rows
        assert await read(store) == ["before", *(f"turn {number}" for number in range(n))]

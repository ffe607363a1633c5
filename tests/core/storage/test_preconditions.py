"""What is expected of rows still holds in the moment of the commit, whatever others do until then."""

from datetime import UTC, datetime
from functools import partial

import pytest
from core.conformance.interrupting import before

from lance_context_core import AsyncContextStore, ConflictError, Item
from lance_context_core.storage import optimistic, preconditions
from lance_context_core.storage.optimistic import OptimisticTransaction, Sighted

NAMES = ("kept", "moved", "watched")


async def deleted(kv):
    await kv.delete([((), "kept")])


async def put(kv):
    await kv.put([Item(key="kept", value={"by": "other"})])


async def moved(kv):
    await kv.write(deletes=[((), "moved")], puts=[Item(key="elsewhere")])


async def watched_changed(kv):
    await kv.put([Item(key="watched", value={"by": "other"})])


async def watched_deleted(kv):
    await kv.delete([((), "watched")])


async def created(kv):
    await kv.add([Item(key="absent", value={"by": "other"})])


async def new_created(kv):
    await kv.add([Item(key="new", value={"by": "other"})])


async def all_deleted(kv):
    await kv.delete_under(())


@pytest.fixture(params=["transaction", "journal", "commits"])
def between(request, monkeypatch):
    """Has something done by another store after the look at what is there, before it is committed."""
    if request.param == "commits":
        request.getfixturevalue("each_write_commits")
        return partial(before, monkeypatch, preconditions, "_commit")
    if request.param == "transaction":  # In which it looks, and writes what it can tell of that.
        return partial(before, monkeypatch, Sighted, "write")
    monkeypatch.setattr(optimistic, "_FEW_ROWS", 0)
    return partial(before, monkeypatch, OptimisticTransaction, "commit")


@pytest.mark.parametrize(
    "other",
    [deleted, put, moved, watched_changed, watched_deleted, created, new_created, all_deleted],
    ids=lambda other: other.__name__,
)
async def test_nothing_is_left_of_a_write_that_others_were_faster_than(tmp_path, between, other):
    uri = str(tmp_path / "shared")
    async with await AsyncContextStore.open(uri) as one, await AsyncContextStore.open(uri) as two:
        kv = one.kv()
        later = datetime(9000, 1, 1, tzinfo=UTC)
        await kv.put([Item(key=name, value={"by": "me"}, expires_at=later) for name in NAMES])
        await kv.put([Item(key="plain", value={"by": "me"}, data=b"\0", data_type="t")])
        expected = {((), item.key): item.revision for item in await kv.list() if item.key in NAMES}
        seen: list[list[Item]] = []

        async def work():
            await other(two.kv())
            seen.append(await two.kv().list())

        between(work)
        with pytest.raises(ConflictError, match="nothing was written"):
            await kv.write(
                puts=[Item(key="kept", value={"n": 1}), Item(key="plain"), Item(key="new")],
                deletes=[((), "moved")],
                expected={**expected, ((), "absent"): None, ((), "new"): None},
            )
        (before,) = seen
        assert await kv.list() == before == await two.kv().list()


async def test_what_others_do_to_other_items_is_in_nobody_s_way(tmp_path, between):
    uri = str(tmp_path / "shared")
    async with await AsyncContextStore.open(uri) as one, await AsyncContextStore.open(uri) as two:
        kv = one.kv()
        await kv.put([Item(key="mine"), Item(key="gone"), Item(key="other")])
        expected = {
            ((), item.key): item.revision for item in await kv.list() if item.key != "other"
        }

        async def work():
            await two.kv().put([Item(key="other", value={"n": 1}), Item(key="more")])

        between(work)
        await kv.write(puts=[Item(key="mine")], deletes=[((), "gone")], expected=expected)
        assert [item.key for item in await two.kv().list()] == ["mine", "more", "other"]

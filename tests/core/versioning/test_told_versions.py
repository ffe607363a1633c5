"""The number that a write answers with names a version that holds it, whatever was committed between.

The oracle reads the versions that the engine itself lists, each through a handle of its own.
"""

import asyncio
from datetime import UTC, datetime
from random import Random

import lancedb
import pytest
from core.conformance.doubles import ManualClock
from efforts import in_proofs

from lance_context_core import AsyncContextStore, Item, Message, NotFoundError

RECORDS = "records"


@pytest.fixture
def store(tmp_path):
    """A store that does nothing by itself."""
    store = AsyncContextStore.open(tmp_path / "store", maintenance=None)
    yield store
    asyncio.run(store.close())


async def added(store, id):
    """The version that a write of a record tells."""
    return (await store.context().add("user", "tea", id=id)).version


async def first_with(store):
    """By id, the first version that holds it, as the engine has them."""
    database = await lancedb.connect_async(store.uri)
    table = await database.open_table(RECORDS)
    first = {}
    for number in sorted(one["version"] for one in await table.list_versions()):
        await table.checkout(number)
        for row in await table.query().select(["id"]).to_list():
            first.setdefault(row["id"], number)
    return first


async def holds(store, told):
    """The ids that a checkout of that number shows."""
    return {one["id"] for one in await (await store.checkout(told)).context().list()}


async def check(store, told):
    """Each is in the version that was told, and in none before that one."""
    await store.flush()
    first = await first_with(store)
    listed = [version.number for version in await store.versions()]
    shown = {}
    for id, number in told.items():
        before = [one for one in listed if one < number][-1:]
        for one in [number, *before]:
            if one not in shown:
                shown[one] = await holds(store, one)
        assert id in shown[number], (id, number, first)
        assert shown[number] == {one for one in first if first[one] <= first[id]}, (
            id,
            number,
            first,
        )
        assert not any(id in shown[one] for one in before), (id, number, first)


async def test_a_version_is_told_right_where_folds_follow_each_other(store):
    told = {"a": await added(store, "a"), "b": await added(store, "b")}
    await store.flush()
    told["c"] = await added(store, "c")
    await store.kv().put([])
    await store.sessions.create("s")
    await store.flush()
    told["d"] = await added(store, "d")
    assert told["a"] == told["b"] < told["c"] < told["d"]
    await check(store, told)


async def test_what_comes_while_others_are_folded_is_in_the_version_after(store):
    told = {"a": await added(store, "a")}
    commits = store._resources.records.access.commits
    fold_others, fold = commits.before, commits.fold

    async def write_before():
        commits.before = fold_others
        await fold_others()
        told["b"] = await added(store, "b")

    async def write_within(last):
        commits.fold = fold
        told["c"] = await added(store, "c")
        await fold(last)
        told["d"] = await added(store, "d")

    commits.before, commits.fold = write_before, write_within
    await store._resources.records.access.settle()
    assert told["a"] < told["b"] == told["c"] == told["d"]
    await check(store, told)


async def test_where_a_merge_of_files_came_between_the_number_means_the_fold_behind_it(store):
    told = {}
    for id in "abc":
        told[id] = await added(store, id)
        await store.flush()
    told["d"] = await added(store, "d")
    async with store._resources.records.access.separately() as handle:
        # Long work does not keep others from the journal, and folds nothing that they write meanwhile.
        told["e"] = await added(store, "e")
        await handle.optimize()
    merged = told["e"]
    told["f"] = await added(store, "f")
    await check(store, told)
    assert merged not in {version.number for version in await store.versions()}
    before, after = [version.number for version in await store.versions()][-3:-1]
    assert [one.id for one in (await store.diff(before, after)).added] == ["e"]
    assert await store.tag("t", version=merged) > merged
    assert {one["id"] for one in await (await store.checkout("t")).context().list()} >= {"e"}
    await store.restore(merged)
    assert {one["id"] for one in await store.context().list()} == set("abcde")


async def test_after_a_fold_that_failed_the_number_means_what_the_next_one_brought(store):
    told = {"a": await added(store, "a")}
    access = store._resources.records.access
    syncing = access.commits.insist

    async def fail(action, handle, work):
        access.commits.insist = syncing
        raise RuntimeError

    access.commits.insist = fail
    with pytest.raises(RuntimeError):
        await store.flush()
    told["b"] = await added(store, "b")
    await store.flush()
    assert await holds(store, told["a"]) == {"a"}
    assert await holds(store, told["b"]) == {"a", "b"}
    told["c"] = await added(store, "c")
    await check(store, {"c": told["c"]})
    for id, number in told.items():
        assert id in await holds(store, number)


HERE = {"session_id": "s"}


async def said(store, id):
    """Say one more message, and note the number of a record beside it."""
    await store.history.append("agent", Message.user("tea", id=id), **HERE)
    return await added(store, f"beside {id}")


async def turns(store):
    """By id, what a reader sees of each message."""
    return {one.id: one.metadata for one in await store.history.get_messages("agent", **HERE)}


@pytest.mark.parametrize("n_done", [0, 1, 2])
async def test_a_fold_that_fails_between_its_commits_leaves_each_number_what_it_told(store, n_done):
    told = {}

    async def changed_and_said(id, before):
        await store.history.annotate("agent", {"before": id}, **HERE, filter={"id": before})
        told[id, before] = await said(store, id)

    told["a", None] = await said(store, "a")
    await changed_and_said("b", "a")
    await changed_and_said("c", "b")
    access = store._resources.records.access
    insisting, done = access.commits.insist, []

    async def fail(action, handle, work):
        if len(done) == n_done:
            access.commits.insist = insisting
            raise RuntimeError
        done.append(work)
        return await insisting(action, handle, work)

    access.commits.insist = fail
    with pytest.raises(RuntimeError):
        await store.flush()
    await changed_and_said("d", "a")
    await check(store, {f"beside {id}": number for (id, _), number in told.items()})
    for (id, before), number in told.items():
        there = await turns(await store.checkout(number))
        assert there[id] == {}
        assert before is None or there[before] == {"before": id}


async def test_what_a_transaction_changes_stays_in_the_version_that_was_told(store):
    told = await said(store, "a")
    async with store.transaction() as tx:
        await tx.history.append("agent", Message.user("tea", id="b"), **HERE)
        await tx.history.annotate("agent", {"n": 1}, **HERE)
        await tx.context().add("user", "tea", id="in it")
    wanted = {"a": {"n": 1}, "b": {"n": 1}}
    assert await turns(store) == wanted
    after = await said(store, "c")
    await check(store, {"beside a": told, "beside c": after})
    assert await turns(await store.checkout(told)) == {"a": {}}
    assert await turns(await store.checkout(after)) == {**wanted, "c": {}}
    first = await first_with(store)
    assert first["b"] == first["in it"] > told  # No version shows a part of it.
    assert await turns(await store.checkout(first["b"])) == {**wanted, "c": {}}


async def written_beside_a_merge(store, id):
    """The number that a write tells which is then that of a merge of files."""
    await added(store, f"{id} before")
    await store.flush()
    await added(store, f"{id} between")
    async with store._resources.records.access.separately() as handle:
        told = await added(store, id)
        await handle.optimize()
    await store.flush()
    return told


async def test_what_numbers_meant_is_forgotten_with_the_versions_that_they_meant(tmp_path):
    clock = ManualClock(datetime.now(UTC))
    async with AsyncContextStore.open(tmp_path / "store", maintenance=None, clock=clock) as store:
        told = await written_beside_a_merge(store, "old")
        kept = await written_beside_a_merge(store, "kept")
        await store.tag("t", version=kept)
        clock.advance(days=100)
        access = store._resources.records.access
        meant = await access.names()
        assert meant.keys() == {told, kept}
        await store.thin()
        assert await access.names() == {kept: meant[kept]}
        assert "kept" in await holds(store, kept)
        with pytest.raises(NotFoundError):
            await store.checkout(told)


async def test_a_number_that_nobody_was_told_of_means_nothing(store):
    told = await added(store, "a")
    for number in (told + 1, 0, -1):
        with pytest.raises(NotFoundError):
            await store.checkout(number)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, *in_proofs(0, 1, 3, 4, 5)])
async def test_whatever_comes_between_each_write_is_in_the_version_that_it_tells(store, seed):
    random, told = Random(seed), {}
    access = store._resources.records.access
    for n in range(24):
        match random.randrange(5):
            case 0:
                await store.flush()
            case 1:
                async with access.separately() as handle:
                    if random.random() < 0.7:
                        told[f"{n}-within"] = await added(store, f"{n}-within")
                    await handle.optimize()
            case 2:
                await store.kv().put([Item(key=str(n), value={})])
            case 3:
                await store.context().add("user", b"x" * 2_000_000, id=f"{n}-large")
        told[f"{n}"] = await added(store, f"{n}")
    await check(store, told)

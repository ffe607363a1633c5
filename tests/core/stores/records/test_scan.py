"""A scan reads what `list` would, of one moment, and reads no further ahead than a batch."""

from datetime import timedelta

import pytest

from lance_context_core import Context, ContextStore, InvalidRequestError
from lance_context_core.storage.lance import reads


def numbered(numbers):
    return [{"role": "user", "content": f"{n}", "id": f"r{n}"} for n in numbers]


async def ids_of(records):
    return [record["id"] async for record in records]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 8, 1_000])
async def test_a_scan_gives_the_dicts_of_list_in_the_same_order(store, batch_size):
    context = store.context()
    await context.add_many(numbered(range(4)))
    await context.add("user", b"\x00bytes", embedding=[1.0, 0.0], metadata={"k": 1}, tags=["t"])
    await context.add_many(numbered(range(4, 6)))
    # What is replaced moves on the disk, and keeps its place.
    await context.upsert("user", "changed", id="r1", key="id")
    scanned = [record async for record in context.scan(batch_size=batch_size)]
    assert scanned == await context.list()
    assert [one["id"] for one in scanned if one["id"][0] == "r"] == [f"r{n}" for n in range(6)]


async def test_a_scan_takes_filters_and_hides_what_list_hides(store, clock):
    context = store.context()
    await context.add_many(numbered(range(6)))
    await context.add("user", "short", id="gone", expires_at=clock.now() + timedelta(hours=1))
    await context.add("user", "old", id="old", lifecycle_status="retired")
    await store.context("other").add("user", "elsewhere", id="other")
    clock.advance(hours=2)
    everything = [f"r{n}" for n in range(6)]
    assert await ids_of(context.scan()) == everything
    assert await ids_of(context.scan(include_expired=True)) == [*everything, "gone"]
    assert await ids_of(context.scan(include_retired=True)) == [*everything, "old"]
    assert await ids_of(context.scan(filters={"id": {"in": ["r3", "r1"]}})) == ["r1", "r3"]


async def test_what_is_written_during_a_scan_neither_shows_nor_shifts_it(store):
    context = store.context()
    await context.add_many(numbered(range(10)))
    seen = []
    async for record in context.scan(batch_size=2):
        seen.append((record["id"], record["content"]))
        if len(seen) == 3:
            await context.delete(id="r1")
            await context.delete(id="r7")
            await context.upsert("user", "changed", id="r8", key="id")
            await context.add_many(numbered(range(10, 20)))
            await store.maintain()
            # Another read refreshes the handle that reads share.
            assert await context.entries() == 18
    assert seen == [(f"r{n}", f"{n}") for n in range(10)]


async def test_a_scan_belongs_to_the_moment_at_which_its_first_record_is_asked_for(store):
    context = store.context()
    await context.add_many(numbered(range(2)))
    scan = context.scan(batch_size=1)
    await context.add_many(numbered([2]))
    assert (await anext(scan))["id"] == "r0"
    await context.add_many(numbered([3]))
    assert await ids_of(scan) == ["r1", "r2"]


async def test_an_earlier_version_is_scanned_as_it_was(store):
    context = store.context()
    await context.add_many(numbered(range(3)))
    version = await store.version()
    await context.add_many(numbered(range(3, 6)))
    then = (await store.checkout(version)).context()
    assert await ids_of(then.scan(batch_size=2)) == ["r0", "r1", "r2"]


async def test_a_branch_is_scanned_without_the_main_line_s_records(store):
    await store.context().add_many(numbered(range(3)))
    branch = await store.create_branch("trial")
    await branch.context().add_many(numbered([8]))
    await store.context().add_many(numbered([9]))
    assert await ids_of(branch.context().scan(batch_size=2)) == ["r0", "r1", "r2", "r8"]
    assert await ids_of(store.context().scan(batch_size=2)) == ["r0", "r1", "r2", "r9"]


async def test_a_store_without_records_has_nothing_to_scan_and_is_not_made(store, tmp_path):
    assert await ids_of(store.context().scan()) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("batch_size", [0, -1, True, 2.5, "10", None])
async def test_a_batch_of_no_number_is_refused_before_anything_is_read(store, batch_size):
    with pytest.raises(InvalidRequestError, match="batch_size"):
        store.context().scan(batch_size=batch_size)


async def test_a_wrong_filter_is_refused_before_anything_is_read(store):
    with pytest.raises(InvalidRequestError, match="resembles"):
        store.context().scan(filters={"id": {"resembles": "r"}})


async def test_no_more_than_a_batch_is_read_ahead(store, monkeypatch):
    context = store.context()
    await context.add_many(numbered(range(100)))
    taken = []
    take = reads.take

    async def counted(handle, row_ids, columns):
        taken.append(len(row_ids))
        return await take(handle, row_ids, columns)

    monkeypatch.setattr(reads, "take", counted)
    n_seen = 0
    async for _ in context.scan(batch_size=10):
        n_seen += 1
        assert sum(taken) < n_seen + 10
    assert taken == [10] * 10


def test_the_blocking_context_scans_the_same_and_may_write_meanwhile(tmp_path):
    with ContextStore.open(tmp_path / "store") as store:
        context = store.context()
        context.add_many(numbered(range(7)))
        seen = []
        for record in context.scan(batch_size=3):
            seen.append(record)
            context.add("user", f"while reading {record['id']}")
        assert [one["id"] for one in seen] == [f"r{n}" for n in range(7)]
        assert seen == context.list(limit=7)
        assert context.entries() == 14


def test_a_scan_may_be_left_in_the_middle(tmp_path):
    with Context.create(tmp_path / "store") as context:
        context.add_many(numbered(range(7)))
        assert next(context.scan(batch_size=2))["id"] == "r0"
        assert [one["id"] for one in context.scan(batch_size=7)] == [f"r{n}" for n in range(7)]

"""Versions: their numbers, and looking back."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from core.versioning.samples import AXES, dump, write, written

from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.messages import Message
from lance_context_core.types import Document

# Numbers


async def test_an_empty_store_has_no_versions(store):
    assert await store.version() == 0
    assert await store.versions() == []
    assert await store.tags() == {}
    for nothing in (0, 1, "tag", datetime.now(UTC)):
        with pytest.raises(NotFoundError):
            await store.checkout(nothing)
        with pytest.raises(NotFoundError):
            await store.restore(nothing)


async def test_each_write_to_the_records_makes_a_version(store):
    started = datetime.now(UTC)
    numbers = [await store.version()]
    for n in range(4):
        await store.history.append("a", Message.user(f"{n}"), session_id="s")
        numbers.append(await store.version())
    await store.history.get_messages("a", session_id="s")
    await store.history.append_many("a", [], session_id="s")
    assert await store.version() == numbers[-1]
    assert numbers == sorted(set(numbers))
    versions = await store.versions()
    assert [version.number for version in versions] == list(range(1, numbers[-1] + 1))
    times = [version.created_at for version in versions]
    assert times == sorted(times)
    assert started - timedelta(seconds=1) <= times[0]
    assert times[-1] <= datetime.now(UTC) + timedelta(seconds=1)
    assert all(time.utcoffset() == timedelta(0) for time in times)


# Looking back


@pytest.mark.slow
async def test_a_version_shows_every_table_as_it_was(store):
    seen = await written(store, 6)
    for version, expected in seen.items():
        view = await store.checkout(version)
        assert await view.version() == version
        assert await dump(view) == expected
    assert await dump(store) == expected


@pytest.mark.slow
async def test_a_tag_shows_every_table_as_it_was_even_between_versions(store):
    seen = {}
    for step in range(4):
        await write(store, step)
        await store.vectors("c").upsert([Document(id="late", text=f"late {step}")])
        await store.vectors(f"new{step}").add([Document(id="a", text="a")])
        await store.sessions.update("s0", title=f"late {step}")
        await store.tag(f"step-{step}")
        seen[f"step-{step}"] = await dump(store)
    await store.history.clear("a", session_id="s")
    for tag, expected in seen.items():
        assert await dump(await store.checkout(tag)) == expected


@pytest.mark.slow
async def test_a_moment_shows_what_was_newest_then(store):
    await written(store, 3)
    versions = await store.versions()
    for earlier, later in pairwise(versions):
        for moment, expected in (
            (earlier.created_at, earlier),
            (later.created_at - timedelta(microseconds=1), earlier),
            (earlier.created_at.astimezone(timezone(timedelta(hours=-7))), earlier),
            (later.created_at, later),
        ):
            assert await (await store.checkout(moment)).version() == expected.number
    future = await store.checkout(datetime.now(UTC) + timedelta(days=9))
    assert await dump(future) == await dump(store)


async def test_a_moment_before_the_first_write_is_not_found(store):
    await written(store, 1)
    first = (await store.versions())[0].created_at
    for early in (first - timedelta(microseconds=1), datetime(1970, 1, 1, tzinfo=UTC)):
        with pytest.raises(NotFoundError, match=f"{early.year}"):
            await store.checkout(early)


@pytest.mark.parametrize(
    ("ref", "error"),
    [
        (datetime(2100, 1, 1), InvalidRequestError),  # noqa: DTZ001 - what is refused
        (None, InvalidRequestError),
        (1.0, InvalidRequestError),
        (True, InvalidRequestError),
        (-1, NotFoundError),
        (0, NotFoundError),
        (10_000, NotFoundError),
        ("unknown", NotFoundError),
        ("", NotFoundError),
        ("1", NotFoundError),
    ],
)
async def test_what_is_no_version_is_refused_and_nothing_is_changed(store, ref, error):
    await written(store, 1)
    before = await dump(store)
    for call in (store.checkout, store.restore, store.diff):
        with pytest.raises(error):
            await call(ref)
    if ref is not None:  # which means the current version
        with pytest.raises(error):
            await store.tag("new", version=ref)
        with pytest.raises(error):
            await store.diff(1, ref)
    assert await store.tags() == {}
    assert await dump(store) == before


async def test_a_collection_that_did_not_exist_then_is_absent(store):
    await store.vectors("old").add([Document(id="a", text="tea", embedding=AXES[0])])
    await store.history.append("a", Message.user("0"), session_id="s")
    await store.tag("then")
    version = await store.version()
    await store.vectors("new").add([Document(id="a", text="tea", embedding=AXES[0])])
    for ref in ("then", version):
        view = await store.checkout(ref)
        assert await view.vectors().list_collections() == ["old"]
        new = view.vectors("new")
        assert await new.count() == 0
        assert await new.get(["a"]) == []
        assert await new.search("tea", vector=AXES[0]) == []
        assert len(await view.vectors("old").search("tea", vector=AXES[0])) == 1


async def test_searches_of_a_view_find_what_was_there(open_store, embedder):
    store = open_store(embedder=embedder)
    await store.history.append("a", Message.user("green tea"), session_id="s")
    await store.tag("then")
    await store.history.append("a", Message.user("green tea again"), session_id="s")
    view = await store.checkout("then")
    for mode in ("hybrid", "vector", "text"):
        assert [hit.record.text for hit in await view.search("tea", mode=mode)] == ["green tea"]
        assert len(await store.search("tea", mode=mode)) == 2


async def test_a_view_does_not_move_when_the_store_does(store):
    await write(store, 0)
    view = await store.checkout(await store.version())
    expected = await dump(view)
    await write(store, 1)
    await store.maintain()
    await store.restore(1)
    assert await dump(view) == expected


async def test_a_view_can_be_turned_to_another_moment(store):
    first, second = await written(store, 2)
    early = await (await store.checkout(second)).checkout(first)
    late = await early.checkout(second)
    assert await early.version() == first
    assert await late.version() == second
    assert await dump(late) == await dump(store)


async def test_a_view_of_a_scope_shows_the_scope_alone(store):
    for tenant in ("x", "y"):
        scope = store.scope(tenant=tenant)
        await scope.vectors("c").add([Document(id="a", text=tenant)])
        await scope.history.append("a", Message.user(tenant), session_id="s")
    version = await store.version()
    await write(store.scope(tenant="x"), 0)
    for view in (
        await store.scope(tenant="x").checkout(version),
        (await store.checkout(version)).scope(tenant="x"),
    ):
        assert [one["text"] for one in await view.context().list()] == ["x"]
        assert [one.text for one in await view.vectors("c").list()] == ["x"]


def test_versions_work_from_any_loop(store):
    asyncio.run(write(store, 0))
    view = asyncio.run(store.checkout(asyncio.run(store.version())))
    assert asyncio.run(dump(view)) == asyncio.run(dump(store))

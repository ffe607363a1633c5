"""Versions: looking back, going back, naming, and telling what changed."""

import asyncio
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from random import Random

import pytest
from core.conformance.back_door import BackDoor
from core.conformance.hostile import NAMES, NO_NAMES

from lance_context_core.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    ReadOnlyError,
)
from lance_context_core.messages import Message
from lance_context_core.records import ContextRecord, Document

AXES = [[1.0, 0.0], [0.0, 1.0]]


async def dump(store):
    """All that a reader can see, of every table."""
    collections = await store.vectors().list_collections()
    return {
        "records": await store.context().list(include_expired=True, include_retired=True),
        "sessions": await store.sessions.list(),
        "messages": await store.history.get_messages("a", session_id="s"),
        "memories": (await store.memory.list(user_id="u", page_size=1_000)).items,
        "vectors": {name: await store.vectors(name).list() for name in collections},
    }


async def write(store, step):
    """One write to each table, the records last."""
    vectors = store.vectors("c")
    await vectors.upsert([Document(id=f"d{step % 3}", text=f"{step}", embedding=AXES[step % 2])])
    await store.sessions.create(f"s{step}", title=f"{step}")
    await store.sessions.update("s0", title=f"{step}")
    if step % 4 == 3:
        await store.history.clear("a", session_id="s")
    await store.memory.add([f"memory {step}"], user_id="u")
    await store.history.append("a", Message.user(f"message {step}"), session_id="s")


async def written(store, n_steps):
    """What there was after each of so many writes, by version."""
    seen = {}
    for step in range(n_steps):
        await write(store, step)
        seen[await store.version()] = await dump(store)
    return seen


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


async def test_a_version_shows_every_table_as_it_was(store):
    seen = await written(store, 6)
    for version, expected in seen.items():
        view = await store.checkout(version)
        assert await view.version() == version
        assert await dump(view) == expected
    assert await dump(store) == expected


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
    ids=repr,
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


# A view refuses writes

WRITES = {
    "history.append": lambda v: v.history.append("a", Message.user("0"), session_id="s"),
    "history.append by id": lambda v: v.history.append("a", Message.user("0", id="m"), session_id="t"),
    "history.clear": lambda v: v.history.clear("a", session_id="s"),
    "history.clear of nothing": lambda v: v.history.clear("a", session_id="unknown"),
    "history.clear_run": lambda v: v.history.clear_run("a", session_id="s", run_id="r"),
    "sessions.create": lambda v: v.sessions.create("new"),
    "sessions.update": lambda v: v.sessions.update("s0", title="new"),
    "sessions.update by messages": lambda v: v.sessions.update("s", title="new"),
    "sessions.delete": lambda v: v.sessions.delete("s0"),
    "memory.add": lambda v: v.memory.add(["new"], user_id="u"),
    "memory.delete": lambda v: v.memory.delete(user_id="u"),
    "vectors.add": lambda v: v.vectors("c").add([Document(text="new")]),
    "vectors.upsert": lambda v: v.vectors("c").upsert([Document(id="d0", text="new")]),
    "vectors.add to a new one": lambda v: v.vectors("new").add([Document(text="new")]),
    "vectors.delete": lambda v: v.vectors("c").delete(["d0"]),
    "vectors.delete by filter": lambda v: v.vectors("c").delete(filter={"k": 1}),
    "vectors.delete_collection": lambda v: v.vectors("c").delete_collection(),
    "vectors.delete_collection later": lambda v: v.vectors("later").delete_collection(),
    "context.add": lambda v: v.context().add("user", "new"),
    "context.upsert": lambda v: v.context().upsert("user", "new", external_id="x"),
    "context.update": lambda v: v.context().update(external_id="known", tags=["new"]),
    "context.delete": lambda v: v.context().delete(external_id="known"),
    "context.compact": lambda v: v.context().compact(),
    "tag": lambda v: v.tag("new"),
    "delete_tag": lambda v: v.delete_tag("then"),
    "restore": lambda v: v.restore(1),
    "maintain": lambda v: v.maintain(),
}  # fmt: skip


@pytest.mark.parametrize("action", WRITES)
async def test_a_view_refuses_every_kind_of_write(store, action):
    await store.context().add("user", "known", external_id="known")
    await write(store, 0)
    await store.tag("then")
    await store.vectors("later").add([Document(text="later")])
    before, tags, version = await dump(store), await store.tags(), await store.version()
    for ref in ("then", version):
        view = await store.checkout(ref)
        with pytest.raises(ReadOnlyError):
            await WRITES[action](view)
    assert await dump(store) == before
    assert (await store.tags(), await store.version()) == (tags, version)


async def test_a_view_refuses_to_embed(open_store, embedder):
    await open_store().memory.add(["tea"], user_id="u")
    store = open_store(embedder=embedder)
    view = await store.checkout(await store.version())
    with pytest.raises(ReadOnlyError):
        await view.embed_pending()
    assert await store.embed_pending() == 1


# Tags


async def test_a_taken_tag_is_refused_and_a_deleted_one_can_be_moved(store):
    await write(store, 0)
    first = await store.tag("a")
    assert await store.tag("a") == first == await store.version()
    await write(store, 1)
    with pytest.raises(AlreadyExistsError, match="'a'"):
        await store.tag("a")
    assert await store.tags() == {"a": first}
    assert await store.delete_tag("a") is True
    assert await store.delete_tag("a") is False
    assert await store.tags() == {}
    with pytest.raises(NotFoundError, match="'a'"):
        await store.checkout("a")
    second = await store.tag("a")
    assert await store.tags() == {"a": second}
    assert await dump(await store.checkout("a")) == await dump(store)


async def test_an_earlier_version_can_be_named(store):
    seen = await written(store, 4)
    moments = {version.number: version.created_at for version in await store.versions()}
    for version, expected in seen.items():
        assert await store.tag(f"n{version}", version=version) == version
        assert await store.tag(f"t{version}", version=f"n{version}") == version
        assert await store.tag(f"m{version}", version=moments[version]) == version
        for tag in (f"n{version}", f"t{version}", f"m{version}"):
            assert await dump(await store.checkout(tag)) == expected
    named = {version.number: version.tags for version in await store.versions() if version.tags}
    assert named == {number: (f"m{number}", f"n{number}", f"t{number}") for number in seen}


async def test_a_store_can_be_named_before_its_first_record(store):
    await store.vectors("c").add([Document(id="a", text="tea")])
    number = await store.tag("start")
    assert await store.tags() == {"start": number}
    await write(store, 0)
    view = await store.checkout("start")
    assert await view.vectors("c").count() == 1
    assert await view.context().entries() == 0


async def test_any_name_is_a_tag_or_is_refused_for_what_it_is(store):
    await write(store, 0)
    version = await store.version()
    taken = {}
    for name in [*NAMES, *NO_NAMES, "", "a/b/c", "a..b", ".hidden", "a.", "a.lock", "x" * 200]:
        try:
            taken[name] = await store.tag(name)
        except InvalidRequestError as refusal:
            assert "name" in str(refusal)  # noqa: PT017 - it may as well be taken
    assert {"a", "A", "a.b", "0", "-1", "_", "x" * 200} <= taken.keys()
    assert taken == dict.fromkeys(taken, version)
    assert await store.tags() == taken
    for name in taken:
        assert await (await store.checkout(name)).version() == version
        assert await store.delete_tag(name) is True
    assert await store.tags() == {}


async def test_tags_survive_maintenance_and_reopening(open_store):
    store = open_store()
    seen = await written(store, 2)
    for version in seen:
        await store.tag(f"v{version}", version=version)
    await store.maintain()
    await store.close()
    again = open_store()
    for version, expected in seen.items():
        assert await dump(await again.checkout(f"v{version}")) == expected


# Going back


async def test_a_restored_store_is_what_it_was_and_loses_nothing(store):
    seen = await written(store, 4)
    for version in [*seen, *reversed(seen)]:
        before = await store.version()
        after = await store.restore(version)
        assert after == await store.version() >= before
        assert await dump(store) == seen[version]
    for version, expected in seen.items():
        assert await dump(await store.checkout(version)) == expected


async def test_restoring_may_be_repeated(store):
    first, _ = await written(store, 2)
    for _ in range(2):
        await store.restore(first)
    expected = await dump(await store.checkout(first))
    assert await dump(store) == expected


async def test_a_collection_that_was_made_later_is_empty_after_restoring(store):
    await store.history.append("a", Message.user("0"), session_id="s")
    await store.tag("then")
    version = await store.version()
    for ref in ("then", version):
        await store.vectors("new").add([Document(id="a", text="tea", embedding=AXES[0])])
        await store.restore(ref)
        assert await store.vectors("new").count() == 0
        assert await store.vectors("new").search("tea", vector=AXES[0]) == []


async def test_a_restored_store_can_be_written_and_searched(open_store, embedder):
    store = open_store(embedder=embedder)
    await store.vectors("c").add([Document(id="a", text="green tea")])
    await store.history.append("a", Message.user("green tea", id="m"), session_id="s")
    last = await store.version()
    # From the first one on: before the table had any row, vector or index.
    for version in range(1, last + 1):
        await store.restore(version)
        n_messages = await store.history.count("a", session_id="s")
        batch = [Message.user("green tea", id="m"), Message.user("black tea")]
        await store.history.append_many("a", batch, session_id="s")
        await store.vectors("c").upsert([Document(id="b", text="black tea")])
        found = await store.history.get_messages("a", session_id="s")
        assert [one.text for one in found] == ["green tea", "black tea"]
        assert n_messages == (1 if version == last else 0)
        for mode in ("hybrid", "vector", "text"):
            hits = await store.search("black tea", mode=mode)
            assert [hit.record.text for hit in hits] == ["black tea", "green tea"]
            hits = await store.vectors("c").search("black tea", mode=mode)
            assert hits[0].record.id == "b"


async def test_restoring_undoes_what_another_handle_wrote_meanwhile(open_store):
    store, other = open_store(), open_store()
    await write(store, 0)
    await store.tag("then")
    expected = await dump(store)
    await write(other, 1)
    await store.restore("then")
    assert await dump(store) == await dump(other) == expected


# Scopes


@pytest.mark.parametrize(
    "action", ["restore", "tag", "tag an earlier version", "delete_tag", "maintain"]
)
async def test_a_scope_refuses_what_concerns_the_whole_store(store, action):
    await write(store, 0)
    await store.tag("then")
    before = await dump(store), await store.tags(), await store.version()
    for scope in (store.scope(tenant="x"), store.scope(user_id="u"), store.scope(agent_id="a")):
        call = {
            "restore": lambda: scope.restore("then"),  # noqa: B023 - called in this round
            "tag": lambda: scope.tag("new"),  # noqa: B023
            "tag an earlier version": lambda: scope.tag("new", version=1),  # noqa: B023
            "delete_tag": lambda: scope.delete_tag("then"),  # noqa: B023
            "maintain": scope.maintain,
        }[action]
        with pytest.raises(InvalidRequestError, match="scope"):
            await call()
    assert (await dump(store), await store.tags(), await store.version()) == before


# Differences

INTERNAL = {"key", "revision", "search_text", "previous_key", "edges", "updated_at"}


async def rows_at(store, version):
    """The rows of a version by key, in their order, with the fields that a reader sees."""
    connection = await store._resources.database.connection()
    table = await connection.open_table("records", version=version)
    rows = sorted(await table.query().with_row_id().to_list(), key=lambda row: row["_rowid"])
    return {
        row["key"]: {
            "embedding" if name == "vector" else name: value
            for name, value in row.items()
            if name not in INTERNAL | {"_rowid", "_distance"}
        }
        for row in rows
    }


async def expected_diff(store, before, after):
    """What a full comparison of two versions says: ids, and the fields of what changed."""
    old, new = await rows_at(store, before), await rows_at(store, after)
    order = [field.name for field in fields(ContextRecord)]
    changed = {}
    for key in [key for key in new if key in old]:
        names = {*old[key], *new[key]}
        differing = [n for n in names if old[key].get(n) != new[key].get(n)]
        if differing:
            changed[new[key]["id"]] = tuple(sorted(differing, key=order.index))
    return {
        "added": [row["id"] for key, row in new.items() if key not in old],
        "changed": changed,
        "removed": [row["id"] for key, row in old.items() if key not in new],
    }


def shown(diff):
    return {
        "added": [record.id for record in diff.added],
        "changed": {change.after.id: change.fields for change in diff.changed},
        "removed": [record.id for record in diff.removed],
    }


async def change(store, random, clock):
    """One change of some sort, to few records, so that changes meet."""
    clock.advance(seconds=1)
    context, name = store.context(), f"x{random.randrange(6)}"
    match random.randrange(10):
        case 0:
            await context.add(random.choice(["user", "tool"]), f"{random.random()}")
        case 1 | 2:
            await context.upsert(
                "user", random.choice(["a", "b"]), external_id=name, tags=[random.choice("xy")]
            )
        case 3 | 4:
            some = [{"tags": [name]}, {"metadata": {"k": name}}, {"source": name}, {"run_id": name}]
            some += [{"relationships": [{"target_id": name, "relation": "cites", "weight": 0.5}]}]
            some += [{"embedding": random.choice(AXES)}, {"expires_at": clock.advance(seconds=0)}]
            chosen = {k: v for one in random.sample(some, 2) for k, v in one.items()}
            await context.update(external_id=name, **chosen)
        case 5:
            await context.delete(external_id=name)
        case 6:
            batch = [Message.user(f"{n}", id=f"m{n}") for n in random.sample(range(6), 3)]
            await store.history.append_many("a", batch, session_id="s")
        case 7:
            await store.history.clear("a", session_id="s")
        case 8:
            await store.memory.add([f"{random.random()}"], user_id=name)
        case 9 if random.random() < 0.5:
            await store.maintain()


@pytest.mark.parametrize("seed", range(4))
async def test_a_diff_says_what_a_full_comparison_says(store, clock, seed):
    random = Random(seed)
    versions = []
    await store.context().add("user", "first")
    for _ in range(30):
        await change(store, random, clock)
        versions.append(await store.version())
    for _ in range(12):
        before, after = random.choice(versions), random.choice(versions)
        diff = await store.diff(before, after)
        expected = await expected_diff(store, before, after)
        assert shown(diff) == expected, (before, after)
        assert list(shown(diff)["changed"]) == list(expected["changed"]), "the order of the session"
        assert bool(diff) == any(expected.values())
    to_now = await store.diff(versions[0])
    assert shown(to_now) == await expected_diff(store, versions[0], versions[-1])


async def test_a_diff_holds_the_records_as_they_were_and_as_they_are(store, clock):
    context = store.context()
    await context.add("user", "kept", external_id="k", tags=["old"])
    await context.add("user", "gone", external_id="g")
    before = await store.version()
    clock.advance(hours=1)
    await context.update(external_id="k", tags=["new"], source="somewhere")
    await context.delete(external_id="g")
    await context.add("user", "added")
    diff = await store.diff(before)
    (changed,) = diff.changed
    assert changed.fields == ("source", "tags")
    assert (changed.before.tags, changed.after.tags) == (("old",), ("new",))
    assert (changed.before.source, changed.after.source) == (None, "somewhere")
    assert changed.before.created_at == changed.after.created_at
    assert changed.after.updated_at - changed.before.updated_at == timedelta(hours=1)
    assert [record.text for record in diff.added] == ["added"]
    assert [record.text for record in diff.removed] == ["gone"]
    backwards = await store.diff(await store.version(), before)
    assert [record.text for record in backwards.added] == ["gone"]
    assert [record.text for record in backwards.removed] == ["added"]
    assert backwards.changed[0].before == changed.after


async def test_what_changed_is_listed_in_the_order_of_the_session(store):
    ids = [f"m{n}" for n in range(200)]
    context = store.context()
    await context.add_many([{"role": "user", "content": id, "id": id} for id in ids])
    before = await store.version()
    shuffled = Random(1).sample(ids, len(ids))
    await context.upsert_many(
        [{"role": "user", "content": f"new {id}", "id": id} for id in shuffled], key="id"
    )
    assert [change.after.id for change in (await store.diff(before)).changed] == ids


async def test_maintenance_and_repetitions_change_nothing(store):
    for n in range(5):
        await store.history.append("a", Message.user(f"{n}", id=f"{n}"), session_id="s")
    before = await store.version()
    await store.maintain()
    await store.history.append("a", Message.user("0", id="0"), session_id="s")
    diff = await store.diff(before)
    assert not diff
    assert (diff.added, diff.changed, diff.removed) == ([], [], [])
    assert not await store.diff(before, before)


async def test_a_diff_within_a_scope_shows_the_scope_alone(store):
    scopes = {name: store.scope(tenant=name) for name in ("x", "y")}
    for name, scope in scopes.items():
        for id in ("gone", "changed"):
            await scope.context().add("user", name, external_id=id)
    before = await store.version()
    for name, scope in scopes.items():
        await scope.context().delete(external_id="gone")
        await scope.context().update(external_id="changed", source=name)
        await scope.context().add("user", name, external_id="added")
    for name, scope in scopes.items():
        diff = await scope.diff(before)
        assert [record.tenant for record in diff.added] == [name]
        assert [record.tenant for record in diff.removed] == [name]
        assert [change.after.source for change in diff.changed] == [name]
    assert len((await store.diff(before)).added) == 2


async def test_a_diff_to_an_earlier_time_tells_tags_from_moments(store, clock):
    await store.context().add("user", "0")
    await store.tag("then")
    moment = (await store.versions())[-1].created_at
    await store.context().add("user", "1")
    for ref in ("then", moment, await (await store.checkout("then")).version()):
        assert [record.text for record in (await store.diff(ref)).added] == ["1"]


def test_versions_work_from_any_loop(store):
    asyncio.run(write(store, 0))
    view = asyncio.run(store.checkout(asyncio.run(store.version())))
    assert asyncio.run(dump(view)) == asyncio.run(dump(store))


async def test_the_back_door_sees_the_restored_rows(store):
    await store.history.append("a", Message.user("0"), session_id="s")
    version = await store.version()
    await store.history.append("a", Message.user("1"), session_id="s")
    await store.restore(version)
    assert [row["text"] for row in await BackDoor(store).rows("records")] == ["0"]

"""A diff says what changed between two versions."""

from dataclasses import fields
from datetime import timedelta
from random import Random

import pytest
from core.versioning import AXES

from lance_context_core.messages import Message
from lance_context_core.records import ContextRecord

INTERNAL = {"key", "revision", "search_text", "previous_key", "edges", "fields", "updated_at"}


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

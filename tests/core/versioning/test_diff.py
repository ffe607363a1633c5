"""A diff says what changed between two versions."""

import json
from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from random import Random

import pytest
from core.versioning.samples import AXES
from efforts import in_proofs

from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message
from lance_context_core.storage.table import Table
from lance_context_core.types import ContextRecord

INTERNAL = {
    *("key", "revision", "search_text", "previous_key", "edges", "fields", "updated_at"),
    *("author", "acknowledged_at"),
}


async def rows_at(store, ref):
    """The rows of a version by key, in their order, with the fields that a reader sees."""
    table = await (await store.checkout(ref))._resources.records.access.reader()
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


async def move(store, random):
    """What compaction does: rows are written again, and nothing in them changes."""
    handle = await store._resources.records.access.writer()
    first = random.randrange(8) << 32
    where = random.choice(["true", f"_rowaddr >= {first}", f"_rowaddr < {first}"])
    await handle.update(where=where, updates_sql={"revision": "revision"})


async def turn(stores, random, clock):
    """Something that concerns whole branches, on one of `stores`, which may become one more."""
    store = random.choice(stores)
    others = ["main", *(branch.name for branch in await store.branches())]
    match random.randrange(9):
        case 0 | 1:
            await move(store, random)
        case 2 if len(stores) < 5:
            stores.append(await store.create_branch(f"b{len(stores)}"))
        case 3 | 4:
            versions = [version.number for version in await store.versions()]
            await store.restore(random.choice(versions))
        case 5:
            await store.restore(random.choice([*others, *await store.tags()]))
        case 6:
            await store.tag(f"t{clock.advance(seconds=1).timestamp():.0f}")
        case 7:
            for source in random.sample(others, len(others)):
                with suppress(InvalidRequestError):
                    await store.merge(source, policy=random.choice(["newest", "theirs", "ours"]))
        case 8:
            await store.maintain()


async def references(stores):
    """Everything that a diff through the first of `stores` may name."""
    names = ["main", *(branch.name for branch in await stores[0].branches())]
    tags = {tag for store in stores for tag in await store.tags()}
    return [*names, *sorted(tags), *(version.number for version in await stores[0].versions())]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 5, *in_proofs(1, 2, 3, 4, 6, 7)])
async def test_a_diff_of_any_two_places_says_what_a_full_comparison_says(
    memory_backend, clock, seed
):
    random = Random(seed)
    stores = [memory_backend.open(clock=clock)]
    await stores[0].context().add("user", "first")
    for step in range(60):
        if step % 3 < 2:
            await change(random.choice(stores), random, clock)
        else:
            await turn(stores, random, clock)
        if step % 4 == 3:
            asked = random.sample(stores, len(stores))
            refs = await references(asked)
            before, after = random.choice(refs), random.choice(refs)
            expected = await expected_diff(asked[0], before, after)
            diff = await asked[0].diff(before, after)
            assert shown(diff) == expected, (before, after)
            assert list(shown(diff)["changed"]) == list(expected["changed"]), "the order"
    await stores[0].close()


async def test_moved_rows_are_not_even_read(store, monkeypatch):
    context = store.context()
    await context.add_many([{"role": "user", "content": f"{n}"} for n in range(50)])
    before = await store.version()
    await move(store, Random(0))
    await store.maintain()
    await context.add("user", "new", external_id="x")
    read = []
    take = Table.take

    async def counting(self, row_ids, **options):
        read.append(len(row_ids))
        return await take(self, row_ids, **options)

    monkeypatch.setattr(Table, "take", counting)
    assert [record.text for record in (await store.diff(before)).added] == ["new"]
    assert sum(read) == 1


async def test_two_changes_of_one_record_are_told_apart_on_whatever_branch(store, clock):
    context = store.context()
    await context.add("user", "0", external_id="x")
    number = await store.version()
    branch = await store.create_branch("b")
    await branch.context().update(external_id="x", source="branch")
    await context.update(external_id="x", source="first")
    first = await store.version()
    await store.restore(number)
    await context.update(external_id="x", source="second")
    for before, expected in (("b", "branch"), (first, "first"), (number, None)):
        (change,) = (await store.diff(before)).changed
        assert (change.before.source, change.after.source) == (expected, "second")
        assert change.fields == ("source",)


# As Arrow


async def test_a_diff_is_a_table_for_other_tools(store, clock):
    context = store.context()
    values = {
        "metadata": {"a": [1, {"b": None}]},
        "relationships": [{"target_id": "t", "relation": "cites", "weight": 0.5}],
        "tags": ["x", "y"],
        "embedding": [1.0, 2.0],
        "expires_at": clock.now() + timedelta(days=1),
        "state_metadata": {},
    }
    await context.add("user", "changed", external_id="c", **values)
    await context.add("user", "removed", external_id="r")
    empty = (await store.diff("main", "main")).to_arrow()
    await store.tag("before")
    clock.advance(seconds=1)
    await context.update(external_id="c", source="s", tags=[])
    await context.delete(external_id="r")
    await context.add("user", b"\x00", content_type="image/png", external_id="a")
    await store.history.append("h", Message.user("hi"), session_id="s")
    table = (await store.diff("before")).to_arrow()
    assert empty.schema == table.schema
    assert (empty.num_rows, table.num_rows) == (0, 5)
    rows = table.to_pylist()
    assert [(row["change"], row["side"], row["external_id"]) for row in rows] == [
        ("added", "after", "a"),
        ("added", "after", None),
        ("changed", "before", "c"),
        ("changed", "after", "c"),
        ("removed", "before", "r"),
    ]
    assert [row["changed_fields"] for row in rows] == [
        [],
        [],
        ["source", "tags"],
        ["source", "tags"],
        [],
    ]
    assert {row["tenant"] for row in rows} == {None}
    assert rows[0]["blob"] == b"\x00"
    assert json.loads(rows[1]["parts"])[0]["text"] == "hi"
    before, after = rows[2], rows[3]
    assert (before["tags"], after["tags"], after["source"]) == (["x", "y"], [], "s")
    assert json.loads(after["metadata"]) == values["metadata"]
    assert json.loads(after["state_metadata"]) == {}
    assert after["embedding"] == [1.0, 2.0]
    assert after["relationships"] == values["relationships"]
    assert after["expires_at"] == values["expires_at"]
    assert after["updated_at"] - before["updated_at"] == timedelta(seconds=1)
    names = {field.name for field in fields(ContextRecord)}
    assert names == set(table.column_names) - {"change", "side", "changed_fields"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *in_proofs(1, 2, 3)])
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

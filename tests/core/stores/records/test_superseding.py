"""A record that another one supersedes is out of sight, and comes back only when it is told to."""

import asyncio
from datetime import timedelta

import pytest
from core.stores.records.record_api import contents
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import Context, Message
from lance_context_core.storage.table import Table
from lance_context_core.stores.records import changes

OLD = {
    "role": "source",
    "content": "an old fact",
    "embedding": [1.0, 0.0],
    "relationships": [{"target_id": "t", "relation": "r"}],
}
NEW = {**OLD, "content": "a new fact", "embedding": [0.9, 0.1]}


async def by_add(ctx, old):
    await ctx.add(**NEW, supersedes_id=old)


async def by_add_many(ctx, old):
    await ctx.add_many([{**NEW, "supersedes_id": old}])


async def by_a_chosen_id(ctx, old):
    await ctx.add(**NEW, id="new", supersedes_id=old)


async def by_upsert(ctx, old):
    await ctx.upsert(**NEW, external_id="new", supersedes_id=old)


async def by_an_upsert_that_replaces(ctx, old):
    await ctx.add("source", "a draft", external_id="new")
    await ctx.upsert(**NEW, external_id="new", supersedes_id=old)


async def by_update(ctx, old):
    id = (await ctx.add(**NEW)).id
    await ctx.update(id=id, supersedes_id=old)


async def by_its_own_word(ctx, old):
    await ctx.add(**NEW)
    await ctx.update(id=old, superseded_by_id="a record elsewhere")


WAYS = [
    by_add,
    by_add_many,
    by_a_chosen_id,
    by_upsert,
    by_an_upsert_that_replaces,
    by_update,
    by_its_own_word,
]


async def reads(ctx, **options):
    """What each of the reads of the record API shows."""
    return {
        "list": contents(await ctx.list(**options)),
        "scan": contents([one async for one in ctx.scan(**options)]),
        "search": contents(await ctx.search([1.0, 0.0], **options)),
        "words": contents(await ctx.search("fact", mode="text", **options)),
        "retrieve": contents(await ctx.retrieve(text="fact", vector=[1.0, 0.0], **options)),
        "related": contents(await ctx.related("t", **options)),
    }


@pytest.mark.parametrize("way", WAYS)
async def test_no_read_shows_what_is_superseded_unless_it_is_asked_to(ctx, way):
    old = (await ctx.add(**OLD, id="old")).id
    await way(ctx, old)
    for name, found in (await reads(ctx)).items():
        assert found == ["a new fact"], name
    assert await ctx.entries() == 1
    assert await ctx.get(id=old) is await ctx.get_blob(old) is None
    assert (await ctx.update(id=old, tags=["x"]))["updated"] is False
    for name, found in (await reads(ctx, include_retired=True)).items():
        assert sorted(found) == ["a new fact", "an old fact"], name


@pytest.mark.parametrize("way", [by_add, by_add_many, by_a_chosen_id, by_upsert])
async def test_it_is_marked_in_the_commit_of_the_newer_record(ctx, way):
    old = (await ctx.add(**OLD)).id
    before = await ctx.version()
    await way(ctx, old)
    assert await ctx.version() == before + 1
    marked, newer = await ctx.list(include_retired=True)
    assert (marked["superseded_by_id"], newer["supersedes_id"]) == (newer["id"], old)


async def test_one_call_may_bring_both_in_whichever_order(ctx):
    await ctx.add_many(
        [
            {"role": "source", "content": "3", "id": "3", "supersedes_id": "2"},
            {"role": "source", "content": "1", "id": "1"},
            {"role": "source", "content": "2", "id": "2", "supersedes_id": "1"},
        ]
    )
    assert contents(await ctx.list()) == ["3"]
    await ctx.upsert_many(
        [
            {"role": "source", "content": "4", "id": "4", "supersedes_id": "3"},
            {"role": "source", "content": "3, corrected", "id": "3"},
        ],
        key="id",
    )
    assert contents(await ctx.list()) == ["4"]
    assert contents(await ctx.list(include_retired=True)) == ["3, corrected", "1", "2", "4"]


async def test_a_message_and_a_memory_are_superseded_in_every_room(store):
    message = await store.history.append("ada", Message.user("I live in Rome"), session_id="s")
    (memory,) = await store.memory.add(["lives in Rome"], user_id="u")
    await store.context().add_many(
        [
            {"role": "source", "content": "lives in Oslo", "supersedes_id": message},
            {"role": "source", "content": "lives in Oslo", "supersedes_id": memory},
        ]
    )
    assert await store.history.get_messages("ada", session_id="s") == []
    assert await store.history.count("ada", session_id="s") == 0
    assert (await store.memory.list(user_id="u")).items == []
    assert await store.search("Rome", mode="text") == []


# What it costs


@pytest.fixture
def asked(monkeypatch):
    """The tables' reads, counted."""
    calls = []
    for name in ("select", "find", "slice", "take", "count"):
        whole = getattr(Table, name)

        def counting(self, *args, _name=name, _whole=whole, **kwargs):
            calls.append(_name)
            return _whole(self, *args, **kwargs)

        monkeypatch.setattr(Table, name, counting)
    return calls


async def test_only_who_supersedes_asks_for_what_is_superseded(ctx, asked):
    old = (await ctx.add(**OLD)).id
    asked.clear()
    await ctx.add("source", "another")
    assert asked == []
    await ctx.add(**NEW, supersedes_id=old)
    assert asked == ["find"]
    asked.clear()
    await ctx.list()
    assert asked == ["slice"]


async def test_to_change_the_newer_record_otherwise_asks_nothing_more(ctx, asked):
    old = (await ctx.add(**OLD)).id
    new = (await ctx.add(**NEW, supersedes_id=old)).id
    asked.clear()
    await ctx.update(id=new, tags=["x"])
    assert asked == []


# What brings it back, and what does not


async def superseded(ctx):
    old = (await ctx.add(**OLD)).id
    return old, (await ctx.add(**NEW, supersedes_id=old)).id


async def forgotten(store, ctx, new):
    await ctx.delete(id=new)


async def erased(store, ctx, new):
    await store.erase(ids=[new])


async def expired(store, ctx, new):
    await ctx.update(id=new, expires_at=store._resources.clock.now() - timedelta(seconds=1))


async def retired(store, ctx, new):
    await ctx.update(id=new, lifecycle_status="revoked")


async def replaced(store, ctx, new):
    await ctx.upsert("source", "a new fact", id=new, key="id")
    await ctx.delete(id=new)


@pytest.mark.parametrize("fate", [forgotten, erased, expired, retired, replaced])
async def test_whatever_becomes_of_the_newer_record_the_older_stays_hidden(store, ctx, fate):
    old, new = await superseded(ctx)
    await fate(store, ctx, new)
    assert await ctx.list() == []
    shown = await ctx.list(include_retired=True, filters={"id": old})
    assert contents(shown) == ["an old fact"]


async def test_it_is_brought_back_by_taking_the_mark_away(ctx):
    old, new = await superseded(ctx)
    await ctx.update(id=old, include_retired=True, clear=["superseded_by_id"])
    assert contents(await ctx.list()) == ["an old fact", "a new fact"]
    await ctx.update(id=new, tags=["x"])
    assert contents(await ctx.list()) == ["an old fact", "a new fact"]


async def test_to_add_the_older_one_again_does_not_bring_it_back(ctx):
    old = (await ctx.add(**OLD, external_id="o")).id
    await ctx.add(**NEW, supersedes_id=old)
    assert (await ctx.add(**OLD, external_id="o")).id == old
    assert contents(await ctx.list()) == ["a new fact"]


async def test_a_call_that_is_repeated_changes_nothing(ctx):
    old = (await ctx.add(**OLD)).id
    first = await ctx.add(**NEW, external_id="n", supersedes_id=old)
    before = await ctx.version(), await ctx.list(include_retired=True)
    assert (await ctx.add(**NEW, external_id="n", supersedes_id=old)).ids == first.ids
    assert (await ctx.version(), await ctx.list(include_retired=True)) == before


async def test_the_first_that_superseded_it_stays_named(ctx):
    old, new = await superseded(ctx)
    await ctx.add("source", "a newer fact", supersedes_id=old)
    assert contents(await ctx.list()) == ["a new fact", "a newer fact"]
    marked = (await ctx.list(include_retired=True))[0]
    assert marked["superseded_by_id"] == new
    named = {"role": "source", "content": "x", "id": "x", "superseded_by_id": "elsewhere"}
    await ctx.add_many([named, {**NEW, "supersedes_id": "x"}])
    (marked,) = await ctx.list(include_retired=True, filters={"id": "x"})
    assert marked["superseded_by_id"] == "elsewhere"


async def test_the_unknown_and_itself_are_superseded_by_nobody(ctx):
    await ctx.add("source", "a", id="a", supersedes_id="a")
    await ctx.add("source", "b", supersedes_id="unknown")
    assert contents(await ctx.list()) == ["a", "b"]


async def test_an_earlier_version_shows_what_it_showed(ctx):
    old = (await ctx.add(**OLD)).id
    then = await ctx.version()
    await ctx.add(**NEW, supersedes_id=old)
    assert contents(await (await ctx.checkout(then)).list()) == ["an old fact"]
    assert contents(await (await ctx.checkout_latest()).list()) == ["a new fact"]
    await ctx.restore(then)
    assert contents(await ctx.list()) == ["an old fact"]


async def test_a_branch_supersedes_for_itself_and_a_merge_brings_it(store, ctx):
    old = (await ctx.add(**OLD)).id
    branch = await store.create_branch("b")
    await branch.context().add(**NEW, supersedes_id=old)
    assert contents(await ctx.list()) == ["an old fact"]
    assert contents(await branch.context().list()) == ["a new fact"]
    report = await store.merge("b")
    assert report.conflicts == ()
    assert contents(await ctx.list()) == ["a new fact"]


# Scopes


async def test_one_tenant_supersedes_nothing_of_another_s(store):
    a, b = store.scope(tenant="a").context(), store.scope(tenant="b").context()
    for one in (a, b):
        await one.add("source", "old", id="x")
    await b.add("source", "new", supersedes_id="x")
    assert contents(await a.list()) == ["old"]
    assert contents(await b.list()) == ["new"]
    await store.context().add("source", "newer", tenant="a", supersedes_id="x")
    assert contents(await a.list()) == ["newer"]
    assert contents(await b.list()) == ["new"]


async def test_tenants_are_told_apart_within_one_call_and_one_handle_too(ctx):
    old = await ctx.add("source", "a's", id="x", tenant="a")
    await ctx.add("source", "b's", tenant="b", supersedes_id=old.id)
    batch = [{"id": "y", "tenant": "a"}, {"id": "z", "tenant": "b", "supersedes_id": "y"}]
    await ctx.add_many({"role": "source", "content": one["id"], **one} for one in batch)
    assert contents(await ctx.list()) == ["a's", "b's", "y", "z"]


async def test_one_context_supersedes_nothing_of_another_s(store):
    await store.context("one").add("source", "old", id="x")
    await store.context("two").add("source", "new", supersedes_id="x")
    assert contents(await store.context("one").list()) == ["old"]


# Several writers


async def test_many_that_supersede_one_at_once_all_show_and_it_does_not(open_store):
    contexts = [open_store().context() for _ in range(3)]
    old = (await contexts[0].add(**OLD)).id
    written = await asyncio.gather(
        *(contexts[n % 3].add("source", f"{n}", supersedes_id=old) for n in range(9))
    )
    shown = await contexts[0].list()
    assert sorted(contents(shown)) == [f"{n}" for n in range(9)]
    (marked,) = await contexts[0].list(include_retired=True, filters={"id": old})
    assert marked["superseded_by_id"] in {one.id for one in written}


async def test_changes_of_the_older_record_at_the_same_time_are_not_lost(open_store):
    one, other = open_store().context(), open_store().context()
    old = (await one.add(**OLD)).id
    await asyncio.gather(
        other.update(id=old, include_retired=True, source="mail"),
        one.add(**NEW, supersedes_id=old),
        other.update(id=old, include_retired=True, tags=["x"]),
    )
    assert contents(await one.list()) == ["a new fact"]
    (marked,) = await one.list(include_retired=True, filters={"id": old})
    assert (marked["source"], marked["tags"]) == ("mail", ["x"])


@pytest.mark.parametrize("way", [by_add, by_a_chosen_id, by_upsert, by_update])
async def test_who_loses_the_race_for_the_older_record_marks_it_after_the_winner(
    ctx, way, monkeypatch
):
    old = (await ctx.add(**OLD)).id
    whole = changes.marks

    async def overtaken(records, rows):
        found = await whole(records, rows)
        if found:
            monkeypatch.setattr(changes, "marks", whole)
            await ctx.update(id=old, source="mail")
        return found

    monkeypatch.setattr(changes, "marks", overtaken)
    await way(ctx, old)
    assert contents(await ctx.list()) == ["a new fact"]
    (marked,) = await ctx.list(include_retired=True, filters={"id": old})
    assert marked["source"] == "mail"


# Any sequence

IDS = st.sampled_from("abcdef")
CALLS = st.lists(
    st.dictionaries(IDS, st.none() | IDS, min_size=1, max_size=4), min_size=1, max_size=4
)


@settings(max_examples=settings.default.max_examples // 4)
@given(calls=CALLS)
def test_of_any_calls_those_records_show_that_none_of_their_call_or_a_later_one_supersedes(calls):
    seen, hidden = [], set()
    with Context.create("memory://") as ctx:
        for call in calls:
            new = {id: older for id, older in call.items() if id not in seen}
            ctx.add_many(
                {"role": "source", "content": id, "id": id, "supersedes_id": older}
                for id, older in new.items()
            )
            seen += new
            hidden |= {older for id, older in new.items() if older in seen and older != id}
        assert contents(ctx.list()) == [id for id in seen if id not in hidden]
        assert contents(ctx.list(include_retired=True)) == seen

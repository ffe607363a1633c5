"""A context looks back, names, compares and restores versions."""

from datetime import UTC, datetime
from itertools import product

import pytest
from core.stores.records.record_api import assert_refused, contents
from lance_context_testing.samples import NAMES

from lance_context_core import InvalidRequestError, Message, NotFoundError, ReadOnlyError

WRITES = {
    "add": lambda ctx, one: ctx.add("user", "the old text", id=one),
    "add by external id": lambda ctx, one: ctx.add("user", "the old text", external_id=one),
    "add without an id": lambda ctx, one: ctx.add("user", "new"),
    "add_many": lambda ctx, one: ctx.add_many(
        [{"role": "user", "content": "the old text", "id": one}]
    ),
    "upsert": lambda ctx, one: ctx.upsert("user", "new", external_id=one),
    "upsert by id": lambda ctx, one: ctx.upsert("user", "new", id=one, key="id"),
    "update": lambda ctx, one: ctx.update(id=one, tags=["new"]),
    "update by external id": lambda ctx, one: ctx.update(external_id=one, tags=["new"]),
    "delete": lambda ctx, one: ctx.delete(id=one),
    "forget": lambda ctx, one: ctx.forget(external_id=one),
    "compact": lambda ctx, one: ctx.compact(),
    "tag": lambda ctx, one: ctx.tag("new"),
    "delete_tag": lambda ctx, one: ctx.delete_tag("then"),
    "restore": lambda ctx, one: ctx.restore(1),
}


@pytest.mark.parametrize("ref", ["then", 1], ids=["at a tag", "before any record"])
async def test_a_handle_that_looks_back_refuses_every_write(store, ref):
    ctx = store.context()
    await ctx.add("user", "the old text", id="there")
    await ctx.add("user", "the old text", external_id="outside")
    await ctx.tag("then")
    await ctx.add("user", "the old text", id="later")
    latest = store.context()
    await ctx.checkout(ref)
    handles = (ctx, (await store.checkout(ref)).context())
    for action, handle, id in product(WRITES, handles, ["there", "outside", "later", "absent"]):
        with pytest.raises(ReadOnlyError):
            await WRITES[action](handle, id)
        assert contents(await latest.list()) == ["the old text"] * 3, action
        assert set(await latest.tags()) == {"then"}, action


async def test_a_context_names_versions_of_the_store_and_goes_back_to_them(store, ctx):
    number = (await ctx.add("user", "early")).version
    assert await ctx.tag("then") == number
    late = (await ctx.add("user", "late")).version
    assert await ctx.tag("now", version=late) == late
    assert await ctx.tags() == await store.tags() == {"then": number, "now": late}
    assert await ctx.delete_tag("now") is True
    assert await ctx.delete_tag("now") is False
    assert await ctx.restore("then") == await ctx.version() > late
    assert contents(await ctx.list()) == ["early"]
    await ctx.add("user", "again")
    assert contents(await ctx.list()) == ["early", "again"]


async def test_restoring_through_a_context_restores_the_whole_store(store, ctx):
    await store.history.append("bot", Message.user("hello"), session_id="s")
    version = await ctx.version()
    await store.context("notes").add("user", "a note")
    await store.history.clear("bot", session_id="s")
    await ctx.restore(version)
    assert await store.history.count("bot", session_id="s") == 1
    assert await store.context("notes").entries() == 0


async def test_a_diff_shows_what_changed_in_this_context(store):
    contexts = {name: store.context(name) for name in ("first", "second")}
    for name, ctx in contexts.items():
        await ctx.add("user", name, external_id="changed")
        await ctx.add("user", name, external_id="gone", lifecycle_status="superseded")
    before = await store.version()
    for name, ctx in contexts.items():
        await ctx.update(external_id="changed", source=name)
        await ctx.delete(external_id="gone")
        await ctx.add("user", f"new in {name}")
    after = await store.version()
    for name, ctx in contexts.items():
        for diff in (await ctx.diff(before), await ctx.diff(before, after)):
            assert [one.text for one in diff.added] == [f"new in {name}"]
            assert [(c.after.source, c.fields) for c in diff.changed] == [(name, ("source",))]
            assert [one.text for one in diff.removed] == [name]
        assert [one.text for one in (await ctx.diff(after, before)).removed] == [f"new in {name}"]
        await ctx.checkout(before)
        assert not await ctx.diff(before)
        assert await ctx.diff(before, after)


@pytest.mark.usefixtures("each_write_commits")
async def test_digits_are_a_version_unless_they_are_a_tag(ctx):
    first = (await ctx.add("user", "first")).version
    second = (await ctx.add("user", "second")).version
    assert contents(await (await ctx.checkout(f"{first}")).list()) == ["first"]
    await ctx.checkout_latest()
    assert [one.text for one in (await ctx.diff(f"{first}")).added] == ["second"]
    await ctx.tag(f"{first}", version=second)
    assert contents(await (await ctx.checkout(f"{first}")).list()) == ["first", "second"]
    assert contents(await (await ctx.checkout(first)).list()) == ["first"]


@pytest.mark.parametrize("verb", ["checkout", "restore", "diff"])
@pytest.mark.parametrize("ref", [0, 999, "unknown", "999", "", datetime(1970, 1, 1, tzinfo=UTC)])
async def test_what_is_no_version_is_not_found(ctx, verb, ref):
    await ctx.add("user", "a")
    await assert_refused(ctx, getattr(ctx, verb)(ref), NotFoundError, ".")


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_is_a_tag_for_a_context_as_it_is_for_the_store(store, name):
    await store.context("first").add("user", "a")
    outcomes = []
    for handle in (store, store.context("second")):
        try:
            outcomes.append(await handle.tag(name))
        except InvalidRequestError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("verb", ["tag", "delete_tag", "restore"])
async def test_the_context_of_a_scope_leaves_the_whole_store_alone(store, verb):
    await store.context().add("user", "a")
    await store.tag("then")
    ctx = store.scope(tenant="x").context()
    await assert_refused(ctx, getattr(ctx, verb)("then"), InvalidRequestError, "scope")
    assert set(await ctx.tags()) == {"then"}


async def test_every_time_that_is_returned_is_in_utc_itself(store):
    ctx = store.context()
    await ctx.add(
        "user",
        "a",
        external_id="x",
        expires_at="2999-01-01T00:00:00+05:00",
        retired_at="2998-01-01T00:00:00Z",
    )
    before = await ctx.version()
    await ctx.update(external_id="x", tags=["x"])
    await store.memory.add(["tea"], user_id="u")
    await store.history.append("bot", Message.user("hello"), session_id="s")
    (change,) = (await store.diff(before)).changed
    (hit,) = await store.search("tea")
    upserted = await ctx.upsert("user", "b", external_id="x")
    (again,) = await ctx.upsert_many([{"role": "user", "content": "c", "external_id": "x"}])
    (message,) = await store.history.get_messages("bot", session_id="s")
    shown = [
        *await ctx.list(),
        await ctx.get(external_id="x"),
        (await ctx.update(external_id="x", source="s"))["record"],
        upserted["record"],
        again["record"],
        *await ctx.search("c"),
    ]
    values = [change.before, change.after, hit.record, message]
    values += (await store.memory.list(user_id="u")).items
    values += [*await store.versions(), *await ctx.versions()]
    names = ("created_at", "updated_at", "expires_at", "retired_at")
    times = [one[name] for one in shown for name in names]
    times += [getattr(one, name, None) for one in values for name in names]
    zones = {time.tzinfo for time in times if time is not None}
    assert [zone is UTC for zone in zones] == [True]

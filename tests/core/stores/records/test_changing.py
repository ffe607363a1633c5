"""The record API replaces records in place, and changes, clears and revives them."""

import asyncio

import pytest
from core.conformance.doubles import START
from core.stores.records.record_api import EVERY_FIELD, assert_refused, contents, fill

from lance_context_core import InvalidRequestError
from lance_context_core.errors import DimensionMismatchError

# Upserting


async def test_an_upsert_adds_and_then_replaces_in_place(ctx, clock):
    await fill(ctx, 1)
    first = await ctx.upsert("user", "a", external_id="x", tags=["old"], embedding=[1.0, 0.0])
    added = await ctx.get(external_id="x")
    assert first == {
        "inserted": True,
        "replaced_id": None,
        "version": await ctx.version(),
        "record": added,
    }
    await ctx.add("user", "2")
    clock.advance(seconds=5)
    second = await ctx.upsert("tool", "b", external_id="x", metadata={"n": 1})
    replaced = await ctx.get(external_id="x")
    assert second == {
        "inserted": False,
        "replaced_id": added["id"],
        "version": await ctx.version(),
        "record": replaced,
    }
    assert (replaced["role"], replaced["content"], replaced["metadata"]) == ("tool", "b", {"n": 1})
    # What the new record does not have is gone: it replaces the old one, and is not merged with it.
    assert (replaced["tags"], replaced["embedding"]) == ([], None)
    assert (replaced["id"], replaced["created_at"], replaced["updated_at"]) == (
        added["id"],
        START,
        clock.now(),
    )
    assert contents(await ctx.list()) == ["0", "b", "2"]


async def test_many_are_upserted_in_one_commit(ctx):
    await ctx.upsert("user", "old", external_id="x")
    before = await ctx.version()
    batch = [{"role": "user", "content": f"new {name}", "external_id": name} for name in "wxy"]
    results = await ctx.upsert_many(batch)
    assert [one["inserted"] for one in results] == [True, False, True]
    assert {one["version"] for one in results} == {before + 1} == {await ctx.version()}
    assert [one["record"] for one in results] == [await ctx.get(external_id=n) for n in "wxy"]
    assert contents(await ctx.list()) == ["new x", "new w", "new y"]


async def test_records_are_upserted_by_their_own_id_too(ctx):
    ids = await fill(ctx, 2)
    result = await ctx.upsert("user", "new", id=ids[0], key="id")
    assert (result["inserted"], result["replaced_id"]) == (False, ids[0])
    assert (await ctx.upsert("user", "other", id="mine", key="id"))["record"]["id"] == "mine"
    assert contents(await ctx.list()) == ["new", "1", "other"]


async def test_a_replaced_text_is_found_by_its_new_words_and_vector_only(embedding_ctx):
    await embedding_ctx.upsert("user", "about walruses", external_id="x")
    await embedding_ctx.upsert("user", "concerning quokkas", external_id="x")
    assert await embedding_ctx.search("walruses", mode="text") == []
    assert contents(await embedding_ctx.search("quokkas", mode="text")) == ["concerning quokkas"]
    (hit,) = await embedding_ctx.search("concerning quokkas")
    assert hit["score"] == pytest.approx(1)


# Updating


async def test_an_update_changes_what_is_named_and_nothing_else(ctx, clock):
    id = (await ctx.add("user", "a", **EVERY_FIELD, embedding=[1.0, 2.0])).id
    before = await ctx.get(id=id)
    changes = {
        "metadata": {"only": "this"},
        "relationships": [{"target_id": "t", "relation": "r", "weight": None}],
        "tags": [],
        "source": "phone",
        "embedding": [3.0, 4.0],
        "state_metadata": {"step": 4},
        "tenant": "other",
        "bot_id": "bot",
        "payload_size": 0,
    }
    clock.advance(seconds=1)
    result = await ctx.update(id=id, **changes)
    expected = {**before, **changes, "agent_id": "bot", "updated_at": clock.now()}
    assert result == {
        "updated": True,
        "replaced_id": id,
        "version": await ctx.version(),
        "record": expected,
    }
    assert await ctx.get(id=id) == expected
    await ctx.update(id=id, metadata={})
    assert (await ctx.get(id=id))["metadata"] == {}


@pytest.mark.parametrize(
    "hidden", [{}, {"expires_at": START}, {"retired_at": START}, {"lifecycle_status": "superseded"}]
)
async def test_what_is_absent_or_hidden_is_not_updated(ctx, hidden):
    if hidden:
        await ctx.add("user", "a", external_id="x", **hidden)
    before = await ctx.version()
    assert await ctx.update(external_id="x", source="new") == {
        "updated": False,
        "replaced_id": None,
        "version": before,
        "record": None,
    }
    assert before == await ctx.version()


async def test_a_vector_that_comes_later_makes_a_record_searchable_by_vector(ctx):
    pending = {"role": "source", "content": "later", "metadata": {"embedding_status": "pending"}}
    await ctx.add_many([{**pending, "external_id": name} for name in "ab"])
    assert await ctx.search([1.0, 0.0]) == []
    assert len(await ctx.search("later")) == 2
    result = await ctx.update(
        external_id="b", embedding=[1.0, 0.0], metadata={"embedding_status": "ready"}
    )
    assert result["record"]["embedding"] == [1.0, 0.0]
    assert [one["external_id"] for one in await ctx.search([1.0, 0.0])] == ["b"]
    assert [
        one["external_id"] for one in await ctx.list(filters={"embedding_status": "pending"})
    ] == ["a"]
    await assert_refused(
        ctx, ctx.update(external_id="a", embedding=[1.0]), DimensionMismatchError, "1"
    )


@pytest.mark.slow
async def test_concurrent_updates_of_one_record_all_count(open_store):
    contexts = [open_store().context(), open_store().context()]
    await contexts[0].add("user", "a", external_id="x")
    changes = {
        "agent_id": "a", "user_id": "u", "session_id": "s", "run_id": "r", "tenant": "t",
        "source": "s", "metadata": {"a": 1}, "state_metadata": {"s": 1}, "tags": ["t"],
        "retention_policy": "p", "supersedes_id": "q", "payload_uri": "w", "source_ids": ["z"],
    }  # fmt: skip
    results = await asyncio.gather(
        *(contexts[n % 2].update(external_id="x", **{name: value}) for n, (name, value) in enumerate(changes.items()))
    )  # fmt: skip
    assert all(one["updated"] for one in results)
    for ctx in contexts:
        record = await ctx.get(external_id="x")
        assert {name: record[name] for name in changes} == changes


# Clearing and reviving

FULL = {
    **EVERY_FIELD,
    "agent_id": "bot",
    "embedding": [1.0, 2.0],
    "relationships": [{"target_id": "t", "relation": "r", "weight": None}],
    "superseded_by_id": "after",
}
FIXED = {"external_id", "kind", "name", "layer", "created_at"}


@pytest.mark.parametrize("name", [*sorted(FULL.keys() - FIXED), "bot_id"])
async def test_a_cleared_field_is_as_if_it_had_never_been_given(ctx, name):
    bare = await ctx.get(id=(await ctx.add("user", "bare")).id)
    id = (await ctx.add("user", "full", **FULL)).id
    hidden = {"filters": {"id": id}, "include_retired": True}
    (before,) = await ctx.list(**hidden)
    assert before[name] != bare[name]
    names = {"agent_id", "bot_id"} if name in {"agent_id", "bot_id"} else {name}
    expected = before | {one: bare[one] for one in names}
    cleared = await ctx.update(id=id, include_retired=True, clear=[name])
    assert cleared["record"] == expected
    assert await ctx.list(**hidden) == [expected]


async def test_one_update_may_clear_some_fields_and_set_others(ctx):
    id = (await ctx.add("user", "a", source="mail", tags=["x"], metadata={"n": 1})).id
    record = (await ctx.update(id=id, clear=("source", "tags"), metadata={"n": 2}))["record"]
    assert (record["source"], record["tags"], record["metadata"]) == (None, [], {"n": 2})


async def test_none_is_not_named_as_it_always_was(ctx):
    id = (await ctx.add("user", "a", source="mail", metadata={"n": 1})).id
    await ctx.update(id=id, source=None, metadata=None, tags=["x"])
    record = await ctx.get(id=id)
    assert (record["source"], record["metadata"], record["tags"]) == ("mail", {"n": 1}, ["x"])


async def test_a_cleared_vector_is_made_anew_from_the_text(open_store, embedder):
    ctx = open_store(embedder=embedder).context()
    id = (await ctx.add("user", "quokkas", embedding=[1.0] * embedder.dimension)).id
    record = (await ctx.update(id=id, clear=["embedding"]))["record"]
    assert record["embedding"] == embedder.embed_query("quokkas").tolist()


@pytest.mark.parametrize(
    "clear", [["kind"], ["id"], ["external_id"], ["x"], [5], "tags", 5, [None]]
)
async def test_only_what_can_be_changed_can_be_cleared(ctx, clear):
    await ctx.add("user", "there", external_id="there")
    work = ctx.update(external_id="there", clear=clear)
    await assert_refused(ctx, work, InvalidRequestError, "clear")


@pytest.mark.parametrize("named", [{"tags": ["x"]}, {"embedding": [1.0]}, {"bot_id": "b"}])
async def test_a_field_is_cleared_or_set_but_not_both(ctx, named):
    await ctx.add("user", "there", external_id="there")
    names = ["tags", "embedding", "agent_id"]
    work = ctx.update(external_id="there", clear=names, **named)
    await assert_refused(ctx, work, InvalidRequestError, "clear")


async def test_a_retired_record_is_brought_back(ctx):
    await ctx.add("user", "a", external_id="x", retired_reason="old", lifecycle_status="superseded")
    await ctx.update(external_id="x", include_retired=True, retired_at=START)
    assert await ctx.update(external_id="x", lifecycle_status="active") == {
        "updated": False,
        "replaced_id": None,
        "version": await ctx.version(),
        "record": None,
    }
    revived = await ctx.update(
        external_id="x",
        include_retired=True,
        lifecycle_status="active",
        clear=["retired_at", "retired_reason"],
    )
    assert revived["updated"]
    assert await ctx.get(external_id="x") == revived["record"]
    assert (revived["record"]["retired_at"], revived["record"]["retired_reason"]) == (None, None)


async def test_an_expired_record_is_brought_back(ctx, clock):
    await ctx.add("user", "a", external_id="x", expires_at=clock.now())
    assert not (await ctx.update(external_id="x", clear=["expires_at"]))["updated"]
    assert not (await ctx.update(external_id="x", include_retired=True, tags=["t"]))["updated"]
    assert (await ctx.update(external_id="x", include_expired=True, clear=["expires_at"]))[
        "updated"
    ]
    assert (await ctx.get(external_id="x"))["expires_at"] is None


# Tenant and tags from the metadata


async def test_metadata_names_the_tenant_of_a_record_that_has_none_and_moves_no_other(ctx):
    ids = [(await ctx.add("user", "a", tenant=tenant)).id for tenant in (None, "own")]
    for id in ids:
        await ctx.update(id=id, metadata={"tenant": "other"})
    assert [one["tenant"] for one in await ctx.list()] == ["other", "own"]
    await ctx.update(id=ids[0], metadata={"tenant": "third"})
    await ctx.update(id=ids[1], metadata={"tenant": "third"}, tenant="moved")
    assert [one["tenant"] for one in await ctx.list()] == ["other", "moved"]
    assert [one["metadata"] for one in await ctx.list()] == [{"tenant": "third"}] * 2


async def test_tags_that_came_from_the_metadata_follow_it_and_others_stay(ctx):
    followed = (await ctx.add("user", "a", metadata={"tags": ["old"]})).id
    own = (await ctx.add("user", "a", tags=["own"])).id
    for id in (followed, own):
        await ctx.update(id=id, metadata={"tags": ["new"]})
    assert [one["tags"] for one in await ctx.list()] == [["new"], ["own"]]
    for id in (followed, own):
        await ctx.update(id=id, metadata={})
    assert [one["tags"] for one in await ctx.list()] == [[], ["own"]]


@pytest.mark.parametrize("part", ["tenant", "user_id", "agent_id"])
async def test_no_change_takes_a_record_into_another_scope(store, part):
    acme, globex = (store.scope(**{part: name}).context() for name in ("acme", "globex"))
    await globex.add("user", "theirs", external_id="x")
    id = (await acme.add("user", "ours", external_id="x", metadata={part: "acme"})).id
    before = await globex.list()
    for change in ({"metadata": {part: "acme"}}, {part: "acme"}, {part: ""}, {"clear": [part]}):
        await acme.update(id=id, source="changed", **change)
        assert (await acme.get(id=id))[part] == "acme"
    for taken in ("globex", "initech"):
        claims = [{part: taken}, *([{"metadata": {part: taken}}] if part == "tenant" else [])]
        for claim in claims:
            with pytest.raises(InvalidRequestError, match=part):
                await acme.update(id=id, **claim)
            with pytest.raises(InvalidRequestError, match=part):
                await acme.add("user", "new", **claim)
    assert await globex.list() == before
    assert [one[part] for one in await store.context().list()] == ["globex", "acme"]
    theirs = before[0]["id"]
    assert not (await acme.update(id=theirs, source="mine"))["updated"]
    assert await acme.delete(id=theirs) is False

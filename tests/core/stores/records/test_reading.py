"""The record API lists, searches and relates what is there, and shows what was there."""

from datetime import datetime, timedelta, timezone
from itertools import product

import pytest
from core.conformance.doubles import START
from core.stores.records.record_api import contents, fill
from lance_context_testing.samples import NAMES

from lance_context_core import (
    InvalidRequestError,
    Message,
    NotFoundError,
    ReadOnlyError,
    ReasoningPart,
    ToolCallPart,
)
from lance_context_core.search.fusion import Convex, ReciprocalRank
from lance_context_core.search.options import SearchOptions
from lance_context_core.types import Relationship

EARLIER = datetime(2020, 2, 29, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=-7)))


# Reading


async def test_what_is_not_there_is_none(ctx):
    for named in ({"id": "a"}, {"external_id": "a"}):
        assert await ctx.get(**named) is None
        assert await ctx.delete(**named) is False
    assert await ctx.get_blob("a") is None
    assert (await ctx.list(), await ctx.entries(), await ctx.version()) == ([], 0, 0)
    assert await ctx.search("a") == await ctx.search([1.0]) == await ctx.retrieve(text="a") == []
    assert await ctx.related("a") == await ctx.versions() == []
    assert (await ctx.compact())["fragments_removed"] == 0
    assert (await ctx.compaction_stats())["total_fragments"] == 0


PARTS = list(product([None, 0, 1, 2, 5, 9], [None, 0, 1, 3, 5, 9]))


async def test_a_part_of_the_list_is_a_slice_from_either_end(ctx):
    await fill(ctx, 5)
    for limit, offset in PARTS:
        start = offset or 0
        stop = None if limit is None else start + limit
        listed = contents(await ctx.list(limit, offset))
        assert listed == ["0", "1", "2", "3", "4"][start:stop], (limit, offset)
        newest = contents(await ctx.list(limit, offset, newest_first=True))
        assert newest == ["4", "3", "2", "1", "0"][start:stop], (limit, offset)


async def test_a_part_of_a_filtered_list_counts_what_matches_alone(ctx):
    await ctx.add_many({"role": "user" if n % 3 else "tool", "content": str(n)} for n in range(12))
    tools = {"role": "tool"}
    assert contents(await ctx.list(2, 1, tools)) == ["3", "6"]
    assert contents(await ctx.list(2, 1, tools, newest_first=True)) == ["6", "3"]


@pytest.mark.parametrize(
    "bad", [{"limit": -1}, {"limit": 1.0}, {"limit": True}, {"offset": -1}, {"offset": "1"}]
)
async def test_a_part_that_is_none_is_refused(ctx, bad):
    for newest_first in (False, True):
        with pytest.raises(InvalidRequestError):
            await ctx.list(**bad, newest_first=newest_first)


async def test_payloads_are_left_out_where_they_are_not_wanted(ctx):
    id = (await ctx.add("tool", b"bytes", embedding=[1.0, 0.0])).id
    complete = await ctx.get(id=id)
    assert (complete["binary"], complete["embedding"]) == (b"bytes", [1.0, 0.0])
    for binary, embedding in product([True, False], repeat=2):
        switches = {"include_binary": binary, "include_embedding": embedding}
        expected = {
            **complete,
            "binary": b"bytes" if binary else None,
            "content": b"bytes" if binary else None,
            "embedding": [1.0, 0.0] if embedding else None,
        }
        assert await ctx.list(**switches) == [expected]
        for hits in (
            await ctx.search([1.0, 0.0], **switches),
            await ctx.retrieve(vector=[1.0, 0.0], **switches),
        ):
            assert [{key: hit[key] for key in expected} for hit in hits] == [expected]


async def test_the_bytes_of_a_record_are_read_by_its_id(ctx, clock):
    first = await ctx.add("tool", b"\0\xff" * 100_000)
    text = await ctx.add("user", "no bytes")
    hidden = await ctx.add("tool", b"a", expires_at=clock.now())
    assert await ctx.get_blob(first.id) == b"\0\xff" * 100_000
    assert await ctx.get_blob(text.id) is None
    assert await ctx.get_blob(hidden.id) is None


# Searching


async def test_the_nearest_come_first_with_scores_and_distances_that_say_so(ctx):
    vectors = {
        "same": [2.0, 0.0],
        "near": [1.0, 1.0],
        "right angle": [0.0, 3.0],
        "opposite": [-1.0, 0.0],
    }
    await ctx.add_many(
        {"role": "user", "content": name, "embedding": vector} for name, vector in vectors.items()
    )
    await ctx.add("user", "without a vector")
    hits = await ctx.search([1.0, 0.0])
    assert contents(hits) == list(vectors)
    cosines = [1.0, 0.5**0.5, 0.0, -1.0]
    assert [one["distance"] for one in hits] == pytest.approx([1 - c for c in cosines], abs=1e-6)
    assert [one["score"] for one in hits] == pytest.approx([(1 + c) / 2 for c in cosines], abs=1e-6)
    assert [one["vector_distance"] for one in hits] == [one["distance"] for one in hits]
    assert {(*one["matched_channels"], one["text_score"]) for one in hits} == {("vector", None)}
    assert contents(await ctx.search([1.0, 0.0], 2)) == ["same", "near"]
    assert await ctx.search([1.0, 0.0], 0) == []


async def test_a_text_is_searched_by_words_without_an_embedder_and_by_vector_with_one(
    ctx, embedding_ctx
):
    await ctx.add("user", "alpha beta")
    (hit,) = await ctx.search("alpha")
    assert (hit["matched_channels"], hit["distance"]) == (["text"], None)
    assert 0 < hit["score"] < 1
    assert hit["text_score"] > 0
    await embedding_ctx.upsert("user", "gamma delta", external_id="g")
    assert (await embedding_ctx.search("gamma"))[0]["matched_channels"] == ["vector"]
    (hit,) = await embedding_ctx.search("gamma", mode="text")
    assert (hit["content"], hit["matched_channels"]) == ("gamma delta", ["text"])
    hit = (await embedding_ctx.search("gamma", mode="hybrid"))[0]
    assert (hit["content"], sorted(hit["matched_channels"])) == ("gamma delta", ["text", "vector"])


async def test_retrieving_fuses_words_and_meaning_on_one_scale(ctx):
    await ctx.add("user", "both quokka", embedding=[1.0, 0.0])
    await ctx.add("user", "words quokka")
    await ctx.add("user", "meaning", embedding=[1.0, 0.1])
    await ctx.add("user", "neither")
    question = {"text": "quokka", "vector": [1.0, 0.0]}
    for named, fusion in (("rrf", ReciprocalRank()), ("convex", Convex()), (Convex(), Convex())):
        hits = await ctx.retrieve(**question, fusion=named)
        assert [(one["content"], sorted(one["matched_channels"])) for one in hits] == [
            ("both quokka", ["text", "vector"]),
            ("words quokka", ["text"]),
            ("meaning", ["vector"]),
        ]
        scores = [one["score"] for one in hits]
        assert 1 >= scores[0] > scores[1] > scores[2] >= 0
        assert contents(await ctx.retrieve(**question, limit=1, fusion=named)) == ["both quokka"]
        # Options go before the fusion.
        again = await ctx.retrieve(**question, options=SearchOptions(fusion=fusion), fusion="rrf")
        assert [one["score"] for one in again] == scores


async def test_reciprocal_ranks_are_scaled_to_one(ctx):
    vectors = [[1.0, 0.0], [1.0, 0.1], [1.0, 0.2]]
    await ctx.add_many({"role": "user", "content": "a", "embedding": one} for one in vectors)
    options = SearchOptions(fusion=ReciprocalRank(), neighbours=0.0)
    hits = await ctx.retrieve(text="walrus", vector=[1.0, 0.0], options=options)
    # The channel of words found nothing: half of the sum is missing.
    assert [one["score"] for one in hits] == pytest.approx([61 / (60 + n) / 2 for n in (1, 2, 3)])


async def test_retrieving_a_text_uses_the_embedder_if_there_is_one(embedding_ctx, ctx):
    await embedding_ctx.add("user", "gamma delta")
    (hit,) = await embedding_ctx.retrieve(text="gamma")
    assert sorted(hit["matched_channels"]) == ["text", "vector"]
    (hit,) = await ctx.retrieve(text="gamma")
    assert hit["matched_channels"] == ["text"]


async def test_a_filtered_search_returns_as_many_as_match(ctx):
    await ctx.add_many(
        {"role": "user", "content": f"item {n}", "embedding": [1.0, n], "tenant": str(n % 20)}
        for n in range(200)
    )
    wanted = {f"item {n}" for n in range(200) if n % 20 == 7}
    filters = {"tenant": "7"}
    for hits in (
        await ctx.search([1.0, 0.0], 10, filters),
        await ctx.search("item", 10, filters),
        await ctx.retrieve(text="item", vector=[1.0, 0.0], limit=10, filters=filters),
    ):
        assert set(contents(hits)) == wanted
        assert len(hits) == 10


@pytest.mark.parametrize("question", [
    {"query": None}, {"query": [1.0]}, {"query": b"ab"}, {"query": [float("nan"), 1.0]},
    {"query": "a", "limit": -1}, {"query": "a", "mode": "vector"},
    {"query": [1.0, 0.0], "mode": "text"}, {"query": "a", "mode": "fuzzy"},
])  # fmt: skip
async def test_a_question_that_cannot_be_answered_is_refused(ctx, question):
    await ctx.add("user", "a", embedding=[1.0, 0.0])
    with pytest.raises(InvalidRequestError):
        await ctx.search(**question)


@pytest.mark.parametrize(
    "question",
    [{}, {"text": "a", "fusion": "average"}, {"vector": [1.0]}, {"text": "a", "limit": -1}],
)
async def test_a_retrieval_that_cannot_be_answered_is_refused(ctx, question):
    await ctx.add("user", "a", embedding=[1.0, 0.0])
    with pytest.raises(InvalidRequestError):
        await ctx.retrieve(**question)


# Relationships


async def test_relationships_are_kept_in_order_with_and_without_weights(ctx):
    edges = [
        {"target_id": "b", "relation": "cites", "weight": 0.0},
        {"target_id": "a", "relation": 'it\'s "quoted"', "weight": None},
        {"target_id": "a", "relation": "cites", "weight": 1.0},
    ]
    given = [edges[0], {"target_id": "a", "relation": 'it\'s "quoted"'}, Relationship(**edges[2])]
    id = (await ctx.add("user", "a", relationships=given, embedding=[1.0])).id
    assert (await ctx.get(id=id))["relationships"] == edges
    assert (await ctx.list())[0]["relationships"] == edges
    assert (await ctx.related("b"))[0]["relationships"] == edges
    for hits in (
        await ctx.search([1.0], include_relationships=True),
        await ctx.retrieve(text="a", include_relationships=True),
    ):
        assert hits[0]["relationships"] == edges
    for hits in (await ctx.search([1.0]), await ctx.retrieve(text="a")):
        assert hits[0]["relationships"] == []


async def test_records_are_found_by_what_they_point_at(ctx):
    for n, edges in enumerate([["a:cites"], ["b:cites", "a:describes"], [], ["a:describes"]]):
        pairs = [one.split(":") for one in edges]
        relationships = [{"target_id": target, "relation": relation} for target, relation in pairs]
        await ctx.add("user", str(n), relationships=relationships)
    assert contents(await ctx.related("a")) == ["0", "1", "3"]
    assert contents(await ctx.related("a", "describes")) == ["1", "3"]
    assert contents(await ctx.related("a", relation="describes", limit=1)) == ["1"]
    assert contents(await ctx.related("b", "describes")) == []
    assert contents(await ctx.related("c")) == []
    assert contents(await ctx.list(filters={"relationships": {"contains": "a"}})) == ["0", "1", "3"]
    await ctx.update(id=(await ctx.related("a", "cites"))[0]["id"], relationships=[])
    assert contents(await ctx.related("a")) == ["1", "3"]


@pytest.mark.parametrize("limit", [-1, "1", True])
async def test_a_number_of_related_records_that_is_none_is_refused(ctx, limit):
    with pytest.raises(InvalidRequestError, match="limit"):
        await ctx.related("a", limit=limit)


async def test_hostile_targets_and_relations_find_their_own_records_alone(ctx):
    made = [
        {"role": "u", "content": name, "relationships": [{"target_id": name, "relation": other}]}
        for name, other in zip(NAMES, reversed(NAMES), strict=True)
    ]
    await ctx.add_many(made)
    for name, other in zip(NAMES, reversed(NAMES), strict=True):
        assert contents(await ctx.related(name)) == [name]
        assert contents(await ctx.related(name, other)) == [name]
        assert contents(await ctx.related(name, other + "!")) == []


@pytest.mark.parametrize("decoy", ['["cites","a"]', "citesa", "cites:a", "cites a", "a cites"])
async def test_a_target_is_not_taken_for_another_one_and_its_relation(ctx, decoy):
    await ctx.add("u", "decoy", relationships=[{"target_id": decoy, "relation": "is"}])
    await ctx.add("u", "real", relationships=[{"target_id": "a", "relation": "cites"}])
    assert contents(await ctx.related("a", "cites")) == ["real"]
    assert contents(await ctx.related(decoy)) == ["decoy"]


# Life cycle


async def shown_by(ctx, **switches):
    """What every read shows; all of them must agree. All records say "word" and have a vector."""
    listed = {one["external_id"] for one in await ctx.list(**switches)}
    searches = [
        await ctx.search([1.0, 0.0], 100, **switches),
        await ctx.search("word", 100, **switches),
        await ctx.retrieve(text="word", vector=[1.0, 0.0], limit=100, **switches),
        await ctx.related("target", **switches),
    ]
    assert [{one["external_id"] for one in found} for found in searches] == [listed] * 4
    if not switches:
        assert await ctx.entries() == len(listed)
        one_by_one = {name for name in LIVES if await ctx.get(external_id=name)}
        assert one_by_one == listed
    return listed


SECOND = timedelta(seconds=1)
LIVES = {
    "plain": {},
    "contradicted": {"lifecycle_status": "contradicted"},
    "expires later": {"expires_at": START + SECOND},
    "expires now": {"expires_at": START},
    "expired": {"expires_at": START - SECOND},
    "retires later": {"retired_at": START + SECOND},
    "retired": {"retired_at": START, "retired_reason": "wrong"},
    "superseded": {"lifecycle_status": "superseded"},
    "a word of one's own": {"lifecycle_status": "it's over"},
    "retired and expired": {"retired_at": START, "expires_at": START},
}
ALIVE = {"plain", "contradicted", "expires later", "retires later"}
EXPIRED = {"expires now", "expired"}
RETIRED = {"retired", "superseded", "a word of one's own"}


async def test_every_read_hides_what_is_expired_or_retired_unless_it_is_asked_for(ctx, clock):
    await ctx.add_many(
        {"role": "user", "content": f"word {name}", "external_id": name, "embedding": [1.0, 0.1],
         "relationships": [{"target_id": "target", "relation": "is"}], **life}
        for name, life in LIVES.items()
    )  # fmt: skip
    assert await shown_by(ctx) == ALIVE
    assert await shown_by(ctx, include_expired=True) == ALIVE | EXPIRED
    assert await shown_by(ctx, include_retired=True) == ALIVE | RETIRED
    assert await shown_by(ctx, include_expired=True, include_retired=True) == set(LIVES)
    clock.advance(seconds=1)
    assert await shown_by(ctx) == ALIVE - {"expires later", "retires later"}


@pytest.mark.parametrize("name", LIVES)
async def test_what_is_hidden_can_still_be_forgotten(ctx, name):
    await ctx.add("user", "a", external_id=name, **LIVES[name])
    assert await ctx.forget(external_id=name) is True
    assert await ctx.list(include_expired=True, include_retired=True) == []
    assert await ctx.delete(external_id=name) is False


async def test_deleting_leaves_older_versions_as_they_were(ctx):
    written = await ctx.add("user", "secret")
    assert await ctx.delete(id=written.id) is True
    assert await ctx.entries() == 0
    await ctx.checkout(written.version)
    assert contents(await ctx.list()) == ["secret"]


# Versions


async def test_a_checkout_turns_one_handle_to_a_moment_and_back(store, ctx):
    await ctx.add("user", "first", external_id="x")
    number = await store.tag("then")
    (moment,) = [one.created_at for one in await ctx.versions() if one.number == number]
    await ctx.upsert("user", "second", external_id="x")
    await ctx.add("user", "third")
    other = store.context()
    for ref in (number, str(number), "then", moment, moment.astimezone(EARLIER.tzinfo)):
        assert await ctx.checkout(ref) is ctx
        assert (await ctx.version(), contents(await ctx.list())) == (number, ["first"])
        assert (await ctx.get(external_id="x"))["content"] == "first"
        assert contents(await ctx.search("first second third")) == ["first"]
        assert await ctx.entries() == 1
        assert contents(await other.list()) == ["second", "third"]
    assert await ctx.checkout_latest() is ctx
    assert contents(await ctx.list()) == ["second", "third"]


async def test_a_checked_out_handle_refuses_every_write(ctx):
    number = (await ctx.add("user", "first", external_id="x")).version
    await ctx.checkout(number)
    for write in (
        ctx.add("user", "second"),
        ctx.add_many([{"role": "user", "content": "a", "external_id": "new"}]),
        ctx.upsert("user", "second", external_id="x"),
        ctx.update(external_id="x", source="new"),
        ctx.update(external_id="x", embedding=[1.0]),
        ctx.delete(external_id="x"),
    ):
        with pytest.raises(ReadOnlyError, match="earlier version"):
            await write
    await ctx.checkout_latest()
    assert (await ctx.version(), contents(await ctx.list())) == (number, ["first"])


@pytest.mark.parametrize(
    ("ref", "error"),
    [
        (0, NotFoundError),
        (99, NotFoundError),
        ("99", NotFoundError),
        ("nothing", NotFoundError),
        (EARLIER, NotFoundError),
        (True, InvalidRequestError),
        (None, InvalidRequestError),
        (START.replace(tzinfo=None), InvalidRequestError),
    ],
)
async def test_a_checkout_of_what_never_was_leaves_the_handle_where_it_is(ctx, ref, error):
    await ctx.add("user", "first")
    with pytest.raises(error):
        await ctx.checkout(ref)
    await ctx.add("user", "second")
    assert contents(await ctx.list()) == ["first", "second"]


@pytest.mark.parametrize(
    ("expires", "retired", "status"),
    list(product([None, -1, 1], [None, -1, 0, 1], ["active", "contradicted", "superseded"])),
)
async def test_get_sees_what_list_sees(ctx, expires, retired, status):
    times = {
        name: START + timedelta(seconds=seconds)
        for name, seconds in (("expires_at", expires), ("retired_at", retired))
        if seconds is not None
    }
    await ctx.add("user", "x", external_id="e", lifecycle_status=status, **times)
    assert bool(await ctx.list()) == bool(await ctx.get(external_id="e"))


async def test_records_are_what_list_returns_with_the_parts_of_messages(store):
    said = Message(
        role="assistant",
        parts=[ReasoningPart(text="Hm."), ToolCallPart(call_id="1", name="look", arguments={})],
        id="call",
    )
    await store.history.append("one", Message.user("Where?", id="ask"), session_id="s")
    await store.history.append("other", said, session_id="s")
    await store.memory.add([Message.user("elsewhere", id="m")], user_id="ada")
    ctx = store.context()
    turns = await ctx.records(filters={"session_id": "s"})
    assert [one.agent_id for one in turns] == ["one", "other"]
    assert turns[1].to_message().parts == said.parts
    for spans in ({"limit": 2}, {"limit": 1, "offset": 1}, {"newest_first": True, "limit": 2}):
        listed = await ctx.list(**spans)
        assert [one.id for one in await ctx.records(**spans)] == [one["id"] for one in listed]


async def test_the_users_are_those_who_have_anything_in_the_scope(store):
    assert await store.user_ids() == []
    for tenant, user in (("a", "zoe"), ("a", "ada"), ("b", "bob")):
        await store.scope(tenant=tenant).memory.add(["x"], user_id=user)
    await store.scope(tenant="a", user_id="eve").sessions.create("hers")
    await store.scope(tenant="b").history.append("", Message.user("x"), session_id="nobody's")
    assert await store.user_ids() == ["ada", "bob", "eve", "zoe"]
    assert await store.scope(tenant="a").user_ids() == ["ada", "eve", "zoe"]
    assert await store.scope(tenant="b", user_id="carl").user_ids() == []

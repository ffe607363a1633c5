"""The record API refuses what it cannot keep faithfully, before anything is written."""

from datetime import datetime

import pytest
from core.stores.records.record_api import EARLIER, assert_refused
from lance_context_testing.samples import NO_NAMES

from lance_context_core import InvalidRequestError
from lance_context_core.errors import DimensionMismatchError
from lance_context_core.types import Relationship

BAD_FIELDS = [
    ({"colour": "red"}, "colour"),
    ({"id": "one", "external_id": "two"}, "external_id"),
    ({"content_type": "text/html", "data_type": "text/html"}, "data_type"),
    ({"bot_id": "a", "agent_id": "b"}, "bot_id"),
    ({"created_at": datetime(2026, 1, 1)}, "created_at"),  # noqa: DTZ001 - that is the point
    ({"expires_at": datetime(2026, 1, 1)}, "expires_at"),  # noqa: DTZ001
    ({"retired_at": "2026-01-01T00:00:00"}, "retired_at"),
    ({"expires_at": "tomorrow"}, "expires_at"),
    ({"expires_at": 1.5}, "expires_at"),
    ({"metadata": [1]}, "metadata"),
    ({"metadata": {"a": {1, 2}}}, "metadata"),
    ({"metadata": {"a": [Ellipsis]}}, "metadata"),
    ({"metadata": {"a": float("nan")}}, "metadata"),
    ({"metadata": {"a": 2**64}}, "metadata"),
    ({"metadata": {1: "a"}}, "metadata"),
    ({"metadata": {"a": b"bytes"}}, "metadata"),
    ({"state_metadata": {"step": Ellipsis}}, "state_metadata"),
    ({"relationships": 5}, "relationships"),
    ({"relationships": {"target_id": "a", "relation": "b"}}, "relationships"),
    ({"relationships": ["a"]}, "relationships"),
    ({"relationships": [{"target_id": "a"}]}, "relation"),
    ({"relationships": [{"relation": "a"}]}, "target_id"),
    ({"relationships": [{"target_id": "a", "relation": "b", "color": 1}]}, "color"),
    ({"relationships": [{"target_id": "a", "relation": "b", "weight": "1"}]}, "weight"),
    ({"relationships": [{"target_id": "a", "relation": "b", "weight": 1.1}]}, "weight"),
    ({"relationships": [Relationship(target_id="a", relation="b", weight=float("nan"))]}, "weight"),
    ({"tags": "x"}, "tags"),
    ({"tags": 5}, "tags"),
    ({"tags": [5]}, "tags"),
    ({"source_ids": "x"}, "source_ids"),
    ({"source_ids": [""]}, "source_ids"),
    ({"payload_size": -1}, "payload_size"),
    ({"payload_size": "12"}, "payload_size"),
    ({"payload_size": 2**63}, "payload_size"),
    ({"payload_size": True}, "payload_size"),
    ({"role": ""}, "role"),
    ({"role": None}, "role"),
    ({"role": 5}, "role"),
    ({"kind": ""}, "kind"),
    ({"tenant": 5}, "tenant"),
    ({"external_id": 5}, "external_id"),
    ({"session_id": "a\0b"}, "session_id"),
    ({"user_id": "\ud800"}, "user_id"),
    ({"id": ""}, "id"),
    ({"embedding": ["1", "2"]}, "embedding"),
    ({"embedding": [True, False]}, "embedding"),
    ({"embedding": [1j, 2]}, "embedding"),
    ({"embedding": [1.0, 2.0, 3.0]}, "length 3"),
]


@pytest.mark.parametrize(("bad", "match"), BAD_FIELDS)
async def test_a_record_with_a_bad_field_is_refused_with_its_whole_batch(ctx, bad, match):
    await ctx.add("user", "there", external_id="there", embedding=[1.0, 2.0])
    record = {"role": "user", "content": "bad", **bad}
    batch = [{"role": "user", "content": "good", "external_id": "good"}, record]
    await assert_refused(ctx, ctx.add_many(batch), InvalidRequestError, match)
    await assert_refused(ctx, ctx.add(**record), InvalidRequestError, f"^(?!records).*{match}")
    if "id" not in bad:
        upsert = {"external_id": "there", **record}
        await assert_refused(
            ctx, ctx.upsert(**upsert), InvalidRequestError, f"^(?!records).*{match}"
        )


NOT_CHANGEABLE = {"id", "external_id", "content_type", "data_type", "kind", "role", "created_at"}
BAD_CHANGES = [one for one in BAD_FIELDS if not set(one[0]) & NOT_CHANGEABLE]


@pytest.mark.parametrize(("bad", "match"), BAD_CHANGES)
async def test_an_update_with_a_bad_field_is_refused(ctx, bad, match):
    await ctx.add("user", "there", external_id="there", embedding=[1.0, 2.0])
    await assert_refused(ctx, ctx.update(external_id="there", **bad), InvalidRequestError, match)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"content": "new"},
        {"role": "tool"},
        {"kind": "note"},
        {"created_at": EARLIER},
        {"text": "new"},
        {"metadata": None},
    ],
)
async def test_an_update_of_nothing_or_of_what_stays_is_refused(ctx, change):
    await ctx.add("user", "there", external_id="there")
    await assert_refused(
        ctx, ctx.update(external_id="there", **change), InvalidRequestError, "update"
    )


BATCHES = [
    ([{"role": "user", "content": "a", "external_id": "x"}] * 2, InvalidRequestError, "'x'.*twice"),
    ([{"role": "user", "content": c, "id": "x"} for c in "ab"], InvalidRequestError, "'x'.*twice"),
    ([{"role": "user", "content": "a", "embedding": [1.0] * n} for n in (2, 3)], DimensionMismatchError, r"\[2, 3\]"),
    ([{"role": "user", "content": "a", "embedding": [1.0] * 3}], DimensionMismatchError, "3"),
    ([{"role": "user"}], InvalidRequestError, "content"),
    ([{"content": "a"}], InvalidRequestError, "role"),
    (["user"], InvalidRequestError, "mapping"),
    ({"role": "user", "content": "a"}, InvalidRequestError, "pass a list"),
]  # fmt: skip


@pytest.mark.parametrize(("batch", "error", "match"), BATCHES)
async def test_a_batch_that_does_not_fit_together_is_refused(ctx, batch, error, match):
    await ctx.add("user", "there", embedding=[1.0, 2.0])
    await assert_refused(ctx, ctx.add_many(batch), error, match)


@pytest.mark.parametrize("verb", ["get", "delete", "forget", "update"])
@pytest.mark.parametrize(
    "named",
    [
        {},
        {"id": "a", "external_id": "a"},
        *({"id": one} for one in NO_NAMES if one is not None),
        {"external_id": 5},
    ],
)
async def test_a_record_is_named_by_exactly_one_id(ctx, verb, named):
    await ctx.add("user", "there", external_id="a")
    change = {"source": "new"} if verb == "update" else {}
    work = getattr(ctx, verb)(**named, **change)
    await assert_refused(ctx, work, InvalidRequestError, "id")


async def test_upserting_needs_the_id_that_it_goes_by(ctx):
    for record in ({"id": "a"}, {}, {"external_id": ""}):
        work = ctx.upsert("user", "a", **record)
        await assert_refused(ctx, work, InvalidRequestError, "^the record has no external_id")
    batch = [{"role": "user", "content": "a", "external_id": "a"}, {"role": "user", "content": "b"}]
    work = ctx.upsert_many(batch)
    await assert_refused(ctx, work, InvalidRequestError, r"^records\[1\] has no external_id")
    await assert_refused(
        ctx, ctx.upsert("user", "a", external_id="a", key="id"), InvalidRequestError, "no id"
    )
    await assert_refused(
        ctx, ctx.upsert("user", "a", external_id="a", key="role"), InvalidRequestError, "'role'"
    )


async def test_what_is_refused_leaves_even_an_expired_record_of_the_same_name(ctx, clock):
    await ctx.add("user", "old", external_id="x", embedding=[1.0, 2.0], expires_at=clock.now())
    for verb in (ctx.add, ctx.upsert):
        work = verb("user", "new", external_id="x", embedding=[1.0])
        await assert_refused(ctx, work, DimensionMismatchError, "length 1")

"""What the tests of the record API share."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

EARLIER = datetime(2020, 2, 29, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=-7)))

EVERY_FIELD = {
    "external_id": "chat#1",
    "kind": "note",
    "name": "Ann",
    "layer": "L1",
    "tenant": "acme",
    "user_id": "u",
    "session_id": "s",
    "run_id": "r",
    "source": "mail",
    "source_ids": ["a", "b"],
    "created_at": EARLIER,
    "metadata": {"deep": {"list": [1, 2.5, None, True, "ü"]}},
    "state_metadata": {"step": 3, "active_plan_id": "p", "tokens_used": 12, "custom": {"x": []}},
    "tags": ["x", "y"],
    "lifecycle_status": "contradicted",
    "expires_at": datetime(2999, 1, 1, tzinfo=UTC),
    "retention_policy": "keep",
    "retired_at": datetime(2998, 1, 1, tzinfo=UTC),
    "retired_reason": "because",
    "supersedes_id": "before",
    "payload_uri": "s3://bucket/movie.mp4",
    "payload_size": 2**40,
    "payload_checksum": "sha256:00",
}


async def fill(ctx, n, **fields):
    """Adds "0", "1" … in one commit; returns their ids."""
    made = [{"role": "user", "content": str(i), **fields} for i in range(n)]
    return (await ctx.add_many(made)).ids


def contents(records):
    return [one["content"] for one in records]


async def assert_refused(ctx, work, error, match):
    """`work` raises, and nothing was written."""

    async def state():
        return await ctx.version(), await ctx.list(include_expired=True, include_retired=True)

    before = await state()
    with pytest.raises(error, match=match):
        await work
    assert await state() == before

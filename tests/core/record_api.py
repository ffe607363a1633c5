"""What the tests of the record API share."""

import pytest


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

"""A fleet in a directory, and what its tenants say."""

import asyncio

import pytest

from lance_context_core.fleet.fleet import AsyncStoreFleet
from lance_context_core.messages import Message


@pytest.fixture
def open_fleet(tmp_path):
    """Opens fleets in one directory, and closes them in the end."""
    opened = []

    def open_(**options):
        given = {"maintenance": None, "shards": 4, **options}
        opened.append(AsyncStoreFleet.open(tmp_path / "fleet", **given))
        return opened[-1]

    yield open_
    for fleet in opened:
        asyncio.run(fleet.close())


@pytest.fixture
def fleet(open_fleet):
    return open_fleet()


async def say(store, *texts, session_id="s"):
    for text in texts:
        await store.history.append("a", Message.user(text), session_id=session_id)


async def said(store, session_id="s"):
    found = await store.history.get_messages("a", session_id=session_id)
    return [message.text for message in found]


async def in_shard(fleet, name, tenant):
    """The texts of a tenant in one shard itself, whether they count or not."""
    records = fleet._shards.get(name).store.scope(tenant=tenant).context()
    return [record["text"] for record in await records.list()]


async def another(fleet, tenant):
    """A numbered shard that does not have the tenant."""
    here = (await fleet.placement(tenant)).shard
    return next(n for n in range(4) if str(n) != here)

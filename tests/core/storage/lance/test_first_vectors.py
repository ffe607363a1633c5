"""The column of the vectors, which comes with the first one and may go again: no vector is left out."""

import asyncio

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import Message

# What happens between a commit and another's, where nobody's lock keeps them apart.
pytestmark = pytest.mark.usefixtures("each_write_commits")


@pytest.fixture
def stores(local_backend):
    """Two in one place, which was restored to a moment before it had vectors."""
    plain, embedding = (
        local_backend.open(maintenance=None, embedder=embedder)
        for embedder in (None, WordVectors())
    )
    yield plain, embedding
    for store in (plain, embedding):
        asyncio.run(store.close())


async def say(store, text, id=None):
    await store.history.append("a", Message.user(text, id=id), session_id="s")


async def near(store, text):
    hits = await store.search(text, mode="vector")
    return [hit.record.text for hit in hits]


@pytest.mark.parametrize("id", [None, "given"])
async def test_a_column_that_goes_while_a_row_is_written_comes_back_with_it(stores, id):
    plain, embedding = stores
    await say(plain, "before")
    before = await plain.version()
    await say(embedding, "gone")
    table = embedding._resources.records
    prepare = table._incoming.prepared

    async def late(handle, *arguments, **more):
        """Others restore it between the look at the columns and the commit."""
        rows = await prepare(handle, *arguments, **more)
        table._incoming.prepared = prepare
        await plain.restore(before)
        await handle.checkout_latest()  # As another task of this process does, which reads.
        return rows

    table._incoming.prepared = late
    await say(embedding, "tea", id)
    assert await near(embedding, "tea") == ["tea"]


async def test_a_column_that_goes_as_soon_as_it_is_made_is_made_again(stores):
    plain, embedding = stores
    await say(plain, "before")
    before = await plain.version()
    access = embedding._resources.records.access
    handle = await access.writer()
    access.handle = Restoring(handle, lambda: plain.restore(before))
    await say(embedding, "tea")
    assert await near(embedding, "tea") == ["tea"]


async def test_a_column_that_others_make_in_this_moment_is_taken(stores, local_backend):
    plain, embedding = stores
    await say(plain, "before")
    before = await plain.version()
    await say(embedding, "gone")
    await plain.restore(before)
    access = embedding._resources.records.access
    async with local_backend.open(maintenance=None, embedder=WordVectors()) as other:
        access.handle = Late(await access.writer(), lambda: say(other, "ginger"))
        await say(embedding, "tea")
    assert await near(embedding, "tea") == ["tea", "ginger"]


class Late:
    """A handle of the engine: others are faster by a column, once."""

    def __init__(self, handle, be_faster):
        self._handle = handle
        self._be_faster = be_faster

    async def add_columns(self, *arguments):
        be_faster, self._be_faster = self._be_faster, None
        if be_faster is not None:
            await be_faster()
            await (
                self._handle.checkout_latest()
            )  # As another task of this process does, which reads.
        await self._handle.add_columns(*arguments)

    def __getattr__(self, name):
        return getattr(self._handle, name)


class Restoring:
    """A handle of the engine: others restore the table as soon as it has a new column."""

    def __init__(self, handle, restore):
        self._handle = handle
        self._restore = restore

    async def add_columns(self, *arguments):
        await self._handle.add_columns(*arguments)
        if self._restore is not None:
            restore, self._restore = self._restore, None
            await restore()
            await self._handle.checkout_latest()

    def __getattr__(self, name):
        return getattr(self._handle, name)

"""Contexts are opened, and embed later."""

import asyncio
from datetime import UTC, datetime

import pytest
from core.conformance.doubles import WordVectors
from core.stores.records.record_api import assert_refused, contents

from lance_context_core import (
    AsyncContext,
    Context,
    Document,
    InvalidRequestError,
    Message,
    NotFoundError,
    ReadOnlyError,
    StorageError,
)
from lance_context_core._resources import Resources
from lance_context_core.errors import DimensionMismatchError, NotEmbeddedWarning
from lance_context_core.stores.records import handle

# Opening


async def test_only_a_store_that_exists_can_be_opened(tmp_path):
    with pytest.raises(NotFoundError, match="create"):
        await AsyncContext.open(tmp_path / "store")
    async with await AsyncContext.create(tmp_path / "store", name="own") as ctx:
        await ctx.add("user", "a")
        assert (ctx.name, ctx.uri()) == ("own", str(tmp_path / "store"))
        assert repr(ctx) == f"AsyncContext({str(tmp_path / 'store')!r}, name='own')"
    async with await AsyncContext.open(tmp_path / "store", name="own") as ctx:
        assert contents(await ctx.list()) == ["a"]


async def test_creating_writes_nothing_yet(tmp_path):
    async with await AsyncContext.create(tmp_path / "store"):
        assert not (tmp_path / "store").exists()


async def test_the_length_of_vectors_can_be_fixed_from_the_start(tmp_path):
    async with await AsyncContext.create(tmp_path, embedding_dim=3) as ctx:
        work = ctx.add("user", "a", embedding=[1.0, 2.0])
        await assert_refused(ctx, work, DimensionMismatchError, "3")
        await ctx.add("user", "a", embedding=[1.0, 2.0, 3.0])
    async with await AsyncContext.create(tmp_path, embedding_dim=3) as ctx:
        assert await ctx.entries() == 1
    with pytest.raises(DimensionMismatchError, match="3"):
        await AsyncContext.create(tmp_path, embedding_dim=2)


@pytest.mark.parametrize("bad", [
    {"embedding_dim": 0}, {"embedding_dim": -1}, {"embedding_dim": "4"}, {"embedding_dim": True},
    {"compaction_interval_secs": 0}, {"compaction_interval_secs": float("nan")},
    {"compaction_interval_secs": "5"}, {"compaction_min_fragments": 0},
    {"compaction_min_fragments": 2.5}, {"quiet_hours": (22, 6)}, {"quiet_hours": [(25, 3)]},
    {"quiet_hours": [(1, 2, 3)]}, {"quiet_hours": [("22", "6")]}, {"quiet_hours": [(22.5, 6)]}, {"quiet_hours": ["ab"]},
    {"name": ""},
])  # fmt: skip
async def test_what_a_context_cannot_be_made_with_is_refused(tmp_path, bad):
    with pytest.raises(InvalidRequestError, match=next(iter(bad))):
        await AsyncContext.create(tmp_path / "store", **bad)
    assert not (tmp_path / "store").exists()


async def test_opening_leaves_nothing_where_there_was_nothing(tmp_path):
    for place in (tmp_path / "store", tmp_path / "not" / "yet"):
        with pytest.raises(NotFoundError):
            await AsyncContext.open(place)
        with pytest.raises(NotFoundError):
            await asyncio.to_thread(Context.open, place)
    assert list(tmp_path.iterdir()) == []


async def test_an_empty_directory_is_no_store(tmp_path):
    with pytest.raises(NotFoundError):
        await AsyncContext.open(tmp_path)
    with pytest.raises(NotFoundError):
        await AsyncContext.open("memory://")


async def test_a_file_is_no_store_and_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    for opening in (AsyncContext.open, AsyncContext.create):
        with pytest.raises(StorageError):
            await (await opening(tmp_path / "file")).add("user", "a")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("opening", "options", "error"),
    [
        ("create", {"name": "a\0b"}, InvalidRequestError),
        ("create", {"embedding_dim": 3}, DimensionMismatchError),
        ("open", {"name": "a\0b"}, InvalidRequestError),
        ("open", {}, NotFoundError),
        ("open", {"storage_options": {}}, RuntimeError),
    ],
)
async def test_a_store_that_could_not_be_opened_is_closed(
    tmp_path, monkeypatch, opening, options, error
):
    async with await AsyncContext.create(tmp_path / "there") as ctx:
        await ctx.add("user", "a", embedding=[1.0, 2.0])
    place = tmp_path / ("there" if error is not NotFoundError else "nothing")
    opened, closed = [], []

    open_, close = handle.opened, Resources.close

    def watched(*args):
        opened.append(open_(*args))
        return opened[-1]

    async def close_and_note(self):
        closed.append(self)
        await close(self)

    monkeypatch.setattr(handle, "opened", watched)
    monkeypatch.setattr(Resources, "close", close_and_note)
    if error is RuntimeError:

        async def fail(self):
            raise RuntimeError("no power")

        monkeypatch.setattr(AsyncContext, "version", fail)
    with pytest.raises(error):
        await getattr(AsyncContext, opening)(place, **options)
    assert len(opened) == ("name" not in options)  # A name is checked before anything is opened.
    assert closed == opened


# Embedding later


async def test_what_was_stored_without_a_vector_is_embedded_on_request(open_store, embedder):
    store = open_store(embedder=embedder, defer_embedding=True)
    ctx = store.context()
    await ctx.add_many({"role": "user", "content": f"word{n}"} for n in range(5))
    await ctx.add("tool", b"nothing to embed")
    await ctx.add("user", "own vector", embedding=[1.0] * embedder.dimension)
    assert contents(await ctx.search("word3")) == ["own vector"]
    order = [one["id"] for one in await ctx.list()]
    assert await store.embed_pending(limit=2) == 2
    assert [one["embedding"] is not None for one in await ctx.list()] == [
        True,
        True,
        *[False] * 4,
        True,
    ]
    assert await store.embed_pending() == 3
    assert await store.embed_pending() == 0
    assert [one["id"] for one in await ctx.list()] == order
    for n in range(5):
        (best,) = await ctx.search(f"word{n}", 1)
        assert (best["content"], best["score"]) == (f"word{n}", pytest.approx(1))
    (own,) = await ctx.list(filters={"text": "own vector"})
    assert own["embedding"] == [1.0] * embedder.dimension


async def test_everything_that_waits_is_embedded_whatever_context_or_collection_it_is_in(
    open_store, embedder
):
    store = open_store(embedder=embedder, defer_embedding=True)
    await store.context().add("user", "one")
    await store.context("Second's").add("user", "two", expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    await store.history.append("bot", Message.user("three"), session_id="s")
    await store.memory.add(["four"], user_id="u")
    for collection in ("a", "b"):
        documents = [Document(id=f"{n}", text=f"{collection} {n}") for n in range(3)]
        await store.vectors(collection).add([*documents, Document(id="blank", text=" ")])
    assert [await store.embed_pending(limit=limit) for limit in (0, 3, 3, None)] == [0, 3, 3, 4]
    assert await store.embed_pending() == 0
    shown = {"include_expired": True}
    for context in (store.context(), store.context("Second's")):
        for record in await context.list(**shown):
            assert record["embedding"] == embedder.embed_query(record["text"]).tolist()
            assert record["updated_at"] == record["created_at"]
    for collection in ("a", "b"):
        found = await store.vectors(collection).search(f"{collection} 1", mode="vector", limit=1)
        assert [(hit.record.id, hit.score) for hit in found] == [("1", pytest.approx(1))]
        (plain, blank) = await store.vectors(collection).get(["1", "blank"], include_embedding=True)
        assert plain.text == f"{collection} 1"
        assert (plain.embedding is not None, blank.embedding) == (True, None)


async def test_a_scope_embeds_its_own_alone(open_store, embedder):
    store = open_store(embedder=embedder, defer_embedding=True)
    for tenant in ("x", "y"):
        scope = store.scope(tenant=tenant)
        await scope.context("notes").add("user", "one")
        await scope.vectors("docs").add([Document(id="d", text="two")])
    assert await store.scope(tenant="x").embed_pending() == 2
    assert [one["embedding"] is None for one in await store.context("notes").list()] == [
        False,
        True,
    ]
    assert await store.embed_pending() == 2


async def test_a_collection_with_vectors_of_another_kind_is_passed_by(open_store, embedder):
    brought = open_store()
    await brought.vectors("a").add([Document(id="v", embedding=[1.0, 2.0]), Document(text="one")])
    await brought.vectors("b").add([Document(id="d", text="two")])
    other = WordVectors(model="other")
    await open_store(embedder=other).vectors("c").add([Document(text="three")])
    with pytest.warns(NotEmbeddedWarning):
        await brought.vectors("c").add([Document(text="four")])
    store = open_store(embedder=embedder)
    assert await store.embed_pending() == 1
    assert await store.embed_pending() == 0
    ((document,), (vector,)) = (
        await store.vectors("b").get(["d"], include_embedding=True),
        await store.vectors("a").get(["v"], include_embedding=True),
    )
    assert len(document.embedding) == embedder.dimension
    assert tuple(vector.embedding) == (1.0, 2.0)


async def test_a_context_may_defer_and_embed_its_own_records(tmp_path, embedder):
    options = {"embedder": embedder, "defer_embedding": True}
    async with await AsyncContext.create(tmp_path, name="own", **options) as ctx:
        await ctx.add_many({"role": "user", "content": f"word{n}"} for n in range(3))
        assert {one["embedding"] for one in await ctx.list()} == {None}
    async with await AsyncContext.create(tmp_path, **options) as other:
        await other.add("user", "another")
    async with await AsyncContext.open(tmp_path, name="own", **options) as ctx:
        await ctx.add("user", "word3")
        assert [await ctx.embed_pending(limit=1), await ctx.embed_pending()] == [1, 3]
        (best,) = await ctx.search("word3", 1)
        assert (best["content"], best["score"]) == ("word3", pytest.approx(1))
        await ctx.checkout(await ctx.version())
        with pytest.raises(ReadOnlyError):
            await ctx.embed_pending()


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True])
async def test_a_limit_counts_records(open_store, embedder, limit):
    store = open_store(embedder=embedder)
    for work in (store.embed_pending(limit=limit), store.context().embed_pending(limit=limit)):
        with pytest.raises(InvalidRequestError, match="limit"):
            await work


async def test_embedding_on_request_needs_an_embedder(store):
    with pytest.raises(InvalidRequestError, match="embedder"):
        await store.embed_pending()

"""Another model for a store: the old vectors go at once, the new ones come when it suits."""

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import Document, InvalidRequestError
from lance_context_core.errors import EmbeddingModelMismatchError
from lance_context_core.storage.lance.vectors import Vectors

NEW = WordVectors(model="new", dimension=24)


async def vectors_of(store, context="default"):
    return [one["embedding"] for one in await store.context(context).list(include_expired=True)]


async def filled(open_store, embedder):
    store = open_store(embedder=embedder)
    await store.context().add_many(
        {"role": "user", "content": f"word{n}", "external_id": f"x{n}"} for n in range(5)
    )
    await store.context("notes").add("user", "hidden", lifecycle_status="superseded")
    await store.vectors("same").add([Document(id="d", text="one")])
    other = store.vectors("other", embedder=WordVectors(model="other"))
    await other.add([Document(id="d", text="two")])
    return store


async def test_a_store_changes_its_model(open_store, embedder):
    old = await filled(open_store, embedder)
    before = await old.version()
    new = open_store(embedder=NEW)
    with pytest.raises(EmbeddingModelMismatchError):
        await new.search("word3")
    await new.change_model()
    assert await new.search("word3", mode="vector") == []
    assert [hit.record.text for hit in await new.search("word3", mode="text")] == ["word3"]
    for late in (old.search("word3", mode="vector"), old.memory.add(["late"])):
        with pytest.raises(EmbeddingModelMismatchError):
            await late
    assert await new.embed_pending() == 7
    assert await vectors_of(new) == [NEW.embed_query(f"word{n}").tolist() for n in range(5)]
    (hidden,) = await new.context("notes").list(include_retired=True)
    assert hidden["embedding"] == NEW.embed_query("hidden").tolist()
    (best,) = await new.vectors("same").search("one", mode="vector")
    assert best.score == pytest.approx(1)
    (kept,) = await new.vectors("other").get(["d"], include_embedding=True)
    assert len(kept.embedding) == WordVectors(model="other").dimension
    past = await old.checkout(before)
    assert len(await past.search("word3", mode="vector")) == 5


async def test_changing_to_the_model_that_is_there_changes_nothing(open_store, embedder):
    store = await filled(open_store, embedder)
    before = (await store.version(), await vectors_of(store))
    await store.change_model()
    assert (await store.version(), await vectors_of(store)) == before


@pytest.mark.parametrize("n_tables", [1, 2], ids=["in a collection", "in the records"])
async def test_a_change_that_was_killed_halfway_is_repeated(
    open_store, embedder, monkeypatch, n_tables
):
    await filled(open_store, embedder)
    ensure, calls = Vectors.ensure, []

    async def killed(self, *arguments):
        calls.append(self)
        if len(calls) == n_tables:
            raise KeyboardInterrupt
        await ensure(self, *arguments)

    monkeypatch.setattr(Vectors, "ensure", killed)
    with pytest.raises(KeyboardInterrupt):
        await open_store(embedder=NEW).change_model()
    monkeypatch.undo()
    store = open_store(embedder=NEW)
    await store.change_model()
    assert await store.embed_pending() == 7
    assert len(await store.search("word3", mode="vector")) == 5
    assert len(await store.vectors("same").search("one", mode="vector")) == 1


async def test_several_share_what_waits_by_filters(open_store, embedder):
    store = open_store(embedder=embedder, defer_embedding=True)
    await store.context().add_many(
        {"role": "user", "content": f"word{n}", "id": f"i{n}"} for n in range(5)
    )
    await store.vectors("docs").add([Document(id="i1", text="one"), Document(id="i9", text="two")])
    assert await store.embed_pending(filter={"id": {"$in": ["i1", "i3"]}}) == 3
    waiting = [one["embedding"] is None for one in await store.context().list()]
    assert waiting == [True, False, True, False, True]
    assert await store.embed_pending(filter={"id": "i1"}) == 0
    assert await store.embed_pending() == 4


async def test_what_no_model_could_make_anew_is_not_taken_away(open_store, embedder):
    store = open_store(embedder=embedder)
    await store.context().add("tool", b"a photo", embedding=[1.0] * embedder.dimension)
    with pytest.raises(InvalidRequestError, match="1 vectors in table 'records'"):
        await open_store(embedder=NEW).change_model()
    assert await vectors_of(store) == [[1.0] * embedder.dimension]
    with pytest.raises(InvalidRequestError, match="no embedder"):
        await open_store().change_model()
    with pytest.raises(InvalidRequestError, match="scope"):
        await open_store(embedder=NEW).scope(tenant="a").change_model()

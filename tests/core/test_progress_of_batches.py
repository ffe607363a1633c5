"""What writes many things in one commit says how far it is, and writes nothing if it is ended before."""

import inspect

import pytest
from core.conformance.doubles import WordVectors
from core.test_progress import WAYS, ended, nobody

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    Document,
    InvalidRequestError,
    Item,
    ItemVector,
    Message,
    _embedding,
)
from lance_context_core.documents import writing as chunks
from lance_context_core.graph import Entity, Relation, SourceText
from lance_context_core.graph import writing as graph_writing

N = 7


async def turns(store, **options):
    messages = [Message.user(f"turn {n}", id=f"t{n}") for n in range(N)]
    return await store.history.append_many("a", messages, session_id="s", **options)


async def memories(store, **options):
    return await store.memory.add([f"memory {n}" for n in range(N)], user_id="ada", **options)


async def records(store, **options):
    given = [{"role": "user", "content": f"record {n}"} for n in range(N)]
    return await store.context().add_many(given, **options)


async def records_by_key(store, **options):
    given = [{"role": "user", "content": f"record {n}", "external_id": f"x{n}"} for n in range(N)]
    return await store.context().upsert_many(given, **options)


async def documents_added(store, **options):
    return await store.vectors("notes").add(documents(), **options)


async def documents_put(store, **options):
    return await store.vectors("notes").upsert(documents(), **options)


def documents():
    return [Document(id=f"d{n}", text=f"note {n}") for n in range(N)]


BATCHES = pytest.mark.parametrize(
    "call",
    [turns, memories, records, records_by_key, documents_added, documents_put],
    ids=lambda one: one.__name__,
)


async def n_kept(store):
    return len(await store.context().list()) + await store.vectors("notes").count()


@pytest.fixture
def by_two(monkeypatch):
    """Texts are embedded two at a time."""
    monkeypatch.setattr(_embedding, "_TOLD_TEXTS", 2)


@BATCHES
async def test_texts_are_told_as_they_are_embedded_and_then_that_all_is_written(
    open_store, by_two, call
):
    store, told = open_store(embedder=WordVectors()), []
    await call(store, progress=told.append)
    *texts, last = told
    assert [(one.what, one.n_done, one.n_total) for one in texts] == [
        ("texts", 2, N), ("texts", 4, N), ("texts", 6, N), ("texts", N, N)
    ]  # fmt: skip
    assert (last.what, last.n_done, last.n_total) == ("records", N, N)
    assert await n_kept(store) == N


@BATCHES
async def test_vectors_are_those_that_are_made_when_nobody_is_told(open_store, by_two, call):
    found = []
    for options in ({}, {"progress": lambda _: None}):
        store = open_store(embedder=WordVectors())
        await call(store, **options)
        for place in (store.vectors("notes"), store):
            hits = await place.search("note record turn memory 3", limit=3)
            found.append([(round(hit.score, 6), hit.record.text) for hit in hits])
        await store.erase(filter={"kind": {"$ne": "none"}})
        await store.vectors("notes").delete_collection()
    half = len(found) // 2
    assert found[:half] == found[half:]
    assert any(found)


@BATCHES
async def test_without_an_embedder_it_is_told_that_all_is_written(open_store, call):
    store, told = open_store(), []
    await call(store, progress=told.append)
    assert [(one.what, one.n_done, one.n_total) for one in told] == [("records", N, N)]


@WAYS
@BATCHES
async def test_what_is_ended_before_its_commit_has_written_nothing(open_store, by_two, call, way):
    store = open_store(embedder=WordVectors())
    await ended(call, store, step=2, way=way)
    assert await n_kept(store) == 0
    await call(store)
    assert await n_kept(store) == N


@BATCHES
async def test_what_cannot_be_told_is_refused_and_nothing_is_written(open_store, call):
    store = open_store()
    for wrong in (True, "bar", nobody):
        with pytest.raises(InvalidRequestError, match="progress="):
            await call(store, progress=wrong)
    assert await n_kept(store) == 0


# Items


def items():
    return [
        Item(
            namespace=("notes",),
            key=f"k{n}",
            value={"n": n},
            vectors=[ItemVector(text=f"word {n}")],
        )
        for n in range(N)
    ]


async def items_put(store, **options):
    return await store.kv("notes").put(items(), **options)


async def items_added(store, **options):
    return await store.kv("notes").add(items(), **options)


async def items_appended(store, **options):
    return await store.kv("notes").append(items(), **options)


async def items_written(store, **options):
    return await store.kv("notes").write(puts=items(), **options)


OF_ITEMS = pytest.mark.parametrize(
    "call",
    [items_put, items_added, items_appended, items_written],
    ids=lambda one: one.__name__,
)


@OF_ITEMS
async def test_texts_of_items_are_told_and_what_is_ended_before_writes_none(
    open_store, by_two, call
):
    store, told = open_store(embedder=WordVectors()), []
    for way in ("raised", "cancelled"):
        await ended(call, store, step=3, way=way)
        assert await store.kv("notes").count() == 0
    with pytest.raises(InvalidRequestError, match="progress="):
        await call(store, progress="bar")
    await call(store, progress=told.append)
    assert [(one.what, one.n_done, one.n_total) for one in told] == [
        ("texts", 2, N), ("texts", 4, N), ("texts", 6, N), ("texts", N, N), ("items", N, N)
    ]  # fmt: skip
    hits = await store.kv("notes").search("word 3", limit=1)
    assert [hit.record.key for hit in hits] == ["k3"]


def test_few_items_of_a_blocking_call_are_told_of_too(tmp_path):
    told = []
    with ContextStore.open(tmp_path / "memory") as store:
        notes = store.kv("notes")
        one = [Item(namespace=("a",), key="k", value={})]
        notes.put(one, progress=told.append)
        assert notes.add(one, progress=told.append) == [False]
        notes.write(puts=one, deletes=[(("a",), "x")], progress=told.append)
    assert [(one.what, one.n_done) for one in told] == [("items", 1), ("items", 1), ("items", 2)]


# Documents


TEXT = "\n\n".join(f"Passage {n} is about word{n}. {'It goes on. ' * 60}" for n in range(9))


@pytest.fixture
def passages_by_two(monkeypatch):
    """Passages are made two at a time."""
    monkeypatch.setattr(chunks, "STEP", 2)


async def test_passages_of_a_document_are_told_and_then_that_it_is_there(
    open_store, passages_by_two
):
    store, told = open_store(embedder=WordVectors()), []
    added = await store.documents.add(TEXT.encode(), name="a.txt", progress=told.append)
    n = len(await store.documents.chunks(added.id))
    assert n > 4
    *made, last = told
    assert [(one.what, one.n_done, one.n_total, one.name) for one in made] == [
        ("passages", min(at + 2, n), n, "a.txt") for at in range(0, n, 2)
    ]
    assert (last.what, last.n_done, last.n_total) == ("documents", 1, 1)
    told.clear()
    changed = TEXT.replace("word8", "soup").encode()
    await store.documents.update(added.id, changed, progress=told.append)
    assert [one.n_done for one in told if one.what == "passages"] == [
        min(at + 2, n) for at in range(0, n, 2)
    ]
    assert told[-1] == last


@WAYS
async def test_a_document_that_is_ended_before_its_commit_is_as_it_was(
    open_store, passages_by_two, way
):
    store = open_store(embedder=WordVectors())
    await ended(store.documents.add, TEXT.encode(), step=2, way=way)
    assert await store.documents.count() == 0
    assert await store.documents.search("word8") == []
    added = await store.documents.add(TEXT.encode())
    before = await store.documents.chunks(added.id)
    changed = TEXT.replace("word", "soup").encode()
    await ended(store.documents.update, added.id, changed, step=2, way=way)
    assert await store.documents.chunks(added.id) == before
    assert await store.documents.text(added.id) == TEXT
    for call in (
        lambda: store.documents.add(b"other", progress=True),
        lambda: store.documents.update(added.id, name="other", progress=True),
        lambda: store.documents.erase(added.id, progress=True),
    ):
        with pytest.raises(InvalidRequestError, match="progress="):
            await call()
    assert [one.id for one in await store.documents.list()] == [added.id]


async def test_erasing_of_a_document_or_of_vectors_tells_of_tables(open_store):
    store = open_store()
    await store.documents.add(b"a file", name="a.txt")
    (one,) = await store.documents.list()
    await documents_added(store)
    told = []
    await store.vectors("notes").erase(["d1"], progress=told.append)
    await store.documents.erase(one.id, progress=told.append)
    assert [(one.name, one.n_done, one.n_total) for one in told[:1]] == [("vectors.notes", 1, 1)]
    assert {one.what for one in told} == {"tables"}
    assert "documents" in {one.name for one in told[1:]}
    assert told[-1].n_done == told[-1].n_total == len(told) - 1
    assert await store.documents.count() == 0


# The graph


async def test_things_of_a_graph_are_told_and_what_is_ended_before_writes_none(
    open_store, monkeypatch
):
    monkeypatch.setattr(graph_writing, "_TOLD_THINGS", 2)
    store, told = open_store(), []
    entities = [Entity(name=f"e{n}", type="thing", id=f"e{n}") for n in range(3)]
    relations = [Relation(source_id="e0", target_id=f"e{n}", type="has") for n in (1, 2)]
    for way in ("raised", "cancelled"):
        await ended(store.graph.add, entities, relations, step=2, way=way)
        assert await store.graph.entities() == []
    with pytest.raises(InvalidRequestError, match="progress="):
        await store.graph.add(entities, progress=True)
    await store.graph.add(entities, relations, progress=told.append)
    assert [(one.what, one.n_done, one.n_total) for one in told] == [
        ("things", 2, 5), ("things", 4, 5), ("things", 5, 5), ("things", 5, 5)
    ]  # fmt: skip
    assert (await store.graph.count())["relations"] == 2


@WAYS
async def test_texts_that_are_read_into_a_graph_are_kept_as_far_as_they_were_told(open_store, way):
    store = open_store()
    texts = [SourceText(id=f"s{n}", text=f"ada{n}@example.org wrote.") for n in range(3)]
    told = await ended(store.graph.extract, texts, step=2, way=way)
    assert [(one.what, one.name, one.n_done, one.n_total) for one in told] == [
        ("texts", "s0", 1, 3), ("texts", "s1", 2, 3)
    ]  # fmt: skip
    named = {one.name for one in await store.graph.entities()}
    assert named == {"ada0@example.org", "ada1@example.org"}
    await store.graph.extract(texts)
    assert len(await store.graph.entities()) == 3


LONG = {
    "": "change_model copy embed_pending erase export import_ maintain merge replay thin verify",
    "history": "append_many",
    "memory": "add",
    "knowledge": "add distill",
    "documents": "add add_many erase sync update",
    "graph": "add extract",
    "context": "add_many upsert_many embed_pending",
    "vectors": "add add_arrow erase upsert",
    "items": "add append put write",
}
"""The calls that take long by what they are given or by what is there, of each part of a store."""


@pytest.mark.parametrize("face", [ContextStore, AsyncContextStore], ids=lambda one: one.__name__)
async def test_every_long_call_takes_progress_and_no_other_does(face):
    store = face.open("memory://")
    parts = {name for name in dir(store) if not name.startswith("_")}
    found = {"": type(store), "context": type(store.context()), "vectors": type(store.vectors("n"))}
    found["items"] = type(store.kv("n"))
    found |= {
        name: type(getattr(store, name))
        for name in parts - {"aio"}
        if not callable(getattr(store, name))
        and "lance_context_core" in type(getattr(store, name)).__module__
    }
    taking = {
        part: " ".join(
            sorted(
                name
                for name, call in inspect.getmembers(kind, inspect.isfunction)
                if not name.startswith("_") and "progress" in inspect.signature(call).parameters
            )
        )
        for part, kind in found.items()
    }
    told = {part: " ".join(sorted(names.split())) for part, names in LONG.items()}
    assert {part: names for part, names in taking.items() if names} == told
    closing = store.close()
    if inspect.isawaitable(closing):
        await closing

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
    Message,
    _embedding,
)

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


LONG = {
    "": "change_model copy embed_pending erase export import_ maintain merge replay thin verify",
    "history": "append_many",
    "memory": "add",
    "knowledge": "add distill",
    "documents": "add_many",
    "context": "add_many upsert_many embed_pending",
    "vectors": "add upsert",
}
"""The calls that take long by what they are given or by what is there, of each part of a store."""


@pytest.mark.parametrize("face", [ContextStore, AsyncContextStore], ids=lambda one: one.__name__)
async def test_every_long_call_takes_progress_and_no_other_does(face):
    store = face.open("memory://")
    parts = {name for name in dir(store) if not name.startswith("_")}
    found = {"": type(store), "context": type(store.context()), "vectors": type(store.vectors("n"))}
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

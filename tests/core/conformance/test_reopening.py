"""What one store object wrote is there for the next one, and for another one at the same time."""

import asyncio

import pytest
from core.conformance.doubles import WordVectors
from core.conformance.vectors import AXES, described
from lance_context_testing.vectors import ids_of

from lance_context_core.messages import Message
from lance_context_core.types import Document


@pytest.fixture(params=["local", "s3"])
def backend(request):
    """A place that outlives a store object."""
    return request.getfixturevalue(f"{request.param}_backend")


@pytest.fixture
def open_store(backend, clock):
    """Opens stores, all of them in one place, and closes them in the end."""
    opened = []

    def open_(**options):
        opened.append(backend.open(clock=clock, **options))
        return opened[-1]

    yield open_
    for store in opened:
        asyncio.run(store.close())


async def seen(store):
    """What a reader sees of every table."""
    return {
        "messages": await store.history.get_messages("a", session_id="s"),
        "sessions": await store.sessions.list(),
        "memories": await store.memory.list(user_id="u"),
        "documents": await store.vectors("c").list(),
        "collections": await store.vectors().list_collections(),
        "found": [hit.record.id for hit in await store.search("tea", mode="hybrid")],
        "tags": await store.tags(),
        "version": await store.version(),
    }


async def write(store, n):
    await store.history.append("a", Message.user(f"tea {n}", id=f"m{n}"), session_id="s")
    await store.sessions.create(f"s{n}", title=f"{n}")
    await store.memory.add([f"green tea {n}"], user_id="u")
    await store.vectors("c").add([Document(id=f"d{n}", text=f"black tea {n}")])
    await store.vectors(f"c{n}").add([Document(id="d", embedding=AXES[n])])
    await store.tag(f"t{n}")


async def test_a_store_that_is_closed_and_reopened_reads_the_same(open_store):
    store = open_store(embedder=WordVectors())
    await write(store, 0)
    before = await seen(store)
    assert all(before.values())
    await store.close()
    assert await seen(open_store(embedder=WordVectors())) == before


async def test_two_stores_in_one_place_see_each_other_s_writes_at_once(open_store):
    one, other = (open_store(embedder=WordVectors()) for _ in range(2))
    assert await seen(other) == await seen(one)  # both have looked before there was anything
    for n in range(2):
        writer, reader = (one, other) if n % 2 == 0 else (other, one)
        await write(writer, n)
        assert await seen(reader) == await seen(writer)
        assert await reader.history.count("a", session_id="s") == n + 1
    assert await other.sessions.delete("s") is True
    assert await one.history.clear("a", session_id="s") == 0
    assert await one.memory.delete(user_id="u") == 2
    assert await other.vectors("c").delete(["d0"]) == 1
    await one.restore("t0")
    assert await seen(other) == await seen(one)
    assert await other.history.count("a", session_id="s") == 1


async def test_a_retry_through_another_store_changes_nothing(open_store):
    one, other = (open_store(embedder=WordVectors()) for _ in range(2))
    for store in (one, other):
        await store.history.append("a", Message.user("tea", id="m"), session_id="s")
        await store.sessions.create("s", title="A title")
        await store.memory.add([Message.user("tea", id="m")], user_id="u")
        await store.vectors("c").add(described("d"))
    assert await one.history.count("a", session_id="s") == 1
    assert len(await one.sessions.list()) == 1
    assert (await one.memory.list(user_id="u")).total == 1
    assert await one.vectors("c").count() == 1


async def test_a_collection_that_another_store_deleted_is_empty_and_can_be_made_anew(open_store):
    one, other = (open_store() for _ in range(2))
    first, second = one.vectors("c"), other.vectors("c")
    await first.add([Document(id="a", text="tea", embedding=AXES[0])])
    assert await second.count() == 1
    assert await first.delete_collection() == 1
    assert await second.count() == 0
    assert await second.get(["a"]) == []
    assert await second.search("tea") == []
    await second.add([Document(id="b", text="tea", embedding=[1.0, 0.0])])
    assert await first.count() == await second.count() == 1
    assert ids_of(await first.search([1.0, 0.0])) == ["b"]


async def test_a_collection_that_another_store_made_anew_is_the_new_one(open_store):
    one, other = (open_store() for _ in range(2))
    first, second = one.vectors("c"), other.vectors("c")
    await first.add([Document(id=f"{n}", embedding=AXES[0]) for n in range(3)])
    assert await second.count() == 3
    await first.delete_collection()
    await first.add([Document(id="new", embedding=[1.0, 0.0])])
    assert ids_of(await second.list()) == ["new"]
    await second.add([Document(id="newer", embedding=[0.0, 1.0])])
    assert ids_of(await first.list()) == ["new", "newer"]


async def test_every_store_in_memory_is_a_store_of_its_own(memory_backend):
    one, other = memory_backend.open(), memory_backend.open()
    await one.history.append("a", Message.user("0"), session_id="s")
    assert await one.history.count("a", session_id="s") == 1
    assert await other.history.count("a", session_id="s") == 0
    await one.close()
    await other.close()

"""A store can be made what it was, by the one who has the whole of it."""

import pytest
from core.conformance.back_door import BackDoor
from core.versioning.samples import AXES, dump, write, written

from lance_context_core.errors import InvalidRequestError
from lance_context_core.messages import Message
from lance_context_core.types import Document


@pytest.mark.slow
async def test_a_restored_store_is_what_it_was_and_loses_nothing(store):
    seen = await written(store, 4)
    for version in [*seen, *reversed(seen)]:
        before = await store.version()
        after = await store.restore(version)
        assert after == await store.version() >= before
        assert await dump(store) == seen[version]
    for version, expected in seen.items():
        assert await dump(await store.checkout(version)) == expected


async def test_restoring_may_be_repeated(store):
    first, _ = await written(store, 2)
    for _ in range(2):
        await store.restore(first)
    expected = await dump(await store.checkout(first))
    assert await dump(store) == expected


async def test_a_collection_that_was_made_later_is_empty_after_restoring(store):
    await store.history.append("a", Message.user("0"), session_id="s")
    await store.tag("then")
    version = await store.version()
    for ref in ("then", version):
        await store.vectors("new").add([Document(id="a", text="tea", embedding=AXES[0])])
        await store.restore(ref)
        assert await store.vectors("new").count() == 0
        assert await store.vectors("new").search("tea", vector=AXES[0]) == []


async def test_a_restored_store_can_be_written_and_searched(open_store, embedder):
    store = open_store(embedder=embedder)
    await store.vectors("c").add([Document(id="a", text="green tea")])
    await store.history.append("a", Message.user("green tea", id="m"), session_id="s")
    last = await store.version()
    # From the first one on: before the table had any row, vector or index.
    for version in range(1, last + 1):
        await store.restore(version)
        n_messages = await store.history.count("a", session_id="s")
        batch = [Message.user("green tea", id="m"), Message.user("black tea")]
        await store.history.append_many("a", batch, session_id="s")
        await store.vectors("c").upsert([Document(id="b", text="black tea")])
        found = await store.history.get_messages("a", session_id="s")
        assert [one.text for one in found] == ["green tea", "black tea"]
        assert n_messages == (1 if version == last else 0)
        for mode in ("hybrid", "vector", "text"):
            hits = await store.search("black tea", mode=mode)
            assert [hit.record.text for hit in hits] == ["black tea", "green tea"]
            hits = await store.vectors("c").search("black tea", mode=mode)
            assert hits[0].record.id == "b"


async def test_restoring_undoes_what_another_handle_wrote_meanwhile(open_store):
    store, other = open_store(), open_store()
    await write(store, 0)
    await store.tag("then")
    expected = await dump(store)
    await write(other, 1)
    await store.restore("then")
    assert await dump(store) == await dump(other) == expected


async def test_the_back_door_sees_the_restored_rows(store):
    await store.history.append("a", Message.user("0"), session_id="s")
    version = await store.version()
    await store.history.append("a", Message.user("1"), session_id="s")
    await store.restore(version)
    assert [row["text"] for row in await BackDoor(store).rows("records")] == ["0"]


# Scopes


@pytest.mark.parametrize(
    "action", ["restore", "tag", "tag an earlier version", "delete_tag", "maintain"]
)
async def test_a_scope_refuses_what_concerns_the_whole_store(store, action):
    await write(store, 0)
    await store.tag("then")
    before = await dump(store), await store.tags(), await store.version()
    for scope in (store.scope(tenant="x"), store.scope(user_id="u"), store.scope(agent_id="a")):
        call = {
            "restore": lambda: scope.restore("then"),  # noqa: B023 - called in this round
            "tag": lambda: scope.tag("new"),  # noqa: B023
            "tag an earlier version": lambda: scope.tag("new", version=1),  # noqa: B023
            "delete_tag": lambda: scope.delete_tag("then"),  # noqa: B023
            "maintain": scope.maintain,
        }[action]
        with pytest.raises(InvalidRequestError, match="scope"):
            await call()
    assert (await dump(store), await store.tags(), await store.version()) == before

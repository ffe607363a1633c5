"""Arguments of the wrong shape: one clear error each, and what a caller must be able to rely on."""

from datetime import UTC, datetime

import pytest

from lance_context_core import (
    AlreadyExistsError,
    AsyncContextStore,
    Document,
    InvalidRequestError,
    Message,
    ReadOnlyError,
)
from lance_context_core.errors import DimensionMismatchError, FilterError


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.history.search("tea", session_id=5),
        lambda s: s.memory.search("tea", session_id=5, mode="text"),
        lambda s: s.memory.list(session_id=5),
        lambda s: s.memory.delete(ids=[5]),
        lambda s: s.memory.delete(ids=5),
        lambda s: s.memory.delete(ids="abc"),
        lambda s: s.memory.add(["x"], metadata="abc"),
        lambda s: s.memory.add(5),
        lambda s: s.vectors("c").get([5]),
        lambda s: s.vectors("c").get(5),
        lambda s: s.vectors("c").get("d"),
        lambda s: s.vectors("c").delete([5]),
        lambda s: s.vectors("c").delete("d"),
        lambda s: s.vectors("c").add(5),
        lambda s: s.vectors("c").add(""),
        lambda s: s.vectors("c").list(limit=-1),
        lambda s: s.vectors("c").list(limit="a"),
        lambda s: s.vectors("c").list(offset=-1),
        lambda s: s.vectors("c").list(limit=True),
        lambda s: s.vectors("c").add([Document(embedding=[10**400])]),
        lambda s: s.vectors("c").search([10**400, 1]),
        lambda s: s.context().add_many(5),
        lambda s: s.context().add_many("ab"),
        lambda s: s.context().related("x", 5),
        lambda s: s.context().related("x", ""),
        lambda s: s.context().related("x", "a\0b"),
        lambda s: s.context().retrieve(text="x", fusion=5),
        lambda s: s.context().upsert("user", "x", key=["a"]),
        lambda s: s.search("tea", mode=["a"]),
        lambda s: s.search("\ud800"),
        lambda s: s.search("tea", options=5),
        lambda s: s.history.append_many("a", 5, session_id="s"),
        lambda s: s.delete_tag(["a"]),
        lambda s: s.delete_tag(5),
        lambda s: s.context().add("user", "x", created_at="x" * 10**6),
    ],
)
async def test_an_argument_of_the_wrong_shape_is_refused_in_a_few_words(store, call):
    await store.history.append("a", Message.user("tea", id="m"), session_id="s")
    await store.vectors("c").add([Document(id="d", text="tea", embedding=[1.0, 2.0])])
    with pytest.raises(InvalidRequestError) as caught:
        await call(store)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("uri", [5, None, b"x", "", "a\0b", "\ud800"])
async def test_a_place_that_is_no_text_is_refused(uri):
    with pytest.raises(InvalidRequestError, match="uri"):
        await AsyncContextStore.open(uri)


async def test_a_key_below_a_key_is_a_text(store):
    with pytest.raises(FilterError):
        await store.context().list(filters={"a": {5: "x"}})


@pytest.mark.parametrize("many", [2**31, 2**62, 2**70])
async def test_asking_for_more_than_there_can_be_gives_all(store, many):
    await store.memory.add(["green tea"])
    assert len(await store.search("tea", limit=many)) == 1
    assert (await store.memory.list(page_size=many)).total == 1


async def test_an_error_about_one_record_calls_the_argument_by_its_name(store):
    with pytest.raises(InvalidRequestError, match=r"^embedding must"):
        await store.context().add("user", "x", embedding=["a"])


async def test_an_error_about_a_collection_calls_it_by_its_name(store):
    docs = store.vectors("Do'cs")
    await docs.add([Document(text="x", embedding=[1.0, 2.0])])
    with pytest.raises(DimensionMismatchError, match=r'collection "Do\'cs"'):
        await docs.add([Document(text="x", embedding=[1.0])])


async def test_one_id_may_name_a_message_and_a_memory(store):
    for handle in (store, store.scope(user_id="u", agent_id="g"), store.scope(tenant="t")):
        await handle.history.append("", Message.user("tea", id="x"), session_id="s")
        await handle.memory.add([Message.user("tea", id="x")], session_id="s")
        await handle.history.append("", Message.user("tea", id="x"), session_id="s")
        assert await handle.history.count("", session_id="s") == 1
        assert (await handle.memory.list(session_id="s")).total == 1


async def test_a_record_of_another_session_is_no_repetition(store):
    message = Message.user("ok", id="1")
    await store.context().add("user", message, session_id="s")
    with pytest.raises(AlreadyExistsError):
        await store.context().add("user", message, session_id="t")


async def test_an_update_to_no_tenant_does_not_leave_the_scope(store):
    context = store.scope(tenant="A").context()
    await context.add("user", "x", external_id="e")
    await context.update(external_id="e", tenant="")
    assert [one["tenant"] for one in await context.list()] == ["A"]


async def test_forgetting_nothing_makes_no_version(store):
    await store.context().add("user", "x")
    before = await store.version()
    assert await store.context().delete(id="none") is False
    assert await store.version() == before


async def test_turns_lend_to_turns_of_the_same_user_only(store):
    for user in "ABA":
        scope = store.scope(user_id=user)
        text = "the harvest supper" if user == "A" else "a dentist"
        await scope.history.append("g", Message.user(text), session_id="s")
    (first, *_) = await store.scope(user_id="A").search("supper", limit=1)
    assert first.neighbour_bonus > 0
    (first, *_) = await store.scope(user_id="B").search("dentist", limit=1)
    assert first.neighbour_bonus == 0


async def test_reading_makes_no_directory(open_store, tmp_path):
    store = open_store()
    assert await store.history.count("a", session_id="s") == 0
    assert await store.sessions.list() == []
    assert await store.vectors().list_collections() == []
    assert await store.version() == 0
    assert not (tmp_path / "store").exists()
    await store.context().add("user", "x")
    assert await store.context().entries() == 1


async def test_the_times_of_a_session_are_utc(store):
    await store.sessions.create("s", title="t")
    await store.history.append("a", Message.user("x"), session_id="u")
    await store.sessions.update("s", ended_at=datetime(2026, 1, 1, tzinfo=UTC))
    for one in [*await store.sessions.list(), await store.sessions.get("s")]:
        times = [one.created_at, one.updated_at, *([one.ended_at] if one.ended_at else [])]
        assert all(time.tzinfo is UTC for time in times)


@pytest.mark.parametrize(
    "write",
    [
        lambda view: view.history.append("a", Message.user("x", id="m"), session_id="s"),
        lambda view: view.memory.add([Message.user("x", id="memory")]),
        lambda view: view.sessions.create("s"),
        lambda view: view.sessions.update("unknown", title="x"),
        lambda view: view.vectors("docs").add([Document(id="d", text="x")]),
        lambda view: view.context().update(id="unknown", tags=["x"]),
        lambda view: view.context().delete(id="unknown"),
    ],
)
async def test_a_view_of_the_past_refuses_even_what_would_change_nothing(store, write):
    await store.sessions.create("s")
    await store.memory.add([Message.user("x", id="memory")])
    await store.vectors("docs").add([Document(id="d", text="x")])
    await store.history.append("a", Message.user("x", id="m"), session_id="s")
    view = await store.checkout(await store.version())
    with pytest.raises(ReadOnlyError):
        await write(view)

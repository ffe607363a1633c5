"""What has expired by the store's clock is hidden from every read, and its id is free again."""

from datetime import timedelta

import pytest
from core.conformance.vectors import MODES
from lance_context_testing.history import numbered

from lance_context_core.errors import InvalidRequestError, NotFoundError
from lance_context_core.messages import Message


@pytest.fixture
def expires_at(clock):
    """In an hour."""
    return clock.now() + timedelta(hours=1)


async def test_an_expired_memory_is_hidden_from_every_read(store, memory, clock, expires_at):
    await memory.add(["green tea"], user_id="u", session_id="s", expires_at=expires_at)
    await memory.add(["black tea"], user_id="u", session_id="s")

    async def read():
        texts = {one.text for one in (await memory.list(user_id="u")).items}
        assert {one.text for one in (await memory.list(user_id="u", session_id="s")).items} == texts
        assert (await memory.list(user_id="u")).total == len(texts)
        for mode in MODES:
            for hits in (
                await memory.search("tea", user_id="u", mode=mode),
                await store.search("tea", mode=mode),
                await store.context().search("tea", mode=mode),
            ):
                assert {text_of(hit) for hit in hits} == texts
        assert {one["text"] for one in await store.context().list()} == texts
        assert await store.context().entries() == len(texts)
        return texts

    assert await read() == {"green tea", "black tea"}
    clock.advance(hours=1, microseconds=-1)
    assert await read() == {"green tea", "black tea"}
    clock.advance(microseconds=1)
    assert await read() == {"black tea"}
    everything = await store.context().list(include_expired=True)
    assert {one["text"] for one in everything} == {"green tea", "black tea"}


def text_of(hit):
    """What a hit says, of the record API or of another one."""
    return hit["text"] if isinstance(hit, dict) else hit.record.text


async def test_an_expired_message_is_hidden_from_every_read(
    store, history, sessions, clock, expires_at
):
    turn = {"session_id": "s", "agent_id": "a"}
    await store.context().add("user", "green tea", id="m", expires_at=expires_at, **turn)
    await history.append("a", Message.user("black tea"), session_id="s")

    async def read():
        messages = await history.get_messages("a", session_id="s")
        assert await history.get_messages("a", session_id="s", last=9) == messages
        assert await history.count("a", session_id="s") == len(messages)
        assert (await sessions.get("s")).n_messages == len(messages)
        assert (await sessions.list())[0].n_messages == len(messages)
        for mode in MODES:
            assert len(await store.history.search("tea", mode=mode)) == len(messages)
        found = await store.context().get(id="m")
        assert (found is not None) == ("green tea" in [one.text for one in messages])
        return [one.text for one in messages]

    assert await read() == ["green tea", "black tea"]
    clock.advance(hours=1)
    assert await read() == ["black tea"]
    # It is hidden, not gone: forgetting the session forgets it too.
    assert await history.clear("a", session_id="s") == 2
    assert await store.context().list(include_expired=True) == []


async def test_the_id_of_what_expired_can_be_used_again(store, clock, expires_at):
    context = store.context()
    await context.add("user", "old", external_id="x", expires_at=expires_at)
    clock.advance(hours=1)
    added = await context.add("user", "new", external_id="x")
    assert (await context.get(external_id="x"))["text"] == "new"
    assert (await context.get(id=added.id))["text"] == "new"
    assert await context.entries() == 1


async def test_a_session_whose_messages_all_expired_is_as_good_as_unknown(
    store, history, sessions, clock, expires_at
):
    turn = {"session_id": "s", "agent_id": "a"}
    await store.context().add("user", "green tea", expires_at=expires_at, **turn)
    assert (await sessions.get("s")).n_messages == 1
    clock.advance(hours=1)
    assert await sessions.get("s") is None
    assert await sessions.list() == []
    assert await history.get_messages("a", session_id="s") == []
    assert await sessions.delete("s") is True


async def test_the_messages_of_a_session_expire_together(store, history, sessions, clock):
    in_an_hour = clock.now() + timedelta(hours=1)
    for session in ("s", "other"):
        await history.append_many("a", numbered(0, 3), session_id=session)
    last = Message.user("green tea", id="last")
    await history.append("a", last, session_id="s", expires_at=in_an_hour)
    before = await history.get_messages("a", session_id="s")
    assert await history.touch("a", session_id="s", expires_at=in_an_hour) == 4
    assert await history.touch("a", session_id="unheard of", expires_at=in_an_hour) == 0
    assert await history.get_messages("a", session_id="s") == before
    assert await history.sweep() == 0
    clock.advance(hours=1)
    assert await history.get_messages("a", session_id="s") == []
    assert await history.get_messages("a", session_id="s", last=9) == []
    assert await history.count("a", session_id="s") == 0
    assert await history.pop("a", session_id="s") is None
    assert await history.session_ids("a") == ["other"]
    assert await sessions.get("s") is None
    for mode in MODES:
        assert await store.history.search("tea", session_id="s", mode=mode) == []
    # It is too late to let them live.
    assert await history.touch("a", session_id="s", expires_at=None) == 0
    assert await history.touch("a", session_id="other", expires_at=None) == 3
    assert (await history.sweep(), await history.sweep()) == (4, 0)
    assert await store.context().list(include_expired=True, filters={"session_id": "s"}) == []
    await history.append("a", last, session_id="s")
    assert await history.get_messages("a", session_id="s") != []
    assert await history.count("a", session_id="other") == 3


async def test_a_described_session_expires_with_its_messages(store, history, sessions, clock):
    in_an_hour = clock.now() + timedelta(hours=1)
    await history.append_many("a", numbered(0, 2), session_id="s")
    await history.append("a", Message.user("mine"), session_id="other")
    await sessions.create("s", title="Tea")
    await sessions.create("other")
    described = await sessions.update("s", expires_at=in_an_hour)
    assert (described.expires_at, described.n_messages) == (in_an_hour, 2)
    assert (await sessions.get("s")).title == "Tea"
    assert await sessions.sweep() == 0
    clock.advance(hours=1)
    assert await sessions.get("s") is None
    assert [one.id for one in await sessions.list()] == ["other"]
    assert [one.id for one in await sessions.list(limit=5)] == ["other"]
    assert await history.get_messages("a", session_id="s") == []
    assert await store.search("0", filter={"session_id": "s"}) == []
    assert await store.context().list(filters={"session_id": "s"}) == []
    with pytest.raises(NotFoundError):
        await sessions.update("s", title="Too late")
    assert (await history.sweep(), await sessions.sweep(), await sessions.sweep()) == (2, 1, 0)
    assert await sessions.delete("s") is False


async def test_an_expired_description_makes_way(history, sessions, clock):
    in_an_hour = clock.now() + timedelta(hours=1)
    assert (await sessions.create("s", title="old", expires_at=in_an_hour)).title == "old"
    assert (await sessions.create("s", title="new")).title == "old"
    clock.advance(hours=1)
    await history.append("a", Message.user("again"), session_id="s")
    assert (await sessions.get("s")).title is None
    again = await sessions.create("s", title="new")
    assert (again.title, again.expires_at, again.n_messages) == ("new", None, 1)
    assert await sessions.get("s") == again


async def test_a_session_that_is_described_with_an_expiry_takes_its_messages_along(
    history, sessions, clock
):
    await history.append("a", Message.user("tea"), session_id="s")
    await sessions.create("s", expires_at=clock.now() + timedelta(hours=1))
    clock.advance(hours=1)
    assert await history.count("a", session_id="s") == 0
    assert await sessions.get("s") is None


async def test_what_expires_shows_its_new_moment_and_says_nothing_else(store, history, clock):
    in_an_hour = clock.now() + timedelta(hours=1)
    await history.append("a", Message.user("tea", id="m"), session_id="s")
    before = await store.context().get(id="m")
    clock.advance(minutes=1)
    await history.touch("a", session_id="s", expires_at=in_an_hour)
    after = await store.context().get(id="m")
    assert after == before | {"expires_at": after["expires_at"]}
    assert after["expires_at"] is not None
    clock.advance(hours=1)
    assert await store.context().get(id="m") is None


async def test_a_moment_of_expiry_without_a_zone_is_refused_before_anything_is_written(
    history, sessions, back_door, clock
):
    wrong = clock.now().replace(tzinfo=None)
    with pytest.raises(InvalidRequestError, match="expires_at"):
        await history.append("a", Message.user("tea"), session_id="s", expires_at=wrong)
    with pytest.raises(InvalidRequestError, match="expires_at"):
        await history.touch("a", session_id="s", expires_at="soon")
    with pytest.raises(InvalidRequestError, match="expires_at"):
        await sessions.create("s", expires_at=wrong)
    assert await back_door.rows("sessions") == []
    assert await back_door.rows("records") == []


async def test_a_time_without_a_zone_is_refused(store, memory, back_door, clock):
    with pytest.raises(InvalidRequestError, match="expires_at"):
        await memory.add(["tea"], user_id="u", expires_at=clock.now().replace(tzinfo=None))
    assert await back_door.rows("records") == []

"""Messages that are replaced, marked and picked out by a filter."""

import asyncio

import pytest

from lance_context_core import AlreadyExistsError, AsyncContextStore, InvalidRequestError, Message

DONE = {"metadata.done": True}
OPEN = {"$not": DONE}


async def say(history, *texts, session="s", **fields):
    messages = [Message.user(one, **fields) for one in texts]
    return await history.append_many("a", messages, session_id=session)


async def read(history, session="s", **span):
    return [one.text for one in await history.get_messages("a", session_id=session, **span)]


async def test_messages_take_the_place_of_a_session_in_one_commit(store):
    await say(store.history, "1", "2")
    await say(store.history, "other", session="t")
    before = await store.version()
    ids = await store.history.replace(
        "a", [Message.user("3", id="x"), Message.user("4")], session_id="s"
    )
    assert await store.version() == before + 1
    assert ids[0] == "x"
    assert (await read(store.history), await read(store.history, "t")) == (["3", "4"], ["other"])


async def test_what_does_not_match_stays_where_it_is(store):
    await say(store.history, "1", "2", metadata={"done": True})
    await say(store.history, "3", "4")
    await store.history.replace("a", [Message.user("5")], session_id="s", filter=OPEN)
    assert await read(store.history) == ["1", "2", "5"]
    await store.history.replace("a", [], session_id="s", filter=DONE)
    assert await read(store.history) == ["5"]


async def test_what_has_taken_a_place_is_found_by_its_metadata(store):
    for text in ("1", "2"):
        new = [Message.user(text, metadata={"done": True})]
        await store.history.replace("a", new, session_id="s")
        assert await read(store.history, filter=DONE) == [text]


async def test_a_message_may_be_replaced_by_one_of_its_id(store):
    await store.history.append("a", Message.user("old", id="m"), session_id="s")
    assert await store.history.replace("a", [Message.user("new", id="m")], session_id="s") == ["m"]
    assert await read(store.history) == ["new"]


async def test_a_message_whose_id_stays_is_refused_or_left_as_it_is(store):
    kept = Message.user("old", id="m", metadata={"done": True})
    await store.history.append_many("a", [kept, Message.user("2")], session_id="s")
    new = [Message.user("new", id="m"), Message.user("3")]
    which = {"session_id": "s", "filter": OPEN}
    with pytest.raises(AlreadyExistsError, match="'m'"):
        await store.history.replace("a", new, **which)
    assert await read(store.history) == ["old", "2"]
    ids = await store.history.replace("a", new, **which, keep_existing=True)
    assert ids[0] == "m"
    assert await read(store.history) == ["old", "3"]


async def test_what_cannot_be_kept_replaces_nothing(store):
    await say(store.history, "1")
    for wrong in ([Message.user("2", id="m")] * 2, [Message.user("2"), "3"]):
        with pytest.raises(InvalidRequestError):
            await store.history.replace("a", wrong, session_id="s")
    assert await read(store.history) == ["1"]


async def test_of_several_replacements_at_once_one_is_there(store):
    batches = [[Message.user(f"{n}.{i}") for i in range(3)] for n in range(5)]
    await asyncio.gather(*[store.history.replace("a", one, session_id="s") for one in batches])
    assert await read(store.history) in [[one.text for one in batch] for batch in batches]


async def test_messages_are_marked_in_one_commit_and_keep_their_places(store):
    ids = await say(store.history, "1", "2", "3", metadata={"of": "mine"})
    before = await store.version()
    some = {"id": {"$in": ids[:2]}}
    assert await store.history.annotate("a", {"done": True}, session_id="s", filter=some) == ids[:2]
    assert await store.version() == before + 1
    found = await store.history.get_messages("a", session_id="s")
    assert [(one.text, one.metadata) for one in found] == [
        ("1", {"of": "mine", "done": True}),
        ("2", {"of": "mine", "done": True}),
        ("3", {"of": "mine"}),
    ]


async def test_of_calls_at_once_one_marks_a_message(store):
    ids = await say(store.history, *map(str, range(9)))

    async def mark():
        return await store.history.annotate("a", {"done": True}, session_id="s", filter=OPEN)

    marked = [id for some in await asyncio.gather(*[mark() for _ in range(4)]) for id in some]
    assert sorted(marked) == sorted(ids)


async def test_a_filter_picks_messages_to_read_count_and_forget(store):
    await say(store.history, "1", "2", metadata={"done": True})
    await say(store.history, "3", "4", "5")
    assert await read(store.history, filter=OPEN, offset=1, limit=1) == ["4"]
    assert await read(store.history, filter=OPEN, last=1) == ["5"]
    assert await store.history.count("a", session_id="s", filter=DONE) == 2
    assert await store.history.clear("a", session_id="s", filter=OPEN) == 3
    assert await read(store.history) == ["1", "2"]


async def test_an_agents_sessions_come_by_their_first_messages(store):
    for session in ("z", "a'", "z", "m"):
        await say(store.history, "x", session=session)
    await store.history.append("b", Message.user("x"), session_id="of another")
    assert await store.history.session_ids("a") == ["z", "a'", "m"]
    assert await store.scope(agent_id="b").history.session_ids("") == ["of another"]
    await store.history.clear("a", session_id="z")
    assert await store.history.session_ids("a") == ["a'", "m"]
    async with await AsyncContextStore.open("memory://") as empty:
        assert await empty.history.session_ids("") == []

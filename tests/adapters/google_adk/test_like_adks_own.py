"""What every session service of ADK does: asked of ADK's own, and of ours."""

import asyncio
import time

import pytest
from adapters.google_adk.samples import APP, EVENTS, OF_ADA, create, get, recent, said, texts
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event


async def test_a_session_is_created_read_and_deleted(any_sessions):
    assert await get(any_sessions) is None
    session = await create(any_sessions, state={"k": {"deep": [1, None]}})
    assert (session.id, session.app_name, session.user_id) == ("1", "tutor", "ada")
    assert session.state == {"k": {"deep": [1, None]}}
    assert session.events == []
    assert abs(session.last_update_time - time.time()) < 60
    assert await get(any_sessions) == session
    await any_sessions.delete_session(**OF_ADA, session_id="1")
    await any_sessions.delete_session(**OF_ADA, session_id="1")
    assert await get(any_sessions) is None


async def test_ids_are_stripped_and_taken_once(any_sessions):
    assert (await create(any_sessions, "  1\n")).id == "1"
    assert (await get(any_sessions, " 1 ")).id == "1"
    for again in ("1", " 1"):
        with pytest.raises(AlreadyExistsError, match="Session with id 1 already exists"):
            await create(any_sessions, again)
    made = {(await create(any_sessions, blank)).id for blank in (None, "", "  ")}
    assert len(made) == 3
    assert all(one.strip() for one in made)
    await any_sessions.delete_session(**OF_ADA, session_id="1\t")
    assert await get(any_sessions) is None


async def test_states_are_shared_as_their_prefixes_say(any_sessions):
    start = {"own": 1, "user:u": 2, "app:a": 3, "temp:t": 4}
    first = await create(any_sessions, "1", state=start)
    assert first.state == {"own": 1, "user:u": 2, "app:a": 3}
    change = {"own": 10, "user:u": [20], "app:b": {"c": 30}, "temp:t": 40}
    await any_sessions.append_event(first, said("hi", state=change))
    # The agent sees what is temporary, and no one else does.
    assert first.state == {"own": 10, "user:u": [20], "app:a": 3, "app:b": {"c": 30}, "temp:t": 40}
    shared = {"app:a": 3, "app:b": {"c": 30}}
    read = await get(any_sessions)
    assert read.state == {"own": 10, "user:u": [20], **shared}
    assert read.events[0].actions.state_delta == {
        "own": 10,
        "user:u": [20],
        "app:b": {"c": 30},
    }
    assert (await create(any_sessions, "2")).state == {"user:u": [20], **shared}
    assert (await create(any_sessions, "1", user="ben")).state == shared
    assert (await create(any_sessions, "1", app="other")).state == {}
    assert await any_sessions.get_user_state(**OF_ADA) == {"u": [20]}
    assert await any_sessions.get_user_state(app_name=APP, user_id="ben") == {}
    assert await any_sessions.get_user_state(app_name="other", user_id="ada") == {}
    # A session takes its own state with it alone.
    await any_sessions.delete_session(**OF_ADA, session_id="1")
    assert (await create(any_sessions, "1")).state == {"user:u": [20], **shared}


async def test_state_keeps_numbers_texts_and_none(any_sessions):
    odd = {"": 1, "n": 2**70, "f": 0.1 + 0.2, "e": 1e300, "x": None, "t": "☀", ":": "a:b"}
    session = await create(any_sessions, state=odd)
    await any_sessions.append_event(session, said("hi", state={"more": -(2**65)}))
    assert (await get(any_sessions)).state == {**odd, "more": -(2**65)}


async def test_temporary_state_lasts_for_the_events_of_a_run(any_sessions):
    session = await create(any_sessions)
    await any_sessions.append_event(session, said("first", state={"temp:draft": "tea"}))
    await any_sessions.append_event(session, said("second", state={"k": 1}))
    assert session.state == {"temp:draft": "tea", "k": 1}
    assert (await get(any_sessions)).state == {"k": 1}


async def test_events_read_back_equal_in_their_order(any_sessions):
    session = await create(any_sessions)
    for event in EVENTS.values():
        await any_sessions.append_event(session, event.model_copy(deep=True))
    read = await get(any_sessions)
    assert [one.model_dump() for one in read.events] == [
        one.model_dump() for one in EVENTS.values()
    ]
    assert read == session


async def test_the_time_of_a_session_is_that_of_its_last_event(any_sessions):
    session = await create(any_sessions)
    at = session.last_update_time + 10.1234567
    await any_sessions.append_event(session, said("later", timestamp=at))
    assert session.last_update_time == at
    assert (await get(any_sessions)).last_update_time == at


async def test_events_are_read_from_the_end_or_from_a_time(any_sessions):
    session = await create(any_sessions)
    for n in range(1, 7):
        await any_sessions.append_event(session, said(str(n), timestamp=float(n)))

    async def read(**part):
        return "".join(texts(await get(any_sessions, config=recent(**part))))

    assert await read() == "123456"
    assert [await read(n=n) for n in (0, 1, 4, 99)] == ["", "6", "3456", "123456"]
    assert [await read(after=at) for at in (0.5, 4.0, 4.0000001, 6.0, 7.0)] == [
        *("123456", "456", "56", "6", ""),
    ]
    assert [await read(n=n, after=4.0) for n in (0, 1, 2, 3, 5)] == ["", "6", "56", "456", "456"]
    # Whatever is read, the state is whole.
    assert (await get(any_sessions, config=recent(n=0))).last_update_time == 6.0


async def test_events_of_one_time_keep_the_order_in_which_they_were_stored(any_sessions):
    session = await create(any_sessions)
    for n in range(6):
        await any_sessions.append_event(session, said(str(n), timestamp=1.0))
    assert texts(await get(any_sessions)) == list("012345")
    assert texts(await get(any_sessions, config=recent(n=3))) == list("345")


async def test_partial_events_are_not_stored(any_sessions):
    session = await create(any_sessions)
    event = said("hal", state={"k": 1}, partial=True)
    assert await any_sessions.append_event(session, event) is event
    assert session.events == (await get(any_sessions)).events == []
    assert (await get(any_sessions)).state == {}


async def test_an_unknown_session_takes_no_event(any_sessions):
    session = await create(any_sessions)
    await any_sessions.delete_session(**OF_ADA, session_id="1")
    with pytest.raises(SessionNotFoundError, match="Session 1 not found"):
        await any_sessions.append_event(session, said("hi"))
    assert await get(any_sessions) is None


async def test_sessions_are_listed_without_events_and_the_oldest_first(any_sessions):
    now = time.time()
    for at, (user, id) in enumerate([("ada", "b"), ("ben", "a"), ("ada", "a"), ("", "c")]):
        session = await create(
            any_sessions, id, user=user, state={"is": [user, id], "user:u": user}
        )
        event = said("hi", timestamp=now + 100 - at, state={"app:a": 1})
        await any_sessions.append_event(session, event)
    await create(any_sessions, "x", app="other")

    async def listed(**which):
        found = (await any_sessions.list_sessions(app_name=APP, **which)).sessions
        assert all(one.events == [] for one in found)
        for one in found:
            is_of = [one.user_id, one.id]
            assert one.state == {"is": is_of, "user:u": one.user_id, "app:a": 1}
        return [(one.user_id, one.id) for one in found]

    assert await listed() == [("", "c"), ("ada", "a"), ("ben", "a"), ("ada", "b")]
    assert await listed(user_id=None) == await listed()
    assert await listed(user_id="ada") == [("ada", "a"), ("ada", "b")]
    # The empty name is a user, and not all of them.
    assert await listed(user_id="") == [("", "c")]
    assert await listed(user_id="eve") == []


async def test_users_with_one_session_id_are_apart(any_sessions):
    for user in ("ada", "ben", "", "∅", "∅ada"):
        session = await create(any_sessions, user=user, state={"user:is": user})
        await any_sessions.append_event(session, said(f"I am {user}"))
    for user in ("ada", "ben", "", "∅", "∅ada"):
        session = await get(any_sessions, user=user)
        assert (texts(session), session.state) == ([f"I am {user}"], {"user:is": user})
    await any_sessions.delete_session(app_name=APP, user_id="", session_id="1")
    assert texts(await get(any_sessions)) == ["I am ada"]


async def test_what_is_returned_is_a_copy(any_sessions):
    session = await create(any_sessions, state={"k": [1], "app:k": [1]})
    await any_sessions.append_event(session, said("hi"))
    read = await get(any_sessions)
    read.state["k"].append(2)
    read.state["app:k"].append(2)
    read.events[0].content.parts[0].text = "changed"
    read.events.clear()
    (listed,) = (await any_sessions.list_sessions(**OF_ADA)).sessions
    listed.state["k"].append(3)
    again = await get(any_sessions)
    assert (texts(again), again.state) == (["hi"], {"k": [1], "app:k": [1]})


async def test_many_sessions_at_once_lose_nothing(any_sessions):
    async def talk(id):
        session = await create(any_sessions, id)
        for n in range(2):
            await any_sessions.append_event(session, said(f"{id} {n}", state={f"user:{id}": n}))
        return texts(await get(any_sessions, id))

    ids = [f"s{n}" for n in range(6)]
    assert await asyncio.gather(*map(talk, ids)) == [[f"{id} {n}" for n in range(2)] for id in ids]
    assert await any_sessions.get_user_state(**OF_ADA) == dict.fromkeys(ids, 1)


async def test_an_event_without_content_is_kept_for_what_it_does(any_sessions):
    session = await create(any_sessions)
    event = Event(author="bot", actions={"escalate": True})
    await any_sessions.append_event(session, event)
    assert (await get(any_sessions)).events == [event]

"""Appending where others append, again, or where other frameworks write."""

import asyncio

import pytest
from adapters.google_adk.samples import APP, OF_ADA, create, get, recent, said, texts
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google_adk_lance_context import LanceSessionService

from lance_context_core import AsyncHistory, Message


async def test_of_two_readers_of_a_session_one_may_append(sessions):
    await create(sessions)
    first, second = await get(sessions), await get(sessions)
    await sessions.append_event(first, said("a", state={"k": 1, "app:k": 1}))
    for _ in range(2):
        with pytest.raises(StaleSessionError, match="modified in storage since it was read"):
            await sessions.append_event(second, said("b", state={"k": 2, "user:k": 2}))
    assert (second.events, second.state) == ([], {})
    read = await get(sessions)
    assert (texts(read), read.state) == (["a"], {"k": 1, "app:k": 1})
    # What was read again goes on.
    await sessions.append_event(read, said("c"))
    await sessions.append_event(read, said("d"))
    assert texts(await get(sessions)) == ["a", "c", "d"]


async def test_of_two_appends_at_once_one_is_stored(sessions):
    await create(sessions)
    for n in range(8):
        pair = [await get(sessions) for _ in range(2)]
        changes = [{"n": n, f"{who} {n}": 1} for who in "ab"]
        outcomes = await asyncio.gather(
            *(
                sessions.append_event(one, said("hi", state=change))
                for one, change in zip(pair, changes, strict=True)
            ),
            return_exceptions=True,
        )
        assert sorted(type(one).__name__ for one in outcomes) == ["Event", "StaleSessionError"]
        stored = [key for key in (await get(sessions)).state if key.endswith(f" {n}")]
        assert len(stored) == 1
    assert len((await get(sessions)).events) == 8


async def test_stale_sessions_may_append_if_the_service_says_so(store):
    sessions = LanceSessionService(store, stale="append")
    await create(sessions)
    first, second = await get(sessions), await get(sessions)
    await sessions.append_event(first, said("a", state={"k": 1, "a": 1}))
    await sessions.append_event(second, said("b", state={"k": 2, "b": 2}))
    await asyncio.gather(
        *(sessions.append_event(one, said("c", state={"c": 3})) for one in (first, second))
    )
    read = await get(sessions)
    assert (texts(read), read.state) == (["a", "b", "c", "c"], {"k": 2, "a": 1, "b": 2, "c": 3})
    assert texts(second) == ["b", "c"]


@pytest.mark.parametrize("change", [-0.0001, 0.0001, 0.0])
async def test_a_time_that_lost_digits_is_no_stale_session(sessions, change):
    session = await create(sessions)
    await sessions.append_event(session, said("a", timestamp=session.last_update_time + 10))
    # From JSON, as a web client has it: it has no marker.
    session = Session.model_validate_json(session.model_dump_json())
    session.last_update_time += change
    await sessions.append_event(session, said("b"))
    assert texts(await get(sessions)) == ["a", "b"]


async def test_a_session_from_json_is_stale_if_others_have_written(sessions):
    session = await create(sessions)
    empty = Session.model_validate_json(session.model_dump_json())
    await sessions.append_event(session, said("a", timestamp=session.last_update_time + 1))
    full = Session.model_validate_json(session.model_dump_json())
    await sessions.append_event(session, said("b", timestamp=session.last_update_time + 1))
    for one in (empty, full):
        with pytest.raises(StaleSessionError):
            await sessions.append_event(one, said("c"))
    assert texts(await get(sessions)) == ["a", "b"]


async def test_a_listed_session_and_one_without_its_events_are_current(sessions):
    session = await create(sessions)
    await sessions.append_event(session, said("a"))
    (listed,) = (await sessions.list_sessions(**OF_ADA)).sessions
    await sessions.append_event(listed, said("b"))
    await sessions.append_event(await get(sessions, config=recent(n=0)), said("c"))
    assert texts(await get(sessions)) == ["a", "b", "c"]


async def test_events_before_the_second_of_a_time_are_not_read(sessions, monkeypatch):
    session = await create(sessions)
    for n in range(1, 7):
        await sessions.append_event(session, said(str(n), timestamp=n + 0.5))
    get_messages, n_read = AsyncHistory.get_messages, []

    async def counted(*args, **options):
        found = await get_messages(*args, **options)
        n_read.append(len(found))
        return found

    monkeypatch.setattr(AsyncHistory, "get_messages", counted)
    assert texts(await get(sessions, config=recent(after=5.7))) == ["6"]
    assert n_read == [2]


async def test_an_equal_event_again_changes_nothing(sessions):
    session = await create(sessions)
    event = said("a", state={"k": 1})
    await sessions.append_event(session, event)
    await sessions.append_event(session, said("b", state={"k": 2}))
    before = await get(sessions)
    for again in (session, await get(sessions), await get(sessions, config=recent(n=1))):
        n_events = len(again.events)
        assert await sessions.append_event(again, event.model_copy(deep=True)) == event
        assert len(again.events) == n_events
    assert await get(sessions) == before
    assert before.state == {"k": 2}


async def test_another_event_of_the_same_id_is_stored_too(sessions):
    session = await create(sessions)
    events = [
        *(said("a", id="e", timestamp=1.0), said("b", id="e", timestamp=1.0)),
        # What differs is no part of the message.
        said("b", id="e", timestamp=1.0, invocation_id="other"),
    ]
    for _ in range(2):
        for event in events:
            await sessions.append_event(session, event)
    read = await get(sessions)
    assert read.events == session.events == events
    await sessions.append_event(Session.model_validate(read.model_dump()), said("c"))
    assert texts(await get(sessions)) == ["a", "b", "b", "c"]


async def test_an_append_that_is_cancelled_is_whole_or_not_there_and_may_be_repeated(sessions):
    for n in range(14):
        session = await create(sessions, str(n))
        event = said("a", state={"k": n, "user:k": n})
        appending = asyncio.create_task(sessions.append_event(session, event))
        for _ in range(n):
            await asyncio.sleep(0)
        appending.cancel()
        await asyncio.gather(appending, return_exceptions=True)
        read = await get(sessions, str(n))
        assert (texts(read), read.state.get("k")) in (([], None), (["a"], n))
        await sessions.append_event(session, event)
        await sessions.append_event(session, said("b"))
        assert texts(session) == texts(await get(sessions, str(n))) == ["a", "b"]
        assert (await sessions.get_user_state(**OF_ADA))["k"] == n


async def test_a_session_of_another_framework_is_read_and_continued(store):
    messages = [
        Message.user("Hi.", id="m1"),
        Message.assistant("Hello.", id="m2", name="bot"),
    ]
    await store.scope(user_id="ada").history.append_many("", messages, session_id="1")
    sessions = LanceSessionService(store, agent_id="")
    session = await get(sessions)
    assert [(one.id, one.author) for one in session.events] == [("m1", "user"), ("m2", "bot")]
    assert texts(session) == ["Hi.", "Hello."]
    assert texts(await get(sessions, config=recent(n=1))) == ["Hello."]
    assert texts(await get(sessions, config=recent(n=0))) == []
    with pytest.raises(AlreadyExistsError):
        await create(sessions)
    await sessions.append_event(session, said("Tea?", state={"k": 1}))
    await store.scope(user_id="ada").history.append("", Message.assistant("Yes."), session_id="1")
    session = await get(sessions)
    assert (texts(session), session.state) == (["Hi.", "Hello.", "Tea?", "Yes."], {"k": 1})
    await sessions.delete_session(**OF_ADA, session_id="1")
    assert await store.history.count("", session_id="1") == 0
    assert await get(LanceSessionService(store)) is None


async def test_the_events_of_an_app_are_messages_of_the_agent_of_its_name(store, sessions):
    session = await create(sessions)
    await sessions.append_event(session, said("I am allergic to nuts.", id="e1"))
    await sessions.append_event(session, said("Noted.", author="bot", id="e2"))
    found = await store.scope(user_id="ada").history.get_messages(APP, session_id="1")
    assert [(one.id, one.role, one.name, one.text) for one in found] == [
        ("e1", "user", None, "I am allergic to nuts."),
        ("e2", "assistant", "bot", "Noted."),
    ]
    hit, *_ = await store.scope(user_id="ada").search("allergic")
    assert (hit.record.text, hit.record.agent_id) == ("I am allergic to nuts.", APP)


async def test_what_is_temporary_is_stored_nowhere(store, sessions):
    session = await create(sessions, state={"user:k": 0})
    delta = {"k": 1, "user:k": 1, "app:k": 1, "temp:k": 1}
    await sessions.append_event(session, said("a", state=delta))
    items = await store.kv("google-adk").list()
    assert sorted(one.namespace[1] for one in items) == ["app", "sessions", "states", "user"]
    assert all(b"temp" not in (one.data or b"") for one in items)
    (message,) = await store.scope(user_id="ada").history.get_messages(APP, session_id="1")
    assert "temp" not in message.to_json()


async def test_a_refused_commit_leaves_neither_event_nor_state(store, sessions, monkeypatch):
    session = await create(sessions)

    async def failing(*_, **__):
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(AsyncHistory, "append", failing)
        with pytest.raises(OSError, match="disk is full"):
            await sessions.append_event(session, said("a", state={"k": 1, "app:k": 1}))
    assert (await get(sessions)).state == {}
    await sessions.append_event(session, said("b", state={"k": 2}))
    assert texts(await get(sessions)) == ["b"]


async def test_without_a_log_an_event_that_is_owed_is_appended_by_the_next_reader(monkeypatch):
    for goes_on in ("reads", "appends"):
        async with LanceSessionService("memory://") as sessions:
            session = await create(sessions)

            async def killed(*_, **__):
                raise KeyboardInterrupt

            with monkeypatch.context() as patch:
                patch.setattr(AsyncHistory, "append", killed)
                with pytest.raises(KeyboardInterrupt):
                    await sessions.append_event(session, said("a", state={"k": 1}))
            if goes_on == "appends":
                at_hand = await get(sessions, config=recent(n=0))
                await sessions.append_event(at_hand, said("b"))
            read = await get(sessions)
            assert read.state == {"k": 1}
            assert texts(read) == ["a", "b"][: 1 if goes_on == "reads" else 2]


async def test_events_are_no_events_of_other_classes(sessions):
    class Special(Event):
        """An event of an application."""

    session = await create(sessions)
    await sessions.append_event(session, Special(author="bot", id="e"))
    assert [type(one) for one in (await get(sessions)).events] == [Event]

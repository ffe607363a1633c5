"""The services inside AgentScope's ContextManager, and again after a restart."""

import asyncio

import pytest
from adapters.agentscope.samples import said, texts
from agentscope_runtime.engine.schemas.agent_schemas import (
    ContentType,
    Message,
    MessageType,
    Role,
    TextContent,
)
from agentscope_runtime.engine.services.context_manager import (
    ContextComposer,
    ContextManager,
    create_context_manager,
)
from agentscope_runtime.engine.services.session_history_service import Session

from lance_context_core import AsyncContextStore


@pytest.fixture(params=["handed over", "by its URI"])
def managed(request, restarts):
    """A function that runs a coroutine function with both services, each time anew.

    The first time and the second are before and after a restart.
    """

    async def with_services(use):
        if request.param == "by its URI":
            return await use(restarts.history(), restarts.memory())
        async with await AsyncContextStore.open(restarts.where) as store:
            restarts_in_it = type(restarts)(store)
            return await use(restarts_in_it.history(), restarts_in_it.memory())

    return lambda use: asyncio.run(with_services(use))


def twice(managed, use):
    """What `use` returns before and after a restart."""
    return [managed(use) for _ in range(2)]


# The two ways of making one, and a composer


async def talk(manager, *said_there, session_id="s1"):
    session = await manager.compose_session(user_id="u1", session_id=session_id)
    await manager.compose_context(session, request_input=[said(text) for text in said_there])
    return session


def test_a_manager_made_directly_composes(managed):
    async def use(history, memory):
        manager = ContextManager(session_history_service=history, memory_service=memory)
        async with manager as services:
            session = await services.compose_session(user_id="u1", session_id="s1")
            await services.compose_context(session, request_input=[])
            assert isinstance(session, Session)
            return session.id, session.user_id, session.messages

    assert twice(managed, use) == [("s1", "u1", [])] * 2


def test_a_manager_made_by_the_factory_composes_what_was_said_and_what_is_remembered(managed):
    async def use(history, memory):
        async with create_context_manager(
            session_history_service=history, memory_service=memory
        ) as manager:
            return texts((await talk(manager, "tea please")).messages)

    assert twice(managed, use) == [["tea please"], ["tea please", "tea please", "tea please"]]


def test_memories_of_other_sessions_are_composed_and_those_of_other_users_are_not(managed):
    async def use(history, memory):
        await memory.add_memory("u2", [said("tea of another")])
        async with create_context_manager(
            session_history_service=history, memory_service=memory
        ) as manager:
            await talk(manager, *(f"tea {n}" for n in range(7)), session_id="s1")
            return texts((await talk(manager, "more tea", session_id="s2")).messages)

    remembered = [f"tea {n}" for n in range(2, 7)]
    first, second = twice(managed, use)
    assert first == [*remembered, "more tea"]
    # The session that began last is the end of what is remembered, whatever s1 went on with.
    assert second == [*remembered[1:], "more tea", "more tea", "more tea"]


class LastWord(ContextComposer):
    """Keeps the last message alone, and asks nothing of memory."""

    @staticmethod
    async def compose(
        request_input, session, memory_service=None, session_history_service=None, rag_service=None
    ):
        del rag_service
        await session_history_service.append_message(session=session, message=request_input)
        await memory_service.add_memory(
            user_id=session.user_id, messages=request_input, session_id=session.id
        )
        session.messages = session.messages[-1:]


@pytest.mark.parametrize(
    ("composer", "expected"),
    [
        (ContextComposer, [["tea a", "tea b"], ["tea a", "tea b"] * 3]),
        (LastWord, [["tea b"], ["tea b"]]),
    ],
)
def test_a_composer_of_ones_own_is_asked(managed, composer, expected):
    async def use(history, memory):
        async with ContextManager(
            session_history_service=history, memory_service=memory, context_composer_cls=composer
        ) as manager:
            return texts((await talk(manager, "tea a", "tea b")).messages)

    assert twice(managed, use) == expected


def test_outputs_are_appended_and_none_is_none(managed):
    async def use(history, memory):
        async with create_context_manager(
            session_history_service=history, memory_service=memory
        ) as manager:
            session = await manager.compose_session(user_id="u1", session_id="s1")
            before = len(session.messages)
            await manager.append(session, event_output=[])
            await manager.append(session, event_output=None)
            assert len(session.messages) == before
            await manager.append(session, event_output=[said("Yes.", "assistant")])
            return texts(session.messages), texts(await memory.list_memory("u1"))

    assert twice(managed, use) == [(["Yes."], ["Yes."]), (["Yes."] * 2, ["Yes."] * 2)]


def test_a_session_without_a_user_is_kept_and_is_nobody_elses(managed):
    async def use(history, memory):
        async with create_context_manager(
            session_history_service=history, memory_service=memory
        ) as manager:
            session = await manager.compose_session(user_id="", session_id="s1")
            await manager.append(session, event_output=[said("hello")])
            other = await manager.compose_session(user_id="ada", session_id="s1")
            return session.user_id, texts(session.messages), other.messages

    assert twice(managed, use) == [("", ["hello"], []), ("", ["hello", "hello"], [])]


# A session


def test_a_session_holds_who_it_is_of_and_what_was_said(managed):
    async def use(history, _):
        session = Session(
            id="session_123",
            user_id="user_456",
            messages=[
                Message(role=Role.USER, content=[TextContent(type="text", text="Hello")]),
                Message(role=Role.ASSISTANT, content=[TextContent(type="text", text="Hi there!")]),
            ],
        )
        kept = await history.create_session(session.user_id, session_id=session.id)
        await history.append_message(kept, session.messages)
        return kept == session and await history.get_session("user_456", "session_123") == session

    assert twice(managed, use) == [True, True]


def test_sessions_are_created_with_an_id_of_their_own_or_of_the_callers(managed):
    async def use(history, _):
        session = await history.create_session("test_user")
        custom = await history.create_session("test_user", session_id="my_custom_session_id")
        assert session.id
        assert (session.user_id, session.messages) == ("test_user", [])
        return custom.id, len(await history.list_sessions("test_user"))

    assert twice(managed, use) == [("my_custom_session_id", 2), ("my_custom_session_id", 3)]


def test_a_session_that_is_asked_for_is_there(managed):
    async def use(history, _):
        session = await history.get_session("u1", "s1")
        assert session is not None
        return session.messages

    assert twice(managed, use) == [[], []]


def test_listed_sessions_have_no_messages(managed):
    async def use(history, _):
        for _ in range(2):
            session = await history.create_session("u_list")
            await history.append_message(session, said("a"))
        listed = await history.list_sessions("u_list")
        for one in listed:
            assert one.messages == []
        return len(listed)

    assert twice(managed, use) == [2, 4]


def test_dicts_and_messages_are_appended_one_by_one_and_together(managed):
    async def use(history, _):
        session = await history.create_session("u_append")
        await history.append_message(session, said("Hello, world!"))
        assert len(session.messages) == 1
        await history.append_message(
            session,
            [
                {"role": "user", "content": [{"type": "text", "text": "How are you?"}]},
                said("I am fine, thank you.", "assistant"),
            ],
        )
        assert len(session.messages) == 3
        again = await history.get_session("u_append", session.id)
        assert again == session
        return texts(again.messages)

    said_there = ["Hello, world!", "How are you?", "I am fine, thank you."]
    assert twice(managed, use) == [said_there] * 2


def test_messages_are_read_by_their_attributes(managed):
    async def use(history, _):
        session = await history.create_session("u_append")
        for role, text in ((Role.USER, "Hello, world!"), (Role.ASSISTANT, "Hi there!")):
            message = Message(
                type=MessageType.MESSAGE,
                role=role,
                content=[TextContent(type=ContentType.TEXT, text=text)],
            )
            await history.append_message(session, message)
        assert len(session.messages) == 2
        assert session.messages[0].role == "user"
        assert session.messages[0].content[0].text == "Hello, world!"
        await history.append_message(session, [said("Weather?"), said("Unknown.", "assistant")])
        return len(session.messages)

    assert twice(managed, use) == [4, 4]


def test_messages_are_read_like_mappings_and_a_content_may_be_a_text(managed):
    async def use(history, _):
        session = await history.create_session("u_append")
        await history.append_message(session, {"role": "user", "content": "Hello"})
        await history.append_message(session, said("Hello! How can I assist you?", "assistant"))
        assert len(session.messages) == 2
        again = await history.get_session("u_append", session.id)
        return [one["role"] for one in session.messages], [one["role"] for one in again.messages]

    assert twice(managed, use) == [(["user", "assistant"], ["user", "assistant"])] * 2


def test_a_deleted_session_is_not_there(managed):
    async def use(history, _):
        session = await history.create_session("test_user")
        assert await history.get_session("test_user", session.id) is not None
        await history.delete_session("test_user", session.id)
        assert await history.get_session("test_user", session.id) is None
        await history.delete_session("test_user", "non_existent_id")
        return len(await history.list_sessions("test_user"))

    assert twice(managed, use) == [0, 0]


def test_both_services_begin_are_well_and_end(managed):
    async def use(history, memory):
        for service in (history, memory):
            await service.start()
            assert await service.health() is True
            await service.stop()
        return True

    assert twice(managed, use) == [True, True]


# Memory


def test_memories_are_added_searched_listed_and_deleted(managed):
    async def use(_, memory):
        await memory.add_memory("user1", [said("hello world")])
        found = texts(await memory.search_memory("user1", [said("hello")]))
        listed = texts(await memory.list_memory("user1", filters={"page_size": 10, "page_num": 1}))
        await memory.add_memory("user1", [said("of one session")], "session1")
        await memory.delete_memory("user1", "session1")
        return found, listed, texts(await memory.list_memory("user1"))

    first, second = twice(managed, use)
    assert first == (["hello world"],) * 3
    assert second == (["hello world"] * 2,) * 3

    async def forget(_, memory):
        await memory.delete_memory("user1")
        return await memory.list_memory("user1")

    assert twice(managed, forget) == [[], []]


def test_a_service_that_is_registered_in_a_manager_that_runs_leaves_what_it_has(managed, restarts):
    async def use(history, memory):
        async with create_context_manager(
            session_history_service=history, memory_service=memory
        ) as manager:
            manager.register(type(memory), restarts.where, name="memory")
            found = manager.memory
            assert found is memory
            await found.add_memory("u1", [said("a note")])
            return (await manager.health_check())["memory"], texts(await found.list_memory("u1"))

    assert twice(managed, use) == [(True, ["a note"]), (True, ["a note", "a note"])]


def test_a_service_is_registered_by_its_class_and_managed(restarts):
    async def use():
        manager = ContextManager(session_history_service=restarts.history())
        manager.register(type(restarts.memory()), restarts.where, name="notes")
        async with manager:
            await manager.notes.add_memory("u1", [said("a note")])
            return (await manager.health_check())["notes"], manager.has_service("session")

    assert asyncio.run(use()) == (True, True)
    assert texts(asyncio.run(restarts.memory().list_memory("u1"))) == ["a note"]

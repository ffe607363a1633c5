"""Conversations of the store as AgentScope's session history service, on all lines of the runtime."""

import asyncio
import logging

import pytest
from adapters.agentscope.samples import MESSAGES, dumps, said, texts
from agentscope_lance_context import LanceContextSessionHistoryService
from agentscope_lance_context._runtime import Message, Session, SessionHistoryService

from lance_context_core import AsyncContextStore, AsyncHistory, ContextStore, InvalidRequestError
from lance_context_core import Message as CanonicalMessage


def in_session(restarts, use, **options):
    """What `use` returns of a service that lives for this call."""

    async def main():
        service = restarts.history(**options)
        try:
            return await use(service)
        finally:
            await service.stop()

    return asyncio.run(main())


async def append(service, *messages, session_id="monday", user_id="ada"):
    session = await service.get_session(user_id, session_id)
    await service.append_message(session, list(messages))
    return session


async def stored(service, session_id="monday", user_id="ada"):
    session = await service.get_session(user_id, session_id)
    return session and session.messages


def test_it_is_what_agentscope_calls_one(restarts):
    assert isinstance(restarts.history(), SessionHistoryService)


def test_messages_of_every_kind_read_back_equal_after_a_restart(restarts):
    given = list(MESSAGES.values())
    session = in_session(restarts, lambda service: append(service, *given))
    found = in_session(restarts, stored)
    assert dumps(found) == dumps(given) == dumps(session.messages)
    assert found == given
    assert given == found


def test_one_id_may_occur_often_in_one_session_and_in_several(restarts):
    same = [said(text, id="msg_1") for text in "abcabc"]

    async def use(service):
        await append(service, *same)
        await append(service, *same, session_id="tuesday")
        return await stored(service), await stored(service, "tuesday")

    assert [texts(one) for one in in_session(restarts, use)] == [list("abcabc")] * 2


async def test_a_turn_of_a_session_that_began_here_does_not_read_its_messages(
    tmp_path, monkeypatch
):
    async with LanceContextSessionHistoryService(tmp_path) as service:
        begun = await service.create_session("ada", "monday")
        found = await service.get_session("ada", "tuesday")
        asked = []

        async def count(*_, **whose):
            asked.append(whose)
            return 1

        monkeypatch.setattr(AsyncHistory, "count", count)
        for session in (begun, found):
            await service.append_message(session, said("tea"))
            await service.append_message(session, said("cake"))
        assert asked == []
        # Of one that others began the messages tell.
        await service.append_message(Session(id="theirs", user_id="ada"), said("tea"))
        assert [one["session_id"] for one in asked] == ["theirs"]


def test_a_message_is_appended_once_if_that_is_wanted(restarts):
    async def use(service):
        await append(service, said("a", id="1"), said("b", id="2"), said("a", id="1"))
        await append(service, said("b", id="2"), said("c", id="3"))
        await append(service, said("a", id="1"), session_id="tuesday")
        return await stored(service), await stored(service, "tuesday")

    found = in_session(restarts, use, deduplicate=True)
    assert [texts(one) for one in found] == [["a", "b", "c"], ["a"]]


def test_dicts_are_messages_and_messages_are_read_like_mappings(restarts):
    async def use(service):
        session = await service.create_session("ada")
        await service.append_message(session, {"role": "user", "content": "Hello"})
        await service.append_message(
            session, [{"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}, None]
        )
        await service.append_message(session, None)
        await service.append_message(session, [])
        return session, await service.get_session("ada", session.id)

    session, again = in_session(restarts, use)
    assert texts(session.messages) == texts(again.messages) == ["Hello", "Hi"]
    first = again.messages[0]
    assert (first["role"], first.role, first.get("nothing", 1)) == ("user", "user", 1)
    assert "content" in first.keys()  # noqa: SIM118 - it is asked for by name
    with pytest.raises(KeyError):
        first["model_dump"]
    assert first != again.messages[1]
    assert first != "Hello"


def test_what_a_caller_changes_is_not_changed_in_the_store(restarts):
    async def use(service):
        session = await append(service, said("a"))
        session.messages.append(said("b"))
        session.messages[0].content[0].text = "c"
        return await stored(service)

    assert texts(in_session(restarts, use)) == ["a"]


def test_a_session_that_never_was_is_created_or_is_none(restarts):
    async def use(service):
        session = await service.get_session("ada", "monday")
        return session, [one.id for one in await service.list_sessions("ada")]

    assert in_session(restarts, use, on_missing="none") == (None, [])
    session, listed = in_session(restarts, use)
    assert (session.id, session.user_id, session.messages) == ("monday", "ada", [])
    assert listed == ["monday"]
    session, _ = in_session(restarts, use, on_missing="none")
    assert session.id == "monday"


def test_a_deleted_session_is_not_found_until_it_is_created(restarts):
    async def delete(service):
        await append(service, said("a"))
        await service.delete_session("ada", "monday")

    in_session(restarts, delete)
    assert in_session(restarts, stored) is None
    assert in_session(restarts, stored, on_missing="none") is None
    assert in_session(restarts, lambda service: service.list_sessions("ada")) == []
    in_session(restarts, lambda service: service.create_session("ada", "monday"))
    assert in_session(restarts, stored) == []


def test_a_deleted_session_is_created_if_that_is_wanted(restarts):
    async def use(service):
        await append(service, said("a"))
        await service.delete_session("ada", "monday")
        return await stored(service)

    assert in_session(restarts, use, after_delete="create") == []


def test_deleting_what_is_not_there_changes_nothing(restarts):
    async def use(service):
        for id in ("monday", "", "it's"):
            await service.delete_session("ada", id)
        return await stored(service)

    assert in_session(restarts, use) == []


def test_a_blank_id_is_that_of_a_new_session(restarts):
    async def use(service):
        made = [await service.create_session("ada", id) for id in (None, "", "  ")]
        found = [await service.get_session("ada", id) for id in ("", None)]
        named = await service.create_session("ada", " monday ")
        return named.id, {one.id for one in [*made, *found]}

    named, ids = in_session(restarts, use)
    assert named == "monday"
    assert len(ids) == 5
    assert all(id.strip() for id in ids)


def test_creating_a_session_that_exists_begins_it_anew_or_keeps_it(restarts):
    async def use(service):
        await append(service, said("a"))
        created = await service.create_session("ada", "monday")
        return texts(created.messages), texts(await stored(service))

    assert in_session(restarts, use, on_existing="keep") == (["a"], ["a"])
    assert in_session(restarts, use) == ([], [])


@pytest.mark.parametrize("on_missing", ["create", "none"])
def test_only_where_sessions_come_to_be_by_it_messages_are_appended_to_an_unknown_one(
    restarts, caplog, on_missing
):
    async def use(service):
        session = Session(id="unknown", user_id="ada")
        with caplog.at_level(logging.WARNING):
            await service.append_message(session, said("a"))
        return texts(session.messages), texts(await stored(service, "unknown"))

    kept = on_missing == "none"
    assert in_session(restarts, use, on_missing=on_missing) == (["a"], ["a"] if kept else [])
    assert ("does not exist" in caplog.text) is not kept


def test_sessions_are_listed_without_messages_in_the_order_in_which_they_began(restarts):
    async def use(service):
        for id in ("b", "a", "c"):
            await append(service, said("x"), session_id=id)
        await append(service, said("y"), session_id="b")
        await service.delete_session("ada", "a")
        await service.create_session("ben", "d")

    in_session(restarts, use)
    listed = in_session(restarts, lambda service: service.list_sessions("ada"))
    assert [(one.id, one.user_id, one.messages) for one in listed] == [
        ("b", "ada", []),
        ("c", "ada", []),
    ]


def test_all_sessions_of_a_user_are_deleted_at_once(restarts):
    async def use(service):
        await append(service, said("x"))
        await append(service, said("x"), session_id="tuesday")
        await append(service, said("x"), user_id="ben")
        await service.delete_user_sessions("ada")
        return await service.list_sessions("ada"), texts(await stored(service, user_id="ben"))

    assert in_session(restarts, use) == ([], ["x"])


USERS = ["ada", "", "~", "~~", "it's", "' OR 1=1 --", "ö", "a/b", '"']


def test_users_are_names_and_nothing_else_and_may_be_absent(restarts):
    async def use(service):
        for user in USERS:
            await append(service, said(f"I am {user}"), user_id=user, session_id=f"of {user}'s")
        return [
            (
                texts(await stored(service, user_id=user, session_id=f"of {user}'s")),
                [one.id for one in await service.list_sessions(user)],
            )
            for user in USERS
        ]

    assert in_session(restarts, use) == [([f"I am {user}"], [f"of {user}'s"]) for user in USERS]


def test_an_absent_user_is_the_same_one_by_any_means(restarts):
    async def use(service):
        await append(service, said("a"), user_id=None)
        return texts(await stored(service, user_id=""))

    assert in_session(restarts, use) == ["a"]


def test_the_last_messages_alone_are_read_if_there_is_a_limit(restarts):
    async def use(service):
        session = await append(service, *(said(text) for text in "abcd"))
        await service.append_message(session, said("e"))
        return texts(session.messages), texts(await stored(service))

    assert in_session(restarts, use, max_messages_per_session=3) == (list("cde"), list("cde"))
    assert texts(in_session(restarts, stored)) == list("abcde")


# Bad input

BAD = {
    "no message": 7,
    "a text": "hello",
    "content that is none": {"role": "user", "content": 5},
    "a role that is none": {"role": "poet", "content": "x"},
    "what JSON cannot hold": {"role": "user", "content": [{"type": "data", "data": {"a": open}}]},
    "not a number": {"role": "user", "content": [{"type": "data", "data": {"a": float("nan")}}]},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_input_raises_before_anything_is_written(restarts, bad):
    async def use(service):
        session = await append(service, said("a"))
        with pytest.raises(InvalidRequestError):
            await service.append_message(session, [said("b"), bad])
        return texts(session.messages), texts(await stored(service))

    assert in_session(restarts, use) == (["a"], ["a"])


@pytest.mark.parametrize(
    "options",
    [
        {"on_missing": "raise"},
        {"on_existing": None},
        {"after_delete": "gone"},
        {"ttl_seconds": 0},
        {"ttl_seconds": float("nan")},
        {"ttl_seconds": "10"},
        {"max_messages_per_session": 0},
        {"max_messages_per_session": True},
    ],
)
def test_options_that_there_are_not_are_refused(restarts, options):
    with pytest.raises(InvalidRequestError, match=next(iter(options))):
        restarts.history(**options)


@pytest.mark.parametrize("store", [None, 7, {}])
def test_what_is_no_store_is_refused(store):
    with pytest.raises(InvalidRequestError, match="store"):
        LanceContextSessionHistoryService(store)


@pytest.mark.parametrize("user", ["a\0b", "\ud800", 7])
def test_a_user_that_cannot_be_named_is_refused(restarts, user):
    with pytest.raises(InvalidRequestError):
        in_session(restarts, lambda service: service.create_session(user))


# Its life


def test_it_needs_no_start_and_goes_on_after_its_end(restarts):
    async def main():
        service = restarts.history()
        await append(service, said("a"))
        await service.start()
        await service.start()
        assert await service.health() is True
        await service.stop()
        await service.stop()
        assert texts(await stored(service)) == ["a"]
        await service.stop()
        async with restarts.history() as entered:
            assert texts(await stored(entered)) == ["a"]

    asyncio.run(main())


def test_a_store_that_was_handed_over_stays_open_and_its_health_is_asked_for(restarts):
    async def main():
        async with await AsyncContextStore.open(restarts.where) as store:
            service = LanceContextSessionHistoryService(store)
            await append(service, said("a"))
            await service.stop()
            assert await store.version() > 0
            assert await service.health() is True
        assert await service.health() is False

    asyncio.run(main())


def test_an_open_store_has_its_embedder_already():
    store = AsyncContextStore.open("memory://")
    with pytest.raises(InvalidRequestError, match="embedder"):
        LanceContextSessionHistoryService(store, embedder="local")


# The back door


def test_others_read_what_was_written_here(restarts):
    async def use(service):
        await append(service, MESSAGES["user"], MESSAGES["call"], MESSAGES["output"])
        await append(service, MESSAGES["reasoning"])

    in_session(restarts, use)
    with ContextStore.open(restarts.where) as store:
        asked, called, answered, thought = store.scope(user_id="ada").history.get_messages(
            "", session_id="monday"
        )
    assert (asked.role, asked.text) == ("user", "Is there tea?")
    (call,) = called.parts
    assert (called.role, call.name, call.call_id) == ("assistant", "brew", "c1")
    assert call.arguments == {"cups": 2}
    (result,) = answered.parts
    assert (answered.role, answered.text, result.call_id) == ("tool", "two cups", "c1")
    assert result.content[1].url == "https://example.org/a.png"
    assert (thought.text, thought.parts[0].text) == ("", "Let me think")


def test_a_person_is_erased_from_every_file_with_the_names_of_all_sessions(restarts):
    async def use(service):
        for user in ("ada", "ben"):
            await append(
                service, said(f"I am {user}, Esq."), session_id=f"{user}'s own", user_id=user
            )

    in_session(restarts, use)
    with ContextStore.open(restarts.where) as store:
        store.scope(user_id="ada").erase()
    data = b"".join(one.read_bytes() for one in restarts.where.rglob("*") if one.is_file())
    for user, is_there in (("ada", False), ("ben", True)):
        assert (f"{user}, Esq".encode() in data) is is_there
        assert (f"{user}'s own".encode() in data) is is_there


def test_what_others_wrote_is_read_here(restarts):
    with ContextStore.open(restarts.where) as store:
        store.scope(user_id="ada").history.append_many(
            "",
            [
                CanonicalMessage.user("Is there tea?", id="h1", name="Ada"),
                CanonicalMessage.tool("2 cups", call_id="c1", tool_name="look", id="t1"),
                CanonicalMessage.of("developer", "Be brief."),
            ],
            session_id="monday",
        )

    async def use(service):
        found = await stored(service)
        session = await service.get_session("ada", "monday")
        await service.append_message(session, said("Yes"))
        return found, await service.list_sessions("ada"), await stored(service)

    (asked, answered, told), listed, later = in_session(restarts, use)
    assert (asked.id, asked.role, texts([asked])) == ("h1", "user", ["Is there tea?"])
    assert (answered.id, answered.type) == ("t1", "plugin_call_output")
    assert answered.content[0].data == {"call_id": "c1", "name": "look", "output": "2 cups"}
    assert (told.role, texts([told])) == ("system", ["Be brief."])
    assert [one.id for one in listed] == ["monday"]
    assert len(later) == 4


def test_many_sessions_at_once_keep_their_messages_apart_and_their_turns_together(restarts):
    async def use(service):
        async def talk(session_id):
            for n in range(4):
                await append(service, said(f"{n}"), said(f"{n}"), session_id=session_id)

        ids = [f"s{n}" for n in range(8)]
        await asyncio.gather(*(talk(id) for id in ids for _ in range(2)))
        return [texts(await stored(service, id)) for id in ids]

    for said_there in in_session(restarts, use):
        assert said_there[::2] == said_there[1::2]
        assert sorted(said_there[::2]) == sorted([f"{n}" for n in range(4)] * 2)


def test_a_message_of_a_subclass_is_stored_as_the_message_that_it_is(restarts):
    class Mine(Message):
        note: str = "mine"

    async def use(service):
        return await append(service, Mine(role="user", content=said("a").content))

    session = in_session(restarts, use)
    assert texts(in_session(restarts, stored)) == texts(session.messages) == ["a"]

"""What the SDK asks of a session, and what a store adds to it."""

import asyncio
import gc
import threading

import pytest
from adapters.openai_agents.samples import assistant, call, output, user
from agents import RunContextWrapper, UserError
from agents.memory import Session, SessionSettings
from openai_agents_lance_context import LanceContextSession, LanceSession

from lance_context_core import (
    AsyncContextStore,
    ContextStore,
    InvalidRequestError,
    Message,
)
from lance_context_core.errors import StoreClosedError

SIX = [user(f"line {n}") for n in range(6)]


def test_it_is_a_session_by_both_names(session):
    assert isinstance(session, Session)
    assert session.session_id == "monday"
    assert LanceSession is LanceContextSession


async def test_items_are_read_in_the_order_in_which_they_were_added(session):
    assert await session.get_items() == []
    await session.add_items(SIX[:2])
    await session.add_items([])
    await session.add_items(SIX[2:])
    assert await session.get_items() == SIX


async def test_equal_items_are_all_kept(session):
    await session.add_items([assistant("Yes."), assistant("Yes.")])
    await session.add_items([assistant("Yes.")])
    assert await session.get_items() == [assistant("Yes.")] * 3


async def test_what_was_popped_may_be_added_again(session):
    await session.add_items(SIX[:3])
    assert [await session.pop_item(), await session.pop_item()] == [SIX[2], SIX[1]]
    await session.add_items(SIX[1:3])
    assert await session.get_items() == SIX[:3]


async def test_an_empty_session_pops_nothing(session):
    assert await session.pop_item() is None
    await session.add_items(SIX[:1])
    assert await session.pop_item() == SIX[0]
    assert await session.pop_item() is None


async def test_a_cleared_session_is_empty_and_goes_on(session):
    await session.clear_session()
    await session.add_items(SIX)
    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items(SIX[:1])
    assert await session.get_items() == SIX[:1]


async def test_what_is_read_or_added_may_be_changed_by_the_caller(session):
    given = [user("as it was")]
    await session.add_items(given)
    given[0]["content"] = "changed"
    (await session.get_items())[0]["content"] = "changed"
    assert await session.get_items() == [user("as it was")]


LIMITS = {
    "two": (2, SIX[4:]),
    "as many as there are": (6, SIX),
    "more than there are": (7, SIX),
    "none": (0, []),
    "a negative one": (-1, SIX),
    "absent": (None, SIX),
}


@pytest.mark.parametrize("case", LIMITS)
async def test_a_limit_is_of_the_last_items(session, case):
    limit, expected = LIMITS[case]
    await session.add_items(SIX)
    assert await session.get_items(limit) == expected


@pytest.mark.parametrize("case", LIMITS)
@pytest.mark.parametrize("form", [SessionSettings, dict])
async def test_the_settings_have_the_limit_of_calls_without_one(store, case, form):
    limit, expected = LIMITS[case]
    session = LanceContextSession("monday", store, session_settings=form(limit=limit))
    assert session.session_settings == SessionSettings(limit=limit)
    await session.add_items(SIX)
    assert await session.get_items() == expected
    assert await session.get_items(1) == SIX[5:]


async def test_settings_may_be_exchanged(session):
    assert session.session_settings == SessionSettings()
    await session.add_items(SIX)
    session.session_settings = {"limit": 1}
    assert await session.get_items() == SIX[5:]
    session.session_settings = None
    assert await session.get_items() == SIX


def test_an_unknown_setting_is_an_error(store):
    with pytest.raises((UserError, TypeError, ValueError), match="limits"):
        LanceContextSession("monday", store, session_settings={"limits": 1})


@pytest.mark.parametrize("limit", ["2", 2.5, True], ids=["text", "fraction", "truth"])
async def test_what_is_no_limit_is_a_user_error(session, limit):
    with pytest.raises(UserError, match="limit="):
        await session.get_items(limit)


@pytest.mark.parametrize(
    "call",
    [
        lambda session: session.add_items([]),
        lambda session: session.add_items([user("late")]),
        lambda session: session.get_items(),
        lambda session: session.get_items(0),
        lambda session: session.pop_item(),
        lambda session: session.clear_session(),
        lambda session: session.search("late"),
    ],
    ids=["add none", "add", "get", "get none", "pop", "clear", "search"],
)
async def test_a_closed_session_refuses_every_call(tmp_path, call):
    async with LanceContextSession("monday", tmp_path) as session:
        await session.add_items(SIX)
    with pytest.raises(StoreClosedError):
        await call(session)
    async with LanceContextSession("monday", tmp_path) as again:
        assert await again.get_items() == SIX


async def test_a_store_that_was_handed_over_stays_open(tmp_path):
    async with AsyncContextStore.open(tmp_path) as store:
        async with LanceContextSession("monday", store) as session:
            await session.add_items(SIX)
        assert await LanceContextSession("monday", store).get_items() == SIX


def test_a_blocking_store_will_do(tmp_path):
    with ContextStore.open(tmp_path) as store:
        asyncio.run(LanceContextSession("monday", store).add_items(SIX))
        said = store.history.get_messages("", session_id="monday")
        assert [one.text for one in said] == [one["content"] for one in SIX]


# Owners


async def test_users_of_one_session_id_never_meet(store):
    ada, ben = (LanceContextSession("monday", store, user_id=who) for who in ("ada", "ben"))
    await ada.add_items([user("I like tea"), user("and honey")])
    await ben.add_items([user("I like tea, too")])
    assert [hit.record.text for hit in await ben.search("tea")] == ["I like tea, too"]
    assert await ben.pop_item() == user("I like tea, too")
    assert await ben.pop_item() is None
    await ben.clear_session()
    assert await ben.get_items() == []
    assert await ben.search("honey") == []
    assert await ada.get_items() == [user("I like tea"), user("and honey")]


async def test_tenants_and_agents_never_meet(store):
    own = {"user_id": "ada", "tenant": "north", "agent_id": "tutor"}
    session = LanceContextSession("monday", store, **own)
    await session.add_items([user("here")])
    for other in ({"tenant": "south"}, {"agent_id": "cook"}, {"user_id": "ben"}):
        assert await LanceContextSession("monday", store, **{**own, **other}).get_items() == []
    assert await LanceContextSession("monday", store, **own).get_items() == [user("here")]


def test_a_user_other_than_that_of_the_scope_is_a_user_error(tmp_path):
    with ContextStore.open(tmp_path) as store, pytest.raises(UserError, match="user_id"):
        LanceContextSession("monday", store.scope(user_id="ben"), user_id="ada")


async def test_the_context_of_a_run_selects_the_owner(store):
    session = LanceContextSession("monday", store, scope_of=lambda run: {"user_id": run.context})
    ada, ben = RunContextWrapper("ada"), RunContextWrapper("ben")
    await session.add_items([user("I am Ada")], wrapper=ada)
    await session.add_items([user("I am Ben")], wrapper=ben)
    assert await session.get_items(wrapper=ada) == [user("I am Ada")]
    assert [hit.record.text for hit in await session.search("Ben", wrapper=ada)] == []
    assert await session.pop_item(wrapper=ben) == user("I am Ben")
    await session.clear_session(wrapper=ben)
    assert await LanceContextSession("monday", store, user_id="ada").get_items() == [
        user("I am Ada")
    ]


async def test_without_a_run_its_owner_is_unknown(store):
    session = LanceContextSession("monday", store, scope_of=lambda run: {"user_id": run.context})
    for refused in (session.get_items(), session.add_items(SIX), session.pop_item()):
        with pytest.raises(UserError, match="wrapper"):
            await refused
    with pytest.raises(UserError, match="user_id"):
        await session.get_items(wrapper=RunContextWrapper(""))


# Search


async def test_a_search_finds_all_sessions_and_memories_of_the_user(store):
    await LanceContextSession("monday", store, user_id="ada").add_items([user("Tea, please")])
    await store.scope(user_id="ada").history.append(
        "cook", Message.user("More tea"), session_id="of another framework"
    )
    await store.memory.add(["Drinks tea without sugar"], user_id="ada")
    later = LanceContextSession("tuesday", store, user_id="ada")
    found = await later.search("tea")
    assert {hit.record.text for hit in found} == {
        *("Tea, please", "More tea", "Drinks tea without sugar")
    }
    (memory,) = await later.search("tea", filter={"kind": "memory"}, limit=5)
    assert memory.record.text == "Drinks tea without sugar"


async def test_a_search_finds_what_tools_said_and_no_json_of_calls(session):
    await session.add_items([user("The weather?"), call(), output("It will rain")])
    assert await session.search("Oslo") == []
    assert await session.search("city") == []
    # Its neighbours may follow it.
    assert (await session.search("rain"))[0].record.text == "It will rain"


async def test_a_bad_search_is_a_user_error(session):
    with pytest.raises(UserError) as raised:
        await session.search("tea", limit=-1)
    assert isinstance(raised.value.__cause__, InvalidRequestError)


# Several at once


async def test_batches_of_one_process_stay_together(session):
    batches = [[user(f"{n} {part}") for part in "abc"] for n in range(20)]
    await asyncio.gather(*(session.add_items(batch) for batch in batches))
    items = await session.get_items()
    read = [items[n : n + 3] for n in range(0, 60, 3)]
    assert sorted(read, key=str) == sorted(batches, key=str)


async def test_each_item_is_popped_once(session):
    await session.add_items([user(f"{n}") for n in range(60)])
    popped = await asyncio.gather(*(session.pop_item() for _ in range(70)))
    assert sorted(int(one["content"]) for one in popped if one) == list(range(60))


async def test_what_was_begun_is_stored_although_nobody_waits_for_it(session):
    adding = asyncio.create_task(session.add_items(SIX))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    await session.add_items([user("after")])
    # All of the batch or nothing of it.
    assert await session.get_items() in ([*SIX, user("after")], [user("after")])


def test_threads_with_loops_of_their_own_share_a_session(store):
    session = LanceContextSession("monday", store)

    def talk(name):
        async def talk_on():
            for n in range(10):
                await session.add_items([user(f"{name} {n}"), assistant(f"{name} {n}")])
                await session.get_items(2)

        asyncio.run(talk_on())

    threads = [threading.Thread(target=talk, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    items = asyncio.run(session.get_items())
    assert len(items) == 40
    for name in "ab":
        said = [one["content"] for one in items if str(one["content"]).startswith(name)]
        assert said == [f"{name} {n}" for n in range(10)]


async def test_a_session_reads_as_it_was_at_a_tag(store):
    session = LanceContextSession("monday", store)
    await session.add_items(SIX[:2])
    await store.tag("before")
    await session.pop_item()
    await session.add_items(SIX[4:])
    then = LanceContextSession("monday", await store.checkout("before"))
    assert await then.get_items() == SIX[:2]
    assert await session.get_items() == [SIX[0], *SIX[4:]]


async def test_erasing_a_user_empties_the_sessions(store):
    session = LanceContextSession("monday", store, user_id="ada")
    await session.add_items(SIX)
    assert len(await session.get_items()) == 6
    await store.scope(user_id="ada").erase()
    assert await session.get_items() == []
    assert await session.search("line") == []


async def test_an_item_that_is_erased_by_its_id_is_in_no_file(tmp_path):
    async with await AsyncContextStore.open(tmp_path) as store:
        session = LanceContextSession("monday", store)
        items = [user("it is a secret"), call(), output(), assistant("Yes.")]
        await session.add_items(items)
        (said, *_) = await store.history.get_messages("", session_id="monday")
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert any(b"it is a secret" in path.read_bytes() for path in files)
        await store.erase(ids=[said.id], sole_writer=True)
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert [path for path in files if b"it is a secret" in path.read_bytes()] == []
        assert await session.get_items() == items[1:]


async def test_a_session_that_nobody_holds_leaves_no_warning(tmp_path):
    session = LanceContextSession("monday", tmp_path)
    await session.add_items(SIX)
    await session.aclose()
    del session
    gc.collect()

"""Configs that a saver returns name the user, so that a run from one is that user's."""

import asyncio

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_lance_context import LanceContextMemoryMiddleware, LanceContextSaver

from lance_context_core import InvalidRequestError


def config(user="ada", thread="t", **more):
    return {"configurable": {"thread_id": thread} | ({"user_id": user} if user else {}), **more}


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def call(request, store):
    """Calls an agent with a memory; of a method its twin, if asynchronous."""
    agent = create_agent(
        FakeListChatModel(responses=["Noted."] * 9),
        middleware=[LanceContextMemoryMiddleware(store)],
        checkpointer=LanceContextSaver(store),
    )

    async def listed(method, *args):
        return [one async for one in getattr(agent, method)(*args)]

    def called(method, *args):
        if not request.param:
            found = getattr(agent, method)(*args)
            return list(found) if method == "get_state_history" else found
        if method == "get_state_history":
            return asyncio.run(listed(f"a{method}", *args))
        return asyncio.run(getattr(agent, f"a{method}")(*args))

    return called


def said(text):
    return {"messages": [("user", text)]}


def turns(store, user, thread="t"):
    kept = store.scope(user_id=user).history.get_messages("", session_id=thread)
    return [one.text for one in kept if one.role == "user"]


def test_the_config_that_update_state_returns_is_run_as_the_same_user(store, call):
    call("invoke", said("I bake."), config())
    returned = call("update_state", config(), said("On Sundays."))
    call("invoke", said("And you?"), returned)
    assert turns(store, "ada") == ["I bake.", "On Sundays.", "And you?"]


def test_update_state_of_a_thread_alone_knows_whose_it_was(store, call):
    call("invoke", said("I bake."), config())
    returned = call("update_state", config(user=None), said("On Sundays."))
    call("invoke", said("And you?"), returned)
    assert "And you?" in turns(store, "ada")


def test_each_config_of_the_past_of_a_thread_can_be_run(store, call):
    call("invoke", said("I bake."), config())
    for number, state in enumerate(call("get_state_history", config(user=None))):
        for one in (state.config, state.parent_config):
            if one is not None:
                call("invoke", said(f"Again, {number}"), one)
    assert len(turns(store, "ada")) > 3


def test_a_user_who_is_named_is_the_one_whatever_the_thread_had(store, call):
    call("invoke", said("I bake."), config())
    call("invoke", said("I fish."), config("ben"))
    assert call("get_state", config("cleo")).config["configurable"]["user_id"] == "cleo"
    call("invoke", said("I sing."), call("update_state", config("cleo"), said("Hm.")))
    assert (turns(store, "ada"), turns(store, "ben")) == (["I bake."], ["I fish."])
    assert turns(store, "cleo")[-1] == "I sing."


def test_the_user_of_a_tracer_is_not_whose_memories_are_recalled(store, call):
    call("invoke", said("I bake."), config(metadata={"user_id": "account 7"}))
    state = call("get_state", config(user=None))
    assert state.metadata["user_id"] == "account 7"
    assert state.config["configurable"]["user_id"] == "ada"


def test_a_thread_without_a_user_has_none(store):
    saver = LanceContextSaver(store)
    agent = create_agent(FakeListChatModel(responses=["Noted."] * 9), checkpointer=saver)
    agent.invoke(said("Hello"), config(user=None))
    returned = agent.update_state(config(user=None), said("Hm."))
    assert set(returned["configurable"]) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    remembering = create_agent(
        FakeListChatModel(responses=["Noted."]),
        middleware=[LanceContextMemoryMiddleware(store)],
        checkpointer=saver,
    )
    with pytest.raises(InvalidRequestError, match="user_id"):
        remembering.invoke(said("Hello"), returned)

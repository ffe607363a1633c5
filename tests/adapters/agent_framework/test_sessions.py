"""Snapshots of sessions, which are copies, and which another process reads."""

import math

import pytest
from adapters.agent_framework.samples import EVERYTHING, agent_with, forms, user
from agent_framework import AgentSession, InMemoryHistoryProvider, SessionStore, register_state_type
from agent_framework_lance_context import LanceHistoryProvider, LanceSessionStore


class Cart:
    """A state of an application."""

    def __init__(self, items):
        self.items = items

    def to_dict(self):
        return {"items": self.items}

    @classmethod
    def from_dict(cls, given):
        return cls(given["items"])


register_state_type(Cart, type_id="tests.agent_framework.cart")


@pytest.fixture
def sessions(store):
    return LanceSessionStore(store)


async def test_a_session_comes_back_as_it_was_and_is_a_copy(sessions, store):
    session = AgentSession(session_id="1", service_session_id={"conversation": "x"})
    session.state.update(
        messages=EVERYTHING, cart=Cart(["tea"]), odd=[math.nan, math.inf, "\ud800", "a\0b", None]
    )
    await sessions.set("1", session)
    session.state["cart"].items.append("later")
    for found in (await sessions.get("1"), await LanceSessionStore(store).get("1")):
        assert (found.session_id, found.service_session_id) == ("1", {"conversation": "x"})
        assert forms(found.state["messages"]) == forms(EVERYTHING)
        assert found.state["cart"].items == ["tea"]
        assert math.isnan(found.state["odd"][0])
        assert found.state["odd"][1:] == [math.inf, "\ud800", "a\0b", None]
        found.state.clear()


async def test_the_last_snapshot_counts_and_a_deleted_one_is_gone(sessions):
    assert isinstance(sessions, SessionStore)
    assert await sessions.get("1") is None
    for id in ("first", "second"):
        await sessions.set("1", AgentSession(session_id=id))
    assert (await sessions.get("1")).session_id == "second"
    for _ in range(2):
        await sessions.delete("1")
        assert await sessions.get("1") is None


@pytest.mark.parametrize("provider", [InMemoryHistoryProvider, LanceHistoryProvider])
async def test_an_agent_goes_on_with_a_session_that_was_stored(sessions, store, provider):
    made = provider(store) if provider is LanceHistoryProvider else provider()
    agent, client = agent_with(made)
    session = agent.create_session(session_id="1")
    await agent.run("Hi.", session=session)
    await sessions.set("1", session)
    await agent.run("Still there?", session=await sessions.get("1"))
    assert client.last_given == [("user", "Hi."), ("assistant", "Yes."), ("user", "Still there?")]


async def test_messages_of_a_history_are_not_in_the_snapshot(sessions, history):
    agent, _ = agent_with(history)
    session = agent.create_session(session_id="1")
    await agent.run("Hi.", session=session)
    await sessions.set("1", session)
    assert (await sessions.get("1")).state == {history.source_id: {}}
    await sessions.delete("1")
    assert len(await history.get_messages("1")) == 2


async def test_what_cannot_be_restored_is_refused_and_the_old_snapshot_stays(sessions):
    class Sub(AgentSession):
        pass

    await sessions.set("1", AgentSession(session_id="old"))
    odd = AgentSession(session_id="odd")
    odd.state["x"] = object()
    with (
        pytest.warns(RuntimeWarning, match=r"state\.x"),
        pytest.raises(TypeError, match=r"'odd' cannot be stored: .*register_state_type"),
    ):
        await sessions.set("1", odd)
    deep = AgentSession(session_id="deep")
    deep.state["x"] = deep.state
    with pytest.raises(ValueError, match="'deep' cannot be stored"):
        await sessions.set("1", deep)
    for wrong in (Sub(), {"session_id": "1"}, None, user("Hi.")):
        with pytest.raises(TypeError, match="give an AgentSession"):
            await sessions.set("1", wrong)
    assert (await sessions.get("1")).session_id == "old"

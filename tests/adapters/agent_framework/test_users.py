"""Users of one place are apart, and what is erased of one is gone from everywhere."""

import pytest
from adapters.agent_framework.samples import agent_with, model, said, user
from agent_framework import AgentSession, SessionContext, WorkflowCheckpoint
from agent_framework.exceptions import IntegrationInvalidRequestException
from agent_framework_lance_context import (
    LanceCheckpointStorage,
    LanceContextProvider,
    LanceHistoryProvider,
    LanceSessionStore,
)

from lance_context_core import AsyncContextStore


class Of:
    """All that one user has, with the same ids as everybody."""

    def __init__(self, store, **owner):
        self.history = LanceHistoryProvider(store, **owner)
        self.recall = LanceContextProvider(store, **owner)
        self.sessions = LanceSessionStore(store, **owner)
        self.checkpoints = LanceCheckpointStorage(store, **owner)

    async def live(self, name):
        await self.history.save_messages("1", [user(f"tea of {name}"), model("Fine.")])
        agent, _ = agent_with(self.recall)
        await agent.run(f"cake of {name}", session=agent.create_session(session_id="2"))
        session = AgentSession(session_id="1")
        session.state["owner"] = name
        await self.sessions.set("1", session)
        await self.checkpoints.save(
            WorkflowCheckpoint("flow", "hash", checkpoint_id="c", state={"owner": name})
        )

    async def has(self):
        """What is there, as texts."""
        session = await self.sessions.get("1")
        latest = await self.checkpoints.get_latest(workflow_name="flow")
        context = SessionContext(session_id="3", input_messages=[user("tea or cake?")])
        await self.recall.before_run(agent=None, session=None, context=context, state={})
        return {
            "history": [text for _, text in said(await self.history.get_messages("1"))],
            "recalled": {line for one in context.get_messages() for line in _lines(one)},
            "session": session and session.state["owner"],
            "checkpoint": latest and latest.state["owner"],
            "ids": await self.checkpoints.list_checkpoint_ids(workflow_name="flow"),
        }


NOTHING = {"history": [], "recalled": set(), "session": None, "checkpoint": None, "ids": []}


def _lines(message):
    return [line.rpartition(": ")[2] for line in message.text.splitlines() if line[:2] == "- "]


def all_of(name):
    return {
        "history": [f"tea of {name}", "Fine."],
        # A message next to one that matches is recalled with it.
        "recalled": {f"tea of {name}", "Fine.", f"cake of {name}"},
        "session": name,
        "checkpoint": name,
        "ids": ["c"],
    }


@pytest.mark.parametrize("owner", ["user_id", "tenant"])
async def test_two_owners_with_the_same_ids_do_not_see_each_other(store, owner):
    ada, ben = (Of(store, **{owner: name}) for name in ("ada", "ben"))
    await ada.live("ada")
    assert await ben.has() == NOTHING
    await ben.live("ben")
    assert await ada.has() == all_of("ada")
    assert await ben.has() == all_of("ben")
    await ben.history.clear("1")
    await ben.sessions.delete("1")
    assert await ben.checkpoints.delete("c")
    assert await ada.has() == all_of("ada")


async def test_a_scope_of_the_store_is_as_good_as_a_user(store):
    await Of(store.scope(user_id="ada")).live("ada")
    assert await Of(store, user_id="ada").has() == all_of("ada")
    with pytest.raises(IntegrationInvalidRequestException, match="user_id='ben' lies outside"):
        LanceHistoryProvider(store.scope(user_id="ada"), user_id="ben")


async def test_an_erased_user_has_nothing_any_more_also_on_disk(tmp_path):
    async with AsyncContextStore.open(tmp_path / "memory") as store:
        for name in ("ada", "ben"):
            await Of(store, user_id=name).live(name)
        await store.tag("before")
        await store.scope(user_id="ada").erase()
        assert await Of(store, user_id="ada").has() == NOTHING
        assert await Of(store, user_id="ben").has() == all_of("ben")
        past = await store.checkout("before")
        assert await Of(past, user_id="ada").history.get_messages("1") == []
    contents = [one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()]
    assert not [one for one in contents if b"of ada" in one]
    assert [one for one in contents if b"of ben" in one]

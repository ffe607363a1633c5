"""AgentScope's Runner keeps history and memory over restarts."""

import asyncio

from adapters.agentscope.samples import said, texts
from agentscope_runtime.engine.agents.base_agent import Agent
from agentscope_runtime.engine.runner import Runner
from agentscope_runtime.engine.schemas.agent_schemas import AgentRequest
from agentscope_runtime.engine.services.context_manager import ContextManager

from lance_context_core import AsyncContextStore


class Echo(Agent):
    """Says how many messages it was given, or nothing at all."""

    def __init__(self, *, is_silent=False):
        super().__init__(name="echo")
        self.is_silent = is_silent
        self.given = None

    async def run_async(self, context, **_):
        self.given = texts(context.session.messages)
        if not self.is_silent:
            yield said(f"{len(self.given)} so far", "assistant", status="completed")


def turn(restarts, text, *, user_id="ada", session_id="monday", is_silent=False):
    """What an agent was given in a turn of a process of its own."""
    agent = Echo(is_silent=is_silent)
    request = AgentRequest(input=[said(text)], session_id=session_id)

    async def main():
        async with await AsyncContextStore.open(restarts.where) as store:
            services = type(restarts)(store)
            manager = ContextManager(
                session_history_service=services.history(), memory_service=services.memory()
            )
            async with Runner(agent=agent, context_manager=manager) as runner:
                events = [one async for one in runner.stream_query(request, user_id=user_id)]
            return events[-1].status

    assert asyncio.run(main()) == "completed"
    return agent.given


def test_a_runner_remembers_what_was_said_before_a_restart(restarts):
    assert turn(restarts, "I like tea") == ["I like tea"]
    # What memory finds comes first, then the history.
    assert turn(restarts, "which tea") == ["I like tea", "I like tea", "1 so far", "which tea"]
    assert turn(restarts, "any tea", session_id="tuesday") == [
        "I like tea",
        "which tea",
        "any tea",
    ]


def test_a_runner_needs_no_user_and_an_agent_need_not_answer(restarts):
    assert turn(restarts, "hello", user_id=None, is_silent=True) == ["hello"]
    # Up to 0.1.6 it is somebody else each time that comes without a user, from 0.2.0 on nobody.
    assert turn(restarts, "again", user_id=None) in (["again"], ["hello", "again"])
    assert turn(restarts, "hello") == ["hello"]

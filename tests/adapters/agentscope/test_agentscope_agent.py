"""An agent of AgentScope whose memories and state are kept by the services, over restarts."""

import asyncio

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock, ThinkingBlock, ToolUseBlock
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.tool import Toolkit, ToolResponse
from agentscope_lance_context import (
    LanceContextMemoryService,
    LanceContextSessionHistoryService,
    LanceContextStateService,
)
from agentscope_lance_context._messages import first_text
from agentscope_runtime.adapters.agentscope.long_term_memory import AgentScopeLongTermMemory
from agentscope_runtime.adapters.agentscope.memory import AgentScopeSessionHistoryMemory

from lance_context_core import AsyncContextStore


class Script(ChatModelBase):
    """Looks something up before it answers the first time, and keeps what it was asked."""

    def __init__(self):
        super().__init__("script", stream=False)
        self.asked = []

    async def __call__(self, messages, *_, **__):
        self.asked.append(messages)
        if messages[-1]["role"] == "user" and "look" in str(messages[-1]["content"]):
            thought = ThinkingBlock(type="thinking", thinking="I shall look")
            call = ToolUseBlock(type="tool_use", id="c1", name="look", input={"what": "tea"})
            return ChatResponse(content=[thought, call])
        return ChatResponse(content=[TextBlock(type="text", text=f"answer {len(messages)}")])


async def look(what: str) -> ToolResponse:
    """Look something up.

    Args:
        what: What to look up.
    """
    return ToolResponse(content=[TextBlock(type="text", text=f"two cups of {what}")])


class Cook(ReActAgent):
    """An agent with a state of its own."""

    def __init__(self, **options):
        super().__init__(**options)
        self.n_turns = 0
        self.register_state("n_turns")

    async def reply(self, *args, **kwargs):
        self.n_turns += 1
        return await super().reply(*args, **kwargs)


def turn(restarts, text, session_id):
    """What the model was asked in a turn of a process of its own, and how many turns there were."""

    async def main():
        async with await AsyncContextStore.open(restarts.where) as store:
            history = LanceContextSessionHistoryService(store)
            memories = LanceContextMemoryService(store, deduplicate=True)
            states = LanceContextStateService(store)
            toolkit = Toolkit()
            toolkit.register_tool_function(look)
            model = Script()
            agent = Cook(
                name="Cook",
                sys_prompt="You are a cook.",
                model=model,
                formatter=OpenAIChatFormatter(),
                toolkit=toolkit,
                memory=AgentScopeSessionHistoryMemory(history, "ada", session_id),
                long_term_memory=AgentScopeLongTermMemory(memories, "ada", session_id),
                long_term_memory_mode="static_control",
            )
            agent.set_console_output_enabled(enabled=False)
            state = await states.export_state("ada", session_id=session_id)
            if state is not None:
                agent.load_state_dict(state)
            await agent(Msg("Ada", text, "user"))
            await states.save_state("ada", agent.state_dict(), session_id=session_id)
            remembered = await memories.list_memory("ada", {"page_size": 100})
            return model.asked, agent.n_turns, [first_text(one) for one in remembered]

    return asyncio.run(main())


def roles(messages):
    return [one["role"] for one in messages]


def test_an_agent_goes_on_after_a_restart_with_its_memories_and_its_state(restarts):
    asked, n_turns, _ = turn(restarts, "Please look for tea", "monday")
    assert (roles(asked[-1]), n_turns) == (["system", "user", "assistant", "tool"], 1)

    asked, n_turns, remembered = turn(restarts, "Thank you", "monday")
    first = ["system", "user", "assistant", "tool", "assistant"]
    assert roles(asked[0])[: len(first)] == first
    assert "two cups of tea" in str(asked[0])
    assert n_turns == 2
    # It records its whole memory at the end of each turn, and what it was told a second time.
    assert remembered.count("Please look for tea") == 1

    asked, n_turns, _ = turn(restarts, "Any tea", "tuesday")
    assert "Please look for tea" in str(asked[0])
    assert n_turns == 1

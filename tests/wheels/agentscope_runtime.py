"""What the adapter for AgentScope does where its wheel is installed with the extra `context`."""

import asyncio

from agentscope_lance_context import LanceContextMemoryService, LanceContextSessionHistoryService
from agentscope_runtime.engine.schemas.agent_schemas import Message, TextContent
from agentscope_runtime.engine.services.context_manager import create_context_manager


async def turn(said: str) -> list[str]:
    """What is composed of a turn in services that were made for it."""
    async with create_context_manager(
        session_history_service=LanceContextSessionHistoryService("memory"),
        memory_service=LanceContextMemoryService("memory"),
    ) as manager:
        session = await manager.compose_session(user_id="ada", session_id="monday")
        message = Message(role="user", content=[TextContent(text=said)])
        await manager.compose_context(session, request_input=[message])
        return [one.content[0].text for one in session.messages]


assert asyncio.run(turn("I like tea")) == ["I like tea"]
found = asyncio.run(turn("Which tea"))
assert found == ["I like tea", "I like tea", "Which tea"], found

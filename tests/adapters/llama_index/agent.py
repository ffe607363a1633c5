"""An agent whose model follows a script; `agent.py URI` runs it in a process of its own.

There it is told something, writes something down with a tool, and is told to wait. It says
`waiting` while its tool runs, and never comes back.
"""

import asyncio
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index_lance_context import LanceContextMemory


class ScriptedModel(FunctionCallingLLM):
    """Calls the tool that the user names, `tool: argument`, and else answers with the question."""

    @property
    def metadata(self):
        return LLMMetadata(is_function_calling_model=True)

    def _prepare_chat_with_tools(self, tools, **kwargs):
        return {"messages": kwargs["chat_history"]}

    def get_tool_calls_from_response(self, response, **_):
        return [
            ToolSelection(
                tool_id=one.tool_call_id, tool_name=one.tool_name, tool_kwargs=one.tool_kwargs
            )
            for one in response.message.blocks
            if isinstance(one, ToolCallBlock)
        ]

    async def achat(self, messages, **_):
        last = messages[-1]
        tool, colon, argument = (last.content or "").partition(": ")
        if last.role == "user" and colon and tool in ("note", "wait"):
            call = ToolCallBlock(
                tool_call_id=f"call {len(messages)}", tool_name=tool, tool_kwargs={"text": argument}
            )
            return ChatResponse(message=ChatMessage(role="assistant", blocks=[call]))
        said = f"I have heard: {last.content}"
        return ChatResponse(message=ChatMessage(role="assistant", blocks=[TextBlock(text=said)]))

    async def _unused(self, *_, **__):
        raise NotImplementedError

    chat = complete = stream_chat = stream_complete = _unused
    acomplete = astream_chat = astream_complete = _unused


def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


async def wait(text: str) -> str:
    """Wait for something that never comes."""
    print("waiting", flush=True)  # noqa: T201 - a program, not a test
    await asyncio.sleep(600)
    return text


def agent():
    return FunctionAgent(llm=ScriptedModel(), tools=[note, wait], streaming=False)


async def main(uri):
    async with LanceContextMemory(uri, session_id="s") as memory:
        await agent().run(user_msg="my cat is called Ada", memory=memory)
        await agent().run(user_msg="note: swordfish", memory=memory)
        await agent().run(user_msg="wait: for it", memory=memory)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

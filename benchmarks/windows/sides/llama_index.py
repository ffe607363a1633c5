"""LlamaIndex: its memory, which puts away the oldest messages once they are too many."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory

from benchmarks.windows.session import Said, Told, asked, is_call


async def main(budget: int, path: Path) -> None:
    """Print the window of each call of the model, and of one after the last message."""
    told, said = Told(), asked(path)
    memory = Memory.from_defaults(session_id="s", token_limit=budget)
    for index in range(len(said) + 1):
        if index == len(said) or is_call(said, index):
            told.window([_said(one) for one in await memory.aget()])
        if index < len(said):
            await memory.aput(_message(said[index]))
    told.end()


def _message(one: Said) -> ChatMessage:
    more = {name: one[name] for name in ("tool_calls", "tool_call_id") if name in one}
    return ChatMessage(role=one["role"], content=one["content"], additional_kwargs=more)


def _said(one: Any) -> Said:
    return {"role": one.role.value, "content": one.content or "", **one.additional_kwargs}


asyncio.run(main(int(sys.argv[2]), Path(sys.argv[3])))

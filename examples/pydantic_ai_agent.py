"""An agent that is killed in the middle of a conversation, and goes on as if it had not been.

    python examples/pydantic_ai_agent.py [--store DIR]

It is Pydantic AI's `Agent` with a conversation store and a memory, both in one directory. Its model
is a script of a few lines, so that it runs anywhere; put a real one in its place.

    pip install . ./adapters/pydantic_ai
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_lance_context import LanceConversationStore, LanceRecall

from lance_context_core import AsyncContextStore, ContextStoreError

UNDER_WAY = "… and the power fails while it thinks"


def main() -> int:
    """Let one process work until it is killed, and go on in this one; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep the memory in DIR")
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agent-") as scratch:
        directory = arguments.store or Path(scratch) / "memory"
        try:
            if not arguments.first and (code := _run_the_first(directory)):
                return code
            asyncio.run(monday(directory) if arguments.first else afterwards(directory))
        except ContextStoreError as error:
            print(f"pydantic_ai_agent: {error}", file=sys.stderr)
            return 1
    if not arguments.first:
        kept = f"in {arguments.store}" if arguments.store else "gone; keep it with --store DIR"
        print(f"\nThe memory is {kept}.")
    return 0


# The agent


def script(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """The model: it knows what the messages say, and asks the memory for the rest."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return _said(f"I was told: {last.model_response_str()}")
    said = str(last.content) if isinstance(last, UserPromptPart) else ""
    if said == "Wait for me.":
        _say("", UNDER_WAY)
        time.sleep(60)
    if said == "How often did I speak to you?":
        asked = [part for one in messages for part in one.parts if isinstance(part, UserPromptPart)]
        return _said(f"{len(asked)} times, with this one.")
    if said.endswith("?"):
        return ModelResponse(parts=[ToolCallPart("recall", {"query": said})])
    return ModelResponse(parts=[ToolCallPart("remember", {"fact": said})])


class Tutor:
    """The agent, and its conversations with Ada."""

    def __init__(self, store: AsyncContextStore) -> None:
        self._conversations = LanceConversationStore(store, user_id="ada")
        recall: LanceRecall[None] = LanceRecall(store, user_id="ada", limit=1)
        self._agent = Agent(FunctionModel(script), capabilities=[recall])

    async def talk(self, id: str, said: str) -> None:
        """One turn of a conversation: load it, run the agent, save it."""
        _say("ada", said)
        conversation = await self._conversations.load(id) or Conversation(conversation_id=id)
        result = await self._agent.run(said, conversation=conversation)
        await self._conversations.save(result)
        _say("tutor", result.output)

    async def what_if(self, id: str, fork: str, *, at: int) -> None:
        """Fork a conversation after its first messages."""
        forked = await self._conversations.fork(id, at=at, new_conversation_id=fork)
        _say("", f"{fork!r} has the first {len(forked.messages)} messages of {id!r}.")


# The conversation


async def monday(directory: Path) -> None:
    """There is talk, and a power cut."""
    _heading(f"1  Monday, in process {os.getpid()}")
    async with AsyncContextStore.open(directory) as store:
        tutor = Tutor(store)
        await tutor.talk("monday", "I am allergic to nuts.")
        await tutor.talk("monday", "I prefer trains to planes.")
        await tutor.talk("monday", "Wait for me.")


async def afterwards(directory: Path) -> None:
    """Another process goes on, and another conversation knows of the first."""
    async with AsyncContextStore.open(directory) as store:
        tutor = Tutor(store)
        _heading(f"2  The same conversation, in process {os.getpid()}")
        await tutor.talk("monday", "How often did I speak to you?")
        _heading("3  Another conversation")
        await tutor.talk("tuesday", "Am I allergic to nuts?")
        _heading("4  What if")
        await tutor.what_if("monday", "monday by plane", at=4)
        await tutor.talk("monday by plane", "How often did I speak to you?")
        _heading("5  What every framework finds")
        ada = store.scope(user_id="ada")
        for session in sorted(await ada.history.session_ids("pydantic-ai")):
            n = await ada.history.count("pydantic-ai", session_id=session)
            _say("", f"{n} messages in the session {session!r}")
        (hit, *_) = await ada.memory.search("trains")
        _say("", f"a memory: {hit.record.text}")


# How it is run and shown


def _run_the_first(directory: Path) -> int:
    """Run Monday, and kill it in the middle; returns the exit code if it ends before."""
    command = [sys.executable, __file__, "--store", str(directory), "--first"]
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, env=environment, stdout=subprocess.PIPE, encoding="utf-8"
    ) as child:
        for line in child.stdout or ():
            print(line, end="", flush=True)
            if UNDER_WAY in line:
                child.kill()
                child.wait()
                _say("", f"Process {child.pid} was killed, and with it all that it knew.")
                return 0
    return child.returncode or 1


def _said(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def _heading(title: str) -> None:
    print(f"\n{title}\n")


def _say(who: str, text: str) -> None:
    print(f"   {who:<8} {text}" if who else f"   {text}")


if __name__ == "__main__":
    sys.exit(main())

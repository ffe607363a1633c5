"""An agent and a workflow that are killed, and go on in another process as if they had not been.

    python examples/agent_framework_agent.py [--store DIR]

It is an agent of Microsoft Agent Framework with its history, its memory and its checkpoints in one
directory. Its model is a script of a few lines, so that it runs anywhere; put a real one in its place.

    pip install . ./adapters/agent_framework
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Executor,
    FunctionInvocationLayer,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
)
from agent_framework_lance_context import (
    LanceCheckpointStorage,
    LanceContextProvider,
    LanceHistoryProvider,
)

from lance_context_core import AsyncContextStore, ContextStoreError

UNDER_WAY = "… and the power fails while the second letter is written"
LETTERS = ["Ben", "Eve", "Zoe"]


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
            print(f"agent_framework_agent: {error}", file=sys.stderr)
            return 1
    if not arguments.first:
        kept = f"in {arguments.store}" if arguments.store else "gone; keep it with --store DIR"
        print(f"\nThe memory is {kept}.")
    return 0


# The agent


class Script(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """The model: it knows what the messages say."""

    def _inner_get_response(
        self, *, messages: Sequence[Message], **_: Any
    ) -> Awaitable[ChatResponse]:
        async def respond() -> ChatResponse:
            return ChatResponse(messages=Message("assistant", [_answer(messages)]))

        return respond()


def _answer(messages: Sequence[Message]) -> str:
    *before, last = [one.text for one in messages]
    if last == "How often did I speak to you?":
        n = sum(one.role == "user" and "Memories" not in one.text for one in messages)
        return f"{n} times, with this one."
    if last.endswith("?"):
        lines = [line for text in before for line in text.splitlines() if "allergic" in line]
        return f"I know this: {lines[-1].removeprefix('- ')}" if lines else "I do not know."
    return "I will remember that."


class Tutor:
    """The agent, and its conversations with Ada."""

    def __init__(self, store: AsyncContextStore) -> None:
        history = LanceHistoryProvider(store, user_id="ada")
        recall = LanceContextProvider(store, user_id="ada", limit=2, remember=False)
        self._agent = Agent(Script(), context_providers=[history, recall])

    async def talk(self, session_id: str, said: str) -> None:
        """One turn of a session."""
        _say("ada", said)
        session = self._agent.create_session(session_id=session_id)
        _say("tutor", (await self._agent.run(said, session=session)).text)


# The workflow


class Writer(Executor):
    """Writes one letter after the other; each is a step, and a checkpoint."""

    @handler
    async def write(self, names: list[str], context: WorkflowContext[list[str], str]) -> None:
        """Write the first letter, and send the other names on."""
        first, *others = names
        if first == LETTERS[1] and os.environ.get("POWER_FAILS"):
            _say("", UNDER_WAY)
            await asyncio.sleep(60)
        _say("writer", f"Dear {first}, …")
        if others:
            await context.send_message(others)
        else:
            await context.yield_output("All letters are written.")


def letters(storage: LanceCheckpointStorage) -> Workflow:
    """The workflow, in which a writer hands over to the other one."""
    one, other = Writer(id="one"), Writer(id="other")
    builder = WorkflowBuilder(name="letters", start_executor=one, checkpoint_storage=storage)
    return builder.add_edge(one, other).add_edge(other, one).build()


# What happens


async def monday(directory: Path) -> None:
    """There is talk, and work, and a power cut."""
    _heading(f"1  Monday, in process {os.getpid()}")
    async with AsyncContextStore.open(directory) as store:
        tutor = Tutor(store)
        await tutor.talk("monday", "I am allergic to nuts.")
        await tutor.talk("monday", "I prefer trains to planes.")
        await letters(LanceCheckpointStorage(store, user_id="ada")).run(LETTERS)


async def afterwards(directory: Path) -> None:
    """Another process goes on, and another session knows of the first."""
    async with AsyncContextStore.open(directory) as store:
        tutor, storage = Tutor(store), LanceCheckpointStorage(store, user_id="ada")
        _heading(f"2  The workflow goes on in process {os.getpid()}")
        latest = await storage.get_latest(workflow_name="letters")
        if latest is not None:
            result = await letters(storage).run(checkpoint_id=latest.checkpoint_id)
            _say("", str(result.get_outputs()[0]))
        _heading("3  The same session")
        await tutor.talk("monday", "How often did I speak to you?")
        _heading("4  Another session")
        await tutor.talk("tuesday", "Am I allergic to nuts?")
        _heading("5  What every framework finds")
        ada = store.scope(user_id="ada")
        for session in sorted(await ada.history.session_ids("")):
            n = await ada.history.count("", session_id=session)
            _say("", f"{n} messages in the session {session!r}")


# How it is run and shown


def _run_the_first(directory: Path) -> int:
    """Run Monday, and kill it in the middle; returns the exit code if it ends before."""
    command = [sys.executable, __file__, "--store", str(directory), "--first"]
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1", "POWER_FAILS": "1"}
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


def _heading(title: str) -> None:
    print(f"\n{title}\n")


def _say(who: str, text: str) -> None:
    print(f"   {who:<8} {text}" if who else f"   {text}")


if __name__ == "__main__":
    sys.exit(main())

"""An agent that is killed in the middle of a run, and goes on in another process with its conversation.

    python examples/openai_agents_agent.py [--store DIR]

It is an agent of the OpenAI Agents SDK whose sessions are in one directory. Its model is a script of a few
lines, so that it runs anywhere; put a real one in its place.

    pip install . ./adapters/openai_agents
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai_agents_lance_context import LanceSession

from lance_context_core import AsyncContextStore, ContextStoreError, Item

UNDER_WAY = "… and the power fails while the second letter is written"
LETTERS = ("Ada", "Ben", "Eve")


def main() -> int:
    """Let one process work until it is killed, and go on in this one; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep the memory in DIR")
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    set_tracing_disabled(disabled=True)
    with tempfile.TemporaryDirectory(prefix="agent-") as scratch:
        directory = arguments.store or Path(scratch) / "memory"
        try:
            if arguments.first:
                asyncio.run(monday(directory))
                return 0
            if code := _run_the_first(directory):
                return code
            asyncio.run(after_the_kill(directory))
        except ContextStoreError as error:
            print(f"openai_agents_agent: {error}", file=sys.stderr)
            return 1
    kept = f"in {arguments.store}" if arguments.store else "gone; keep it with --store DIR"
    print(f"\nThe memory is {kept}.")
    return 0


# The agent


def next_line(call: Any) -> list[Any]:
    """The script, which knows the conversation that it is given and nothing else."""
    last = call.input[-1]
    if last.get("type") == "function_call_output":
        return [assistant_message(_told(last["output"]))]
    text = last["content"]
    if text.startswith("Write"):
        return [function_call("write", {"names": [*LETTERS]}, call_id=f"call_{len(call.input)}")]
    if text.endswith("?"):
        return [function_call("recall", {"query": "signature"}, call_id="call_recall")]
    return [assistant_message("I will remember that.")]


def _told(output: str) -> str:
    """What the model makes of the output of a tool."""
    try:
        found = json.loads(output)
    except ValueError:
        return output
    return f"You told me on {found[0]['session']}: {found[0]['text']}"


class Clerk:
    """The agent, and what it can do."""

    def __init__(self, store: AsyncContextStore, session_id: str, *, has_power_cut: bool) -> None:
        """In a power cut the process ends while it writes the second letter."""
        self._store = store
        self.session = LanceSession(session_id, store, user_id="ada")
        self._has_power_cut = has_power_cut
        self._agent = Agent(
            name="clerk",
            instructions="Be brief.",
            model=ScriptedModel([ModelStep.respond(next_line)] * 9),
            tools=[function_tool(self.write), self.session.recall_tool()],
        )

    async def write(self, names: list[str]) -> str:
        """Write letters.

        Args:
            names: To whom.
        """
        letters = self._store.kv("letters")
        for number, name in enumerate(names):
            if number and self._has_power_cut:
                _say("clerk", UNDER_WAY)
                await asyncio.sleep(60)
            if await letters.get([(("sent",), name)]) == [None]:
                _say("clerk", f"writes to {name}")
                letter = Item(namespace=("sent",), key=name, value={"text": f"Dear {name}"})
                await letters.put([letter])
        return "Letters are sent to all of them."

    async def talk(self, text: str) -> None:
        """Say something, and show what comes of it."""
        _say("ada", text)
        result = await Runner.run(self._agent, text, session=self.session)
        _say("agent", str(result.final_output))


# The conversation


async def monday(directory: Path) -> None:
    """Ada tells how she signs, and lets letters be written: the power fails."""
    _heading(f"1  Monday, in process {os.getpid()}")
    async with AsyncContextStore.open(directory) as store:
        clerk = Clerk(store, "monday", has_power_cut=True)
        await clerk.talk("My signature is: Countess Lovelace.")
        await clerk.talk("Write to Ada, Ben and Eve.")


async def after_the_kill(directory: Path) -> None:
    """Another process goes on with the conversation, and another day knows of it."""
    _heading(f"2  Monday goes on, in process {os.getpid()}")
    async with AsyncContextStore.open(directory) as store:
        clerk = Clerk(store, "monday", has_power_cut=False)
        items: list[Any] = [*await clerk.session.get_items()]
        _say("", f"{len(items)} items are there; unanswered: {items[-1].get('content')!r}")
        await clerk.talk("Write the rest.")

        _heading("3  Tuesday: another conversation")
        await Clerk(store, "tuesday", has_power_cut=False).talk("How do I sign?")

        _heading("4  What is in the directory")
        for session in await store.scope(user_id="ada").sessions.list():
            n = await store.history.count("", session_id=session.id)
            _say(session.id, f"{n} items")
        hits = await clerk.session.search("Countess", limit=1)
        _say("search", f"'Countess' finds {hits[0].record.text!r}")


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


def _heading(title: str) -> None:
    print(f"\n{title}\n")


def _say(who: str, text: str) -> None:
    label = f"   {who:<13}" if who else "   "
    print(textwrap.fill(text, 88, initial_indent=label, subsequent_indent=" " * len(label)))


if __name__ == "__main__":
    sys.exit(main())

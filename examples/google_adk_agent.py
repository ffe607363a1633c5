"""An agent that is killed in the middle of a run, and goes on as if it had not been.

    python examples/google_adk_agent.py [--store DIR]

It is ADK's `LlmAgent` with a session service, a memory service and an artifact service, all in one
directory. Its model is a script of a few lines, so that it runs anywhere; put a real one in its
place, such as `model="gemini-flash-latest"`.

    pip install . ./adapters/google_adk
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from google_adk_lance_context import (
    LanceArtifactService,
    LanceMemoryService,
    LanceSessionService,
)

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
            print(f"google_adk_agent: {error}", file=sys.stderr)
            return 1
    if not arguments.first:
        kept = f"in {arguments.store}" if arguments.store else "gone; keep it with --store DIR"
        print(f"\nThe memory is {kept}.")
    return 0


# The agent


async def note(text: str, tool_context: ToolContext) -> str:
    """Note what the user said, in a file and in the state of the user."""
    n_notes = tool_context.state.get("user:notes", 0) + 1
    tool_context.state["user:notes"] = n_notes
    tool_context.state["temp:text"] = text  # for this run alone
    version = await tool_context.save_artifact("user:notes.txt", types.Part(text=text))
    return f"note {n_notes}, version {version} of the file"


class Script(BaseLlm):
    """The model: it knows what the contents say, and asks tools for the rest."""

    model: str = "script"

    async def generate_content_async(
        self, llm_request: LlmRequest, *_: object, **__: object
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer the last content."""
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=1, candidates_token_count=1
        )
        parts = [self._answer(llm_request)]
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)

    def _answer(self, request: LlmRequest) -> types.Part:
        last = (request.contents[-1].parts or [types.Part()])[-1]
        if last.function_response is not None:
            return types.Part(text=f"I was told: {_told(last.function_response)}")
        said = last.text or ""
        if said == "Wait for me.":
            _say("", UNDER_WAY)
            time.sleep(60)
        if said == "How often did I speak to you?":
            asked = [one for one in request.contents if one.role == "user" and _is_said(one)]
            return types.Part(text=f"{len(asked)} times, with this one.")
        if said.endswith("?"):
            return types.Part.from_function_call(name="load_memory", args={"query": said})
        return types.Part.from_function_call(name="note", args={"text": said})


class Tutor:
    """The agent, and its conversations with Ada."""

    def __init__(self, store: AsyncContextStore) -> None:
        self.sessions = LanceSessionService(store)
        self.memories = LanceMemoryService(store, limit=1)
        self.artifacts = LanceArtifactService(store)
        self._runner = Runner(
            app_name="tutor",
            agent=LlmAgent(name="tutor", model=Script(), tools=[note, load_memory_tool]),
            session_service=self.sessions,
            memory_service=self.memories,
            artifact_service=self.artifacts,
            auto_create_session=True,
        )

    async def talk(self, session_id: str, said: str) -> None:
        """One run of the agent: each of its events is stored as it comes."""
        _say("ada", said)
        message = types.Content(role="user", parts=[types.Part(text=said)])
        async for event in self._runner.run_async(
            user_id="ada", session_id=session_id, new_message=message
        ):
            for part in (event.content and event.content.parts) or ():
                if part.text:
                    _say("tutor", part.text)

    async def remember(self, session_id: str) -> None:
        """Make what was said in a session memories of Ada."""
        session = await self.sessions.get_session(
            app_name="tutor", user_id="ada", session_id=session_id
        )
        if session is not None:
            await self.memories.add_session_to_memory(session)


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
    """Another process goes on, and another session knows of the first."""
    async with AsyncContextStore.open(directory) as store:
        tutor = Tutor(store)
        of_ada = {"app_name": "tutor", "user_id": "ada"}
        _heading(f"2  The same session, in process {os.getpid()}")
        await tutor.talk("monday", "How often did I speak to you?")
        await tutor.remember("monday")
        _heading("3  Another session")
        await tutor.talk("tuesday", "Am I allergic to nuts?")
        _heading("4  States and files")
        state = await tutor.sessions.get_user_state(**of_ada)
        versions = await tutor.artifacts.list_versions(**of_ada, filename="user:notes.txt")
        _say("", f"the state of Ada: {state}; versions of her notes: {versions}")
        _heading("5  What every framework finds")
        ada = store.scope(user_id="ada")
        for session in sorted(await ada.history.session_ids("tutor")):
            n = await ada.history.count("tutor", session_id=session)
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


def _told(response: types.FunctionResponse) -> str:
    """What a tool answered, as a text."""
    found = (response.response or {}).get("result", response.response)
    memories = getattr(found, "memories", None)
    if memories is None:
        return str(found)
    texts = [part.text for one in memories for part in one.content.parts or () if part.text]
    return f"{texts[0]!r}" if texts else "nothing"


def _is_said(content: types.Content) -> bool:
    return any(part.text for part in content.parts or ())


def _heading(title: str) -> None:
    print(f"\n{title}\n")


def _say(who: str, text: str) -> None:
    print(f"   {who:<8} {text}" if who else f"   {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

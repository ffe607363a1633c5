"""A guide that is killed during an answer, continues in another process, and remembers its guests.

    python examples/agentscope_context_manager.py [--store DIR]

It is AgentScope's ContextManager over session history, memory and retrieval in one directory. What
answers is a script of a few lines that knows what the manager composes and nothing else, so that it
runs anywhere; put a model in its place.

    pip install ".[local]" "./adapters/agentscope[context]"
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The process that starts the others needs neither of them, and AgentScope takes seconds to import.
if TYPE_CHECKING:
    from agentscope_runtime.engine.schemas.agent_schemas import Message
    from agentscope_runtime.engine.services.context_manager import ContextManager

    from lance_context_core import AsyncContextStore

GUIDEBOOK = [
    "The castle tower: from its narrow heights you see the whole city. 192 steps.",
    "The ferry across the river: you see the whole city from the water. It leaves every hour.",
    "The tile museum: five hundred years of blue and white, in a convent.",
    "The market hall: cherries, sardines and custard tarts until midnight.",
]
STILL_LOOKING = "leafs through the guidebook …"
NO_SANDBOX = {"RUNTIME_SANDBOX_REGISTRY": "docker.io"}
"""AgentScope prints the origin of its sandboxes at import unless this is set; none is used here."""


def main() -> int:
    """Run each part in a process of its own; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path, metavar="DIR", help="keep the memory in DIR")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part is not None:
        return asyncio.run(_take(arguments.part, arguments.store))
    with tempfile.TemporaryDirectory(prefix="guide-") as scratch:
        directory = arguments.store or Path(scratch) / "memory"
        for part in PARTS:
            if code := _run(part, directory):
                return code
    kept = f"in {arguments.store}" if arguments.store else "gone; keep it with --store DIR"
    print(f"\nThe memory is {kept}.")
    return 0


# The guide


def _manager(store: "AsyncContextStore") -> "ContextManager":
    """The guide's context: this session, other sessions, and the book."""
    from agentscope_lance_context import (
        LanceContextMemoryService,
        LanceContextRAGService,
        LanceContextSessionHistoryService,
    )
    from agentscope_runtime.engine.services.context_manager import ContextManager

    return ContextManager(
        session_history_service=LanceContextSessionHistoryService(store),
        # By meaning, too; and what is composed a second time is remembered once.
        memory_service=LanceContextMemoryService(store, search="hybrid", deduplicate=True),
        rag_service=LanceContextRAGService(store, "guidebook"),
    )


async def _talk(
    store: "AsyncContextStore", text: str, *, user: str, session_id: str, is_slow: bool = False
) -> None:
    """A turn: the user's message is composed and stored before the guide answers."""
    async with _manager(store) as manager:
        session = await manager.compose_session(user_id=user, session_id=session_id)
        _say(user, text)
        await manager.compose_context(session, request_input=[_message("user", text)])
        if is_slow:
            _say("guide", STILL_LOOKING)
            await asyncio.sleep(60)
        await _answer(manager, session)


async def _go_on(store: "AsyncContextStore", *, user: str, session_id: str) -> None:
    """Answers the last question, unless it has an answer."""
    from agentscope_runtime.engine.services.context_manager import ContextComposer

    async with _manager(store) as manager:
        session = await manager.compose_session(user_id=user, session_id=session_id)
        asked = session.messages.pop()
        _say("", f"The last word of {session_id} is {user}'s: {asked.content[0].text!r}")
        # The history has it already.
        await ContextComposer.compose(
            [asked], session, memory_service=manager.memory, rag_service=manager.rag
        )
        await _answer(manager, session)


async def _answer(manager: "ContextManager", session: Any) -> None:
    """Say something that the composed messages lead to, and append it."""
    text = _next_line(session.messages)
    _say("guide", text)
    await manager.append(session, event_output=[_message("assistant", text)])


def _next_line(messages: Sequence["Message"]) -> str:
    """The script. The book is in the system message, the question in the last one."""
    texts = [one.content[0].text for one in messages]
    told = " ".join(text for one, text in zip(messages, texts, strict=True) if one.role == "user")
    fear = next(iter(re.findall(r"afraid of (\w+)", told)), None)
    if "?" not in texts[-1]:
        return "I shall keep that in mind."
    if "afraid" in texts[-1]:
        return f"Of {fear}." if fear else "You have never told me."
    book = next(text for one, text in zip(messages, texts, strict=True) if one.role == "system")
    place = next(line for line in book.splitlines() if fear is None or fear not in line)
    return f"{place} {f'And no {fear}, I promise.' if fear else ''}".strip()


def _message(role: str, text: str) -> "Message":
    from agentscope_runtime.engine.schemas.agent_schemas import Message, TextContent

    return Message(role=role, content=[TextContent(text=text)], status="completed")


# Steps


async def on_monday(store: "AsyncContextStore") -> None:
    """A guest states a fact for later."""
    _heading(f"1  Monday, in process {os.getpid()}")
    await _manager(store)["rag"].add_docs(GUIDEBOOK)
    await _talk(store, "By the way, I am afraid of heights.", user="ada", session_id="monday")


async def on_tuesday(store: "AsyncContextStore") -> None:
    """Another process and another session; it does not live to answer."""
    _heading(f"2  Tuesday, in process {os.getpid()} and another session")
    question = "Where do I see the whole city?"
    await _talk(store, question, user="ada", session_id="tuesday", is_slow=True)


async def later(store: "AsyncContextStore") -> None:
    """The session continues; and another guest asks the same."""
    _heading(f"3  The same session goes on in process {os.getpid()}")
    await _go_on(store, user="ada", session_id="tuesday")
    _heading("4  Others ask, and ask for what is not theirs")
    question = "Where do I see the whole city?"
    await _talk(store, question, user="ben", session_id="wednesday")
    for user in ("ben", "ada"):
        await _talk(store, "What am I afraid of?", user=user, session_id="thursday")
    _heading("5  What is in the directory")
    await _show(store)


async def _show(store: "AsyncContextStore") -> None:
    """The stored records."""
    manager = _manager(store)
    for user in ("ada", "ben"):
        sessions = [one.id for one in await manager.session.list_sessions(user)]
        remembered = await manager.memory.list_memory(user, {"page_size": 100})
        _say(user, f"sessions {', '.join(sessions)}; {len(remembered)} messages remembered")
    n_pages = await store.vectors("guidebook").count()
    _say("guidebook", f"{n_pages} places")


PARTS = {"monday": on_monday, "tuesday": on_tuesday, "later": later}


# How it is run and shown


def _run(part: str, directory: Path) -> int:
    """Run a part, and kill it where it thinks for long; returns the exit code of the others."""
    command = [sys.executable, __file__, "--store", str(directory), "--part", part]
    environment = {**NO_SANDBOX, **os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, env=environment, stdout=subprocess.PIPE, encoding="utf-8"
    ) as child:
        for line in child.stdout or ():
            print(line, end="", flush=True)
            if STILL_LOOKING in line:
                child.kill()
                child.wait()
                _say("", f"Process {child.pid} was killed, and with it all that it knew.")
                return 0
    return child.returncode


async def _take(part: str, directory: Path) -> int:
    from lance_context_core import AsyncContextStore, ContextStoreError

    try:
        async with AsyncContextStore.open(directory, embedder="local") as store:
            await PARTS[part](store)
    except ContextStoreError as error:
        print(f"agentscope_context_manager: {error}", file=sys.stderr)
        return 1
    return 0


def _heading(title: str) -> None:
    print(f"\n{title}\n")


def _say(who: str, text: str) -> None:
    label = f"   {who:<10}" if who else "   "
    print(textwrap.fill(text, 88, initial_indent=label, subsequent_indent=" " * len(label)))


if __name__ == "__main__":
    sys.exit(main())

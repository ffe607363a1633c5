"""What a process of its own does with a store: `python worker.py PLACE WHAT …`."""

import asyncio
import json
import sys

from agent_framework import AgentSession, Message, WorkflowCheckpoint
from agent_framework_lance_context import (
    LanceCheckpointStorage,
    LanceHistoryProvider,
    LanceSessionStore,
)

from lance_context_core import AsyncContextStore

N_TURNS = 10


def turn(name, number):
    return [Message("user", [f"{name} {number}"]), Message("assistant", [f"{name} {number}, too"])]


async def share(store, name):
    """Save turns, snapshots and checkpoints while another process does the same."""
    history, storage = LanceHistoryProvider(store), LanceCheckpointStorage(store)
    wait()
    for number in range(N_TURNS):
        await history.save_messages("1", turn(name, number))
    for number in range(4):
        await storage.save(WorkflowCheckpoint("flow", "h", checkpoint_id=f"{name} {number}"))
        await storage.save(WorkflowCheckpoint("flow", "h", checkpoint_id="both"))
    tell([await storage.delete("both"), len(await history.get_messages("1"))])


async def be_killed(store):
    """Save a turn and a snapshot, say so, and save turns until the end."""
    history = LanceHistoryProvider(store)
    await history.save_messages("1", turn("before", 0))
    session = AgentSession(session_id="1")
    session.state["n"] = 1
    await LanceSessionStore(store).set("1", session)
    tell("stored")
    for number in range(10_000):
        await history.save_messages("1", turn("n", number))


def wait():
    """Wait until the parent says a line."""
    tell("ready")
    sys.stdin.readline()


def tell(what):
    print(json.dumps(what), flush=True)  # noqa: T201 - to the parent


async def main(place, what, *arguments):
    async with AsyncContextStore.open(place) as store:
        await globals()[what](store, *arguments)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""An agent in a process of its own: `python program.py PLACE WHAT …`."""

import asyncio
import json
import sys

import agents
from agents import Agent, Runner, RunState, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from openai_agents_lance_context import LanceContextSession

N_BATCHES = 15
SENT = []


@function_tool(needs_approval=True)
def send(letter: str) -> str:
    """Send a letter."""
    SENT.append(letter)
    return f"sent {letter}"


def clerk(*steps):
    """An agent that asks before it sends a letter."""
    model = ScriptedModel(
        [[assistant_message(one)] if isinstance(one, str) else one for one in steps]
    )
    return Agent(name="clerk", model=model, tools=[send])


CALL = [function_call("send", {"letter": "to Ada"}, call_id="c1")]


def user(text):
    return {"role": "user", "content": text}


async def share(session, name):
    """Add batches, and then pop as many items, while another process does the same."""
    wait()
    for n in range(N_BATCHES):
        await session.add_items([user(f"{name} {n}"), user(f"{name} {n}, too")])
    wait()
    tell([await session.pop_item() for _ in range(N_BATCHES)])


async def be_killed(session):
    """Add an item, say so, and add batches until the end."""
    await session.add_items([user("before")])
    tell("stored")
    for n in range(10_000):
        await session.add_items([user(f"{n}"), user(f"{n}, too")])


async def resume(session):
    """Go on with a run that was interrupted in another process."""
    agent = clerk("It is sent.")
    state = await RunState.from_string(agent, wait())
    for one in state.get_interruptions():
        state.approve(one)
    result = await Runner.run(agent, state, session=session)
    tell([result.final_output, SENT, agent.model.last_call.input])


def wait():
    """Wait until the parent says a line, and return it."""
    tell("ready")
    return sys.stdin.readline().strip()


def tell(what):
    print(json.dumps(what), flush=True)  # noqa: T201 - to the parent


async def main(place, what, *arguments):
    async with LanceContextSession("monday", place) as session:
        await globals()[what](session, *arguments)


if __name__ == "__main__":
    agents.set_tracing_disabled(disabled=True)
    asyncio.run(main(*sys.argv[1:]))

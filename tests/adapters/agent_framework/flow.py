"""A workflow of three steps, in the second of which a process may be killed."""

import os
import signal
from dataclasses import dataclass

from agent_framework import Executor, WorkflowBuilder, WorkflowContext, handler
from agent_framework_lance_context import LanceCheckpointStorage

NAME = "letter"
TYPES = ("adapters.agent_framework.flow:Letter",)


@dataclass
class Letter:
    """An object of an application, which travels between steps."""

    words: list


class First(Executor):
    """Begins a letter."""

    @handler
    async def run(self, text: str, context: WorkflowContext[Letter]) -> None:
        await context.send_message(Letter([text, "first"]))


class Second(Executor):
    """Goes on with it, or ends the process."""

    @handler
    async def run(self, letter: Letter, context: WorkflowContext[Letter]) -> None:
        if os.environ.get("KILLED"):
            os.kill(os.getpid(), signal.SIGKILL)
        await context.send_message(Letter([*letter.words, "second"]))


class Third(Executor):
    """Sends it."""

    @handler
    async def run(self, letter: Letter, context: WorkflowContext[None, str]) -> None:
        await context.yield_output(" ".join(letter.words))


def workflow(storage):
    first, second, third = First(id="first"), Second(id="second"), Third(id="third")
    builder = WorkflowBuilder(name=NAME, start_executor=first, checkpoint_storage=storage)
    return builder.add_edge(first, second).add_edge(second, third).build()


async def begin(place):
    async with LanceCheckpointStorage(place, allowed_checkpoint_types=TYPES) as storage:
        await workflow(storage).run("Dear Ben")

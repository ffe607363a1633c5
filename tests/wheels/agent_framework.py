"""What the adapter for Microsoft Agent Framework does where nothing is installed but its wheel."""

import asyncio
import pkgutil
import re
import sys
from importlib import import_module
from importlib.metadata import distributions, requires, version
from pathlib import Path

import agent_framework_lance_context
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Message,
    WorkflowCheckpoint,
)
from agent_framework_lance_context import (
    LanceCheckpointStorage,
    LanceContextProvider,
    LanceHistoryProvider,
    LanceSessionStore,
)

NAME = "agent-framework-lance-context"

package = Path(agent_framework_lance_context.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert agent_framework_lance_context.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert named == {"lance-context-core", "agent-framework-core"}, named

installed = {one.name.lower().replace("_", "-") for one in distributions()}
strangers = {"hypothesis", "openai", "pandas", "pylance", "pytest", "rich", "wordllama"}
assert not strangers & installed, strangers & installed

for module in pkgutil.iter_modules([str(package)]):
    import_module(f"{agent_framework_lance_context.__name__}.{module.name}")


class Model(BaseChatClient):
    """Says what it was given."""

    def _inner_get_response(self, *, messages, **_):
        async def respond():
            text = " | ".join(one.text for one in messages[:-1]) or "nothing"
            return ChatResponse(messages=Message("assistant", [text]))

        return respond()


async def talk(session_id, said):
    """A turn of a session in stores that were made for it."""
    async with (
        LanceHistoryProvider("memory", user_id="ada") as history,
        LanceContextProvider("memory", user_id="ada") as recall,
        LanceSessionStore("memory", user_id="ada") as sessions,
        LanceCheckpointStorage("memory", user_id="ada") as storage,
    ):
        agent = Agent(Model(), context_providers=[history, recall])
        session = await sessions.get(session_id) or agent.create_session(session_id=session_id)
        answer = (await agent.run(said, session=session)).text
        await sessions.set(session_id, session)
        await storage.save(WorkflowCheckpoint("flow", "hash", checkpoint_id=session_id))
        ids = await storage.list_checkpoint_ids(workflow_name="flow")
        return answer, len(await history.get_messages(session_id)), ids


assert asyncio.run(talk("1", "I am allergic to nuts.")) == ("nothing", 2, ["1"])
answer, n, ids = asyncio.run(talk("2", "May I eat nuts?"))
assert ": I am allergic to nuts." in answer, answer
assert (n, ids) == (2, ["1", "2"])

"""What the adapter for Pydantic AI does where nothing is installed but its wheel."""

import asyncio
import pkgutil
import re
import sys
from importlib import import_module
from importlib.metadata import distributions, requires, version
from pathlib import Path

import pydantic_ai_lance_context
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel
from pydantic_ai_lance_context import LanceConversationStore, LanceMessageHistory, LanceRecall

NAME = "pydantic-ai-lance-context"

package = Path(pydantic_ai_lance_context.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert pydantic_ai_lance_context.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert named == {"lance-context-core", "pydantic-ai-slim", "pydantic"}, named

installed = {one.name.lower().replace("_", "-") for one in distributions()}
strangers = {"hypothesis", "openai", "pandas", "pylance", "pytest", "rich", "wordllama"}
assert not strangers & installed, strangers & installed

for module in pkgutil.iter_modules([str(package)]):
    import_module(f"{pydantic_ai_lance_context.__name__}.{module.name}")


async def turn(said: str) -> int:
    """A turn of a conversation in stores that were made for it; returns its messages so far."""
    async with (
        LanceConversationStore("memory", user_id="ada") as store,
        LanceRecall("memory", user_id="ada") as recall,
        LanceMessageHistory("memory", "42", user_id="ada") as history,
    ):
        agent = Agent(TestModel(call_tools=[]), capabilities=[recall])
        conversation = await store.load("42") or Conversation(conversation_id="42")
        result = await agent.run(said, conversation=conversation)
        await store.save(result)
        found = await recall.search("nuts")
        assert found[0].record.text == "I am allergic to nuts.", found
        assert len(await history.load()) == len(result.all_messages())
        return len(result.all_messages())


assert asyncio.run(turn("I am allergic to nuts.")) == 2
assert asyncio.run(turn("What may I not eat?")) == 4

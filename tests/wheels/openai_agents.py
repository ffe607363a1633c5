"""What the adapter for the OpenAI Agents SDK does where nothing is installed but its wheel.

That is the beginning of docs/openai_agents.md, with a model that follows a script.
"""

import asyncio
import re
import sys
from importlib.metadata import distributions, requires, version
from pathlib import Path

import openai_agents_lance_context
from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from openai_agents_lance_context import LanceSession

NAME = "openai-agents-lance-context"

package = Path(openai_agents_lance_context.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert openai_agents_lance_context.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
assert named == {"lance-context-core", "openai-agents"}, named

installed = {one.name.lower().replace("_", "-") for one in distributions()}
strangers = {"hypothesis", "langchain-core", "pandas", "pytest", "rich", "wordllama"}
assert not strangers & installed, strangers & installed

set_tracing_disabled(disabled=True)
model = ScriptedModel(
    [
        [assistant_message("I will remember that.")],
        [function_call("recall", {"query": "allergic"}, call_id="call_1")],
        [assistant_message("Nuts.")],
    ]
)


async def main():
    session = LanceSession("tutor-42", "memory", user_id="ada")
    agent = Agent(name="tutor", instructions="Be brief.", model=model)
    agent.tools = [session.recall_tool()]
    await Runner.run(agent, "I am allergic to nuts.", session=session)
    await session.aclose()

    later = LanceSession("tutor-43", "memory", user_id="ada")
    agent.tools = [later.recall_tool()]
    result = await Runner.run(agent, "What may I not eat?", session=later)
    hits = await later.search("allergic")
    await later.aclose()
    assert result.final_output == "Nuts."
    assert "I am allergic to nuts." in model.last_call.input[-1]["output"]
    assert hits[0].record.text == "I am allergic to nuts.", hits


asyncio.run(main())

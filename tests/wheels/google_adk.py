"""What the adapter for Google ADK does where nothing is installed but its wheel."""

import asyncio
import pkgutil
import re
import sys
from importlib import import_module
from importlib.metadata import distributions, requires, version
from pathlib import Path

import google_adk_lance_context
from google.adk.agents import LlmAgent
from google.adk.cli.service_registry import get_service_registry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.genai import types
from google_adk_lance_context import (
    LanceArtifactService,
    LanceMemoryService,
    LanceSessionService,
    register_lance_services,
)

NAME = "google-adk-lance-context"

package = Path(google_adk_lance_context.__file__).parent
assert package.is_relative_to(sys.prefix), package
assert (package / "py.typed").is_file()
assert google_adk_lance_context.__version__ == version(NAME) == version("lance-context-core")

named = {re.match(r"[\w-]+", one)[0] for one in requires(NAME)}
wanted = {"lance-context-core", "google-adk", "google-genai", "pydantic", "pydantic-core"}
assert named == wanted, named

installed = {one.name.lower().replace("_", "-") for one in distributions()}
strangers = {"hypothesis", "openai", "pandas", "pylance", "pytest", "rich", "wordllama"}
assert not strangers & installed, strangers & installed

for module in pkgutil.iter_modules([str(package)]):
    import_module(f"{google_adk_lance_context.__name__}.{module.name}")


class Script(BaseLlm):
    """A model that counts what was said to it."""

    async def generate_content_async(self, llm_request, **_):
        """Say how many contents there are."""
        content = types.ModelContent(str(len(llm_request.contents)))
        yield LlmResponse(content=content)


async def turn(said: str) -> str:
    """A run in services that were made for it; returns what the agent says."""
    async with (
        LanceSessionService("memory") as sessions,
        LanceMemoryService("memory") as memories,
        LanceArtifactService("memory") as artifacts,
    ):
        runner = Runner(
            app_name="tutor",
            agent=LlmAgent(name="tutor", model=Script(model="script")),
            session_service=sessions,
            memory_service=memories,
            artifact_service=artifacts,
            auto_create_session=True,
        )
        of_ada = {"app_name": "tutor", "user_id": "ada"}
        message = types.UserContent(said)
        answers = [
            event.content.parts[0].text
            async for event in runner.run_async(user_id="ada", session_id="1", new_message=message)
        ]
        session = await sessions.get_session(**of_ada, session_id="1")
        await memories.add_session_to_memory(session)
        found = await memories.search_memory(**of_ada, query="nuts")
        assert found.memories[0].content.parts[0].text == "I am allergic to nuts.", found
        saved = types.Part(text=said)
        await artifacts.save_artifact(**of_ada, filename="user:a", artifact=saved)
        assert await artifacts.load_artifact(**of_ada, filename="user:a") == saved
        return answers[-1]


assert asyncio.run(turn("I am allergic to nuts.")) == "1"
assert asyncio.run(turn("What may I not eat?")) == "3"

register_lance_services()
service = get_service_registry().create_session_service("lance://memory", agents_dir=".")
assert isinstance(service, LanceSessionService)
session = asyncio.run(service.get_session(app_name="tutor", user_id="ada", session_id="1"))
assert len(session.events) == 4
service.close()

"""What the distribution promises about itself."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import pydantic_ai_lance_context
import pytest
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.conversation_store import ConversationStore

import lance_context_core

ROOT = Path(__file__).parents[3]
HOME = ROOT / "adapters" / "pydantic_ai"
NAMES = ["LanceConversationStore", "LanceMessageHistory", "LanceRecall"]


def test_the_public_names_are_sorted_and_there():
    assert pydantic_ai_lance_context.__all__ == sorted(NAMES)
    assert issubclass(pydantic_ai_lance_context.LanceConversationStore, ConversationStore)
    assert issubclass(pydantic_ai_lance_context.LanceRecall, AbstractCapability)


@pytest.mark.parametrize("page", ["adapters/pydantic_ai/README.md", "docs/pydantic_ai.md"])
def test_every_public_name_is_in_the_documentation(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}" not in text] == []


@pytest.mark.one_release
def test_the_versions_are_in_lockstep():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == pydantic_ai_lance_context.__version__
    assert project["version"] == lance_context_core.__version__
    assert [one.partition(">")[0] for one in project["dependencies"]] == [
        *("lance-context-core", "pydantic-ai-slim", "pydantic")
    ]
    assert version("pydantic-ai-slim").startswith("2.")


def test_types_are_shipped():
    assert (Path(pydantic_ai_lance_context.__file__).parent / "py.typed").is_file()

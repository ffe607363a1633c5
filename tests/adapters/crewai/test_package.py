"""What the distribution promises about itself."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import crewai_lance_context
import pytest
from crewai.flow.persistence import FlowPersistence
from crewai.knowledge.storage.base_knowledge_storage import BaseKnowledgeStorage
from crewai.tools import BaseTool

import lance_context_core

ROOT = Path(__file__).parents[3]
HOME = ROOT / "adapters" / "crewai"
NAMES = {
    *("ImportedMemories", "Installed", "LanceFlowPersistence", "LanceKnowledgeStorage"),
    *("LanceMemoryStorage", "LanceRecallTool", "import_memories", "install"),
}


def test_the_public_names_are_sorted_and_there():
    assert crewai_lance_context.__all__ == sorted(NAMES)
    assert issubclass(crewai_lance_context.LanceFlowPersistence, FlowPersistence)
    assert issubclass(crewai_lance_context.LanceKnowledgeStorage, BaseKnowledgeStorage)
    assert issubclass(crewai_lance_context.LanceRecallTool, BaseTool)


@pytest.mark.parametrize("page", ["adapters/crewai/README.md", "docs/crewai.md"])
def test_every_public_name_is_in_the_documentation(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}" not in text] == []


def test_the_versions_are_in_lockstep():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == crewai_lance_context.__version__
    assert project["version"] == lance_context_core.__version__
    assert project["requires-python"] == ">=3.11,<3.14"
    assert version("crewai") == "1.15.30"


def test_types_are_shipped():
    assert (Path(crewai_lance_context.__file__).parent / "py.typed").is_file()

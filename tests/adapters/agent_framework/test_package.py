"""What the distribution promises about itself."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import agent_framework_lance_context
import pytest
from agent_framework import ContextProvider, HistoryProvider, SessionStore

import lance_context_core

ROOT = Path(__file__).parents[3]
HOME = ROOT / "adapters" / "agent_framework"
NAMES = {
    "LanceCheckpointStorage": object,  # The framework has a protocol, which is not for `isinstance`.
    "LanceContextProvider": ContextProvider,
    "LanceHistoryProvider": HistoryProvider,
    "LanceSessionStore": SessionStore,
}


def test_the_public_names_are_sorted_and_of_the_frameworks_classes():
    assert agent_framework_lance_context.__all__ == sorted(NAMES)
    for name, base in NAMES.items():
        assert issubclass(getattr(agent_framework_lance_context, name), base)


@pytest.mark.parametrize("page", ["adapters/agent_framework/README.md", "docs/agent_framework.md"])
def test_every_public_name_is_in_the_documentation(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}" not in text] == []


def test_the_versions_are_in_lockstep():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == agent_framework_lance_context.__version__
    assert project["version"] == lance_context_core.__version__
    assert [one.partition(">")[0] for one in project["dependencies"]] == [
        *("lance-context-core", "agent-framework-core")
    ]
    assert version("agent-framework-core").startswith("1.")


def test_types_are_shipped():
    assert (Path(agent_framework_lance_context.__file__).parent / "py.typed").is_file()

"""What the distribution promises about itself."""

import tomllib
from pathlib import Path

import openai_agents_lance_context
import pytest

import lance_context_core

ROOT = Path(__file__).parents[3]
HOME = ROOT / "adapters" / "openai_agents"


def test_the_public_names_are_sorted_and_there():
    names = openai_agents_lance_context.__all__
    assert names == sorted(names)
    assert all(getattr(openai_agents_lance_context, name) for name in names)


@pytest.mark.parametrize("page", ["adapters/openai_agents/README.md", "docs/openai_agents.md"])
def test_every_public_name_is_in_the_documentation(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [one for one in openai_agents_lance_context.__all__ if f"`{one}`" not in text] == []


def test_the_versions_are_in_lockstep():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == openai_agents_lance_context.__version__
    assert project["version"] == lance_context_core.__version__


def test_types_are_shipped():
    assert (Path(openai_agents_lance_context.__file__).parent / "py.typed").is_file()

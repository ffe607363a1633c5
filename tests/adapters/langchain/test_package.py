"""What the distribution promises about itself."""

import subprocess
import sys
import tomllib
from pathlib import Path

import langchain_lance_context

import lance_context_core

ROOT = Path(__file__).parents[3]
HOME = ROOT / "adapters" / "langchain"


def test_the_public_names_are_sorted_and_there():
    names = langchain_lance_context.__all__
    assert names == sorted(names)
    assert all(getattr(langchain_lance_context, name) for name in names)


def test_every_public_name_is_in_the_readme():
    text = (HOME / "README.md").read_text(encoding="utf-8")
    assert [name for name in langchain_lance_context.__all__ if f"`{name}`" not in text] == []


def test_the_chat_history_is_imported_when_it_is_asked_for():
    """Its base class leaves LangChain one day, and must not take the others with it."""
    program = """
import sys
sys.modules["langchain_core.chat_history"] = None
import langchain_lance_context
print(langchain_lance_context.LanceContextVectorStore.__name__)
try:
    langchain_lance_context.LanceContextChatMessageHistory
except ImportError:
    print("gone")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["LanceContextVectorStore", "gone"]


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(langchain_lance_context, "LanceContextNothing")


def test_the_versions_are_in_lockstep():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == langchain_lance_context.__version__
    assert project["version"] == lance_context_core.__version__


def test_types_are_shipped():
    assert (Path(langchain_lance_context.__file__).parent / "py.typed").is_file()


def test_only_the_contracts_of_langchain_are_needed():
    program = "import langchain_lance_context, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    frameworks = {name.partition(".")[0] for name in done.stdout.split()}
    assert not {"langchain", "langchain_community", "langgraph", "langchain_tests"} & frameworks

"""What the distribution promises about itself."""

import subprocess
import sys
import tomllib
from pathlib import Path

import langchain_lance_context
import pytest

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


@pytest.fixture(scope="module")
def elsewhere():
    """What a process prints where all that can be missing is missing."""
    program = """
import inspect
import sys
import langchain_lance_context
print(*sys.modules)
for name in ("langchain", "langchain_core.chat_history", "langgraph"):
    sys.modules[name] = None
print(langchain_lance_context.LanceContextVectorStore.__name__)
for name in (
    "LanceContextChatMessageHistory", "LanceContextMemoryMiddleware", "LanceContextSaver"
):
    try:
        exec(f"from langchain_lance_context import {name}")
    except ImportError as error:
        print(type(error).__name__, error)
    assert not hasattr(langchain_lance_context, name)
    assert name not in dict(inspect.getmembers(langchain_lance_context))
    assert name not in dir(langchain_lance_context)
exec("from langchain_lance_context import *")
"""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_chat_history_is_imported_when_it_is_asked_for(elsewhere):
    """Its base class leaves LangChain one day, and must not take the others with it."""
    _, other, history, *_ = elsewhere
    assert other == "LanceContextVectorStore"
    assert history.startswith("ModuleNotFoundError")


def test_a_framework_that_is_missing_is_named_with_what_brings_it(elsewhere):
    *_, middleware, saver = elsewhere
    assert middleware.startswith("MissingExtraError")
    assert middleware.endswith("'langchain-lance-context[agents]'")
    assert saver.startswith("MissingExtraError")
    assert saver.endswith("'langchain-lance-context[langgraph]'")


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(langchain_lance_context, "LanceContextNothing")


def test_the_versions_are_in_lockstep():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == langchain_lance_context.__version__
    assert project["version"] == lance_context_core.__version__


def test_types_are_shipped():
    assert (Path(langchain_lance_context.__file__).parent / "py.typed").is_file()


def test_only_the_contracts_of_langchain_are_needed(elsewhere):
    frameworks = {name.partition(".")[0] for name in elsewhere[0].split()}
    assert not {"langchain", "langchain_community", "langgraph", "langchain_tests"} & frameworks

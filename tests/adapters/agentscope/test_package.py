"""What the distribution promises about itself."""

import subprocess
import sys
import tomllib
from pathlib import Path

import agentscope_lance_context
import pytest
from adapters.agentscope.conftest import LINE

import lance_context_core

ROOT = Path(__file__).parents[3]
HOME = ROOT / "adapters" / "agentscope"
OF_A_LINE = {
    "LanceContextRAGService": "0",
    "LanceContextStateService": "1",
    "register_backends": "1",
}
EXTRAS = {"0": "context", "1": "runtime1"}


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_public_names_are_sorted_and_there():
    names = agentscope_lance_context.__all__
    assert names == sorted(names)
    for name in names:
        if OF_A_LINE.get(name, LINE) == LINE:
            assert getattr(agentscope_lance_context, name).__name__ == name
    assert set(names) <= set(dir(agentscope_lance_context))


@pytest.mark.parametrize("name", [name for name, line in OF_A_LINE.items() if line != LINE])
def test_what_another_line_has_names_the_extra_that_brings_it(name):
    with pytest.raises(
        ImportError, match=rf"agentscope-lance-context\[{EXTRAS[OF_A_LINE[name]]}\]"
    ):
        getattr(agentscope_lance_context, name)


@pytest.mark.parametrize("missing", ["agentscope_runtime", "fastapi"])
def test_without_the_framework_or_what_it_needs_the_error_names_the_extra(missing):
    program = f"""
import sys
sys.modules[{missing!r}] = None
import agentscope_lance_context
try:
    agentscope_lance_context.LanceContextSessionHistoryService
except ImportError as error:
    print(error)
"""
    said = run(program)
    assert all(f"agentscope-lance-context[{extra}]" in said for extra in EXTRAS.values())


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(agentscope_lance_context, "LanceContextNothing")


def test_importing_it_is_quick_and_imports_nothing_else():
    program = """
import sys, time
from importlib import import_module
import typing
before, start = set(sys.modules), time.process_time()
import_module("agentscope_lance_context")
print(time.process_time() - start, *(set(sys.modules) - before))
"""
    seconds, *modules = run(program).split()
    assert float(seconds) < 0.2
    assert modules == ["agentscope_lance_context"]


def test_every_public_name_is_in_the_readme():
    text = (HOME / "README.md").read_text(encoding="utf-8")
    assert [name for name in agentscope_lance_context.__all__ if f"`{name}`" not in text] == []


def test_every_extra_is_in_the_readme():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (HOME / "README.md").read_text(encoding="utf-8")
    for extra in project["optional-dependencies"]:
        assert f'"agentscope-lance-context[{extra}]"' in text


def test_the_versions_are_in_lockstep():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == agentscope_lance_context.__version__
    assert project["version"] == lance_context_core.__version__


def test_types_are_shipped():
    assert (Path(agentscope_lance_context.__file__).parent / "py.typed").is_file()

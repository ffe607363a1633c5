"""What the distribution promises about itself."""

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import agentscope_lance_context
import pytest
from adapters.agentscope.conftest import (
    AGENTSCOPE_1,
    AGENTSCOPE_2,
    HAS_APP,
    LINES,
    RUNTIME_0,
    RUNTIME_1,
)

import lance_context_core
from lance_context_core.errors import MissingExtraError

ROOT = Path(__file__).parents[3]
HOME = ROOT / "adapters" / "agentscope"
EXTRAS = {
    RUNTIME_0: "context",
    RUNTIME_1: "runtime1",
    AGENTSCOPE_1: "agentscope1",
    AGENTSCOPE_2: "agentscope2",
}
"""What brings each line."""
OF = {
    "LanceContextAgentStateStore": (AGENTSCOPE_2,),
    "LanceContextBlobStore": (AGENTSCOPE_2,),
    "LanceContextDocumentKnowledge": (AGENTSCOPE_1,),
    "LanceContextDocumentKnowledgeBase": (AGENTSCOPE_2,),
    "LanceContextKnowledgeBaseManager": (AGENTSCOPE_2,),
    "LanceContextKnowledgeMemory": (AGENTSCOPE_1,),
    "LanceContextKnowledgeService": (RUNTIME_0, RUNTIME_1),
    "LanceContextLongTermMemory": (AGENTSCOPE_1,),
    "LanceContextMemory": (AGENTSCOPE_1,),
    "LanceContextMemoryMiddleware": (AGENTSCOPE_2,),
    "LanceContextMemoryService": (RUNTIME_0, RUNTIME_1),
    "LanceContextMessageBus": (AGENTSCOPE_2,),
    "LanceContextRAGService": (RUNTIME_0,),
    "LanceContextSession": (AGENTSCOPE_1,),
    "LanceContextSessionHistoryService": (RUNTIME_0, RUNTIME_1),
    "LanceContextStateService": (RUNTIME_1,),
    "LanceContextStorage": (AGENTSCOPE_2,),
    "LanceContextVDBStore": (AGENTSCOPE_1,),
    "LanceContextVectorStore": (AGENTSCOPE_2,),
    "LanceContextWindowFormatter": (AGENTSCOPE_1,),
    "LanceContextWindowMiddleware": (AGENTSCOPE_2,),
    "register_backends": (RUNTIME_1,),
}
"""The lines that each public name is for."""
OF_APP = {
    "LanceContextBlobStore",
    "LanceContextKnowledgeBaseManager",
    "LanceContextMessageBus",
    "LanceContextStorage",
}
"""What needs the app of a line, which has an extra of its own, `EXTRAS` followed by `-app`."""
OF_ANY = {"language_model"}
"""What takes what any line has, and imports none."""
FRAMEWORKS = {
    *("agentscope", "agentscope_runtime", "fastapi", "pydantic"),
    *("lance_context_core", "lancedb", "pyarrow", "numpy"),
}


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout


def is_installed(name):
    return any(line in LINES for line in OF[name]) and (name not in OF_APP or HAS_APP)


def extra_of(name, line):
    return EXTRAS[line] + ("-app" if name in OF_APP else "")


def test_the_public_names_are_sorted_and_there():
    names = agentscope_lance_context.__all__
    assert names == sorted(names)
    assert set(names) == {*filter(is_installed, OF), *OF_ANY}
    for name in filter(is_installed, OF):
        assert getattr(agentscope_lance_context, name).__name__ == name
    assert set(names) <= set(dir(agentscope_lance_context))


def test_it_is_looked_through_as_any_module():
    """Also where a framework is missing, as it is in an environment of another line."""
    found = dict(inspect.getmembers(agentscope_lance_context))
    everything = {}
    exec("from agentscope_lance_context import *", everything)  # noqa: S102 - a star stands at the top
    for name in {*OF, *OF_ANY}:
        is_there = name in OF_ANY or is_installed(name)
        assert (name in found) is (name in everything) is is_there
        assert hasattr(agentscope_lance_context, name) is is_there


@pytest.mark.parametrize("name", [name for name in OF if not is_installed(name)])
def test_what_another_line_has_names_the_extra_that_brings_it(name):
    with pytest.raises(MissingExtraError) as imported:
        exec(f"from agentscope_lance_context import {name}")  # noqa: S102 - one of a list
    with pytest.raises(AttributeError) as asked:
        getattr(agentscope_lance_context, name)
    for line in OF[name]:
        assert f"agentscope-lance-context[{extra_of(name, line)}]" in str(imported.value)
        assert f"agentscope-lance-context[{extra_of(name, line)}]" in str(asked.value)


ERRORS = f"""
for name in {[*OF]!r}:
    try:
        exec(f"from agentscope_lance_context import {{name}}")
    except ImportError as error:
        print(name, str(error).replace("\\n", " "), sep=": ")
"""
"""Says of each public name why it cannot be imported."""


@pytest.mark.parametrize("code", ["raise ImportError('no framework')", "import psutil_or_another"])
def test_without_the_framework_or_what_it_needs_the_error_names_the_extra(tmp_path, code):
    for framework in ("agentscope", "agentscope_runtime"):
        (tmp_path / framework).mkdir()
        (tmp_path / framework / "__init__.py").write_text(code, encoding="utf-8")
    said = dict(
        line.split(": ", 1)
        for line in run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{ERRORS}").splitlines()
    )
    assert set(said) == set(OF)
    for name, lines in OF.items():
        assert all(
            f"agentscope-lance-context[{extra_of(name, line)}]" in said[name] for line in lines
        )
        assert code.split()[-1].strip("')") in said[name]


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(agentscope_lance_context, "LanceContextNothing")


def test_importing_it_imports_no_framework_and_no_store():
    program = """
import sys
from importlib import import_module
import_module("agentscope_lance_context")
print(*{one.partition(".")[0] for one in sys.modules})
"""
    imported = set(run(program).split())
    assert "agentscope_lance_context" in imported
    assert not imported & FRAMEWORKS


def test_every_public_name_is_in_the_readme():
    text = (HOME / "README.md").read_text(encoding="utf-8")
    assert [name for name in {*OF, *OF_ANY} if f"`{name}`" not in text] == []


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

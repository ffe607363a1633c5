"""What a distribution imports, it declares."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    "lance_context_core": ROOT,
    **{
        f"{name}_lance_context": ROOT / "adapters" / name
        for name in (
            *("agent_framework", "agentscope", "crewai", "google_adk", "langchain"),
            *("llama_index", "openai_agents", "pydantic_ai"),
        )
    },
    "lance_context_cli": ROOT / "apps" / "cli",
    "lance_context_inspector": ROOT / "apps" / "inspector",
    "lance_context_mcp": ROOT / "apps" / "mcp",
    **{
        f"lance_context_{name}": ROOT / "packages" / f"lance-context-{name}"
        for name in ("anthropic", "opentelemetry", "testing")
    },
}
"""Packages, and where the file is that declares what they need."""

DISTRIBUTIONS = {
    "PIL": "pillow",
    "agent_framework": "agent-framework-core",
    "agents": "openai-agents",
    "google": "google-adk",
    "langgraph": "langgraph-checkpoint",
    "opentelemetry": "opentelemetry-api",
    "llama_index": "llama-index-core",
    "pydantic_ai": "pydantic-ai-slim",
}
"""What brings a package that is called otherwise."""


@pytest.mark.parametrize("package", SOURCES)
def test_what_a_package_imports_is_among_its_dependencies(package):
    project = tomllib.loads((SOURCES[package] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    extras = project.get("optional-dependencies", {}).values()
    wanted = [*project["dependencies"], *(one for extra in extras for one in extra)]
    declared = {re.match(r"[\w-]+", one)[0] for one in wanted}
    # What type checkers bring is no distribution.
    known = {package, "_typeshed", *sys.stdlib_module_names}
    imported = imports(SOURCES[package] / package) - known
    needed = {DISTRIBUTIONS.get(one, one.replace("_", "-")) for one in imported}
    assert needed - declared == set()


def imports(folder):
    """The first parts of all the names that are imported in a folder."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {one.name.split(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module.split(".")[0])
    assert found
    return found

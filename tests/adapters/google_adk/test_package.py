"""What the distribution promises about itself."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import google_adk_lance_context as package
import pytest
from google.adk.artifacts import BaseArtifactService
from google.adk.memory import BaseMemoryService
from google.adk.sessions import BaseSessionService

import lance_context_core

ROOT = Path(__file__).parents[3]
HOME = ROOT / "adapters" / "google_adk"
NAMES = [
    *("LanceArtifactService", "LanceMemoryService", "LanceSessionService"),
    *("lance_artifact_service", "lance_memory_service", "lance_session_service"),
    "register_lance_services",
]


def test_the_public_names_are_sorted_and_there():
    assert package.__all__ == sorted(NAMES)
    assert issubclass(package.LanceSessionService, BaseSessionService)
    assert issubclass(package.LanceMemoryService, BaseMemoryService)
    assert issubclass(package.LanceArtifactService, BaseArtifactService)


@pytest.mark.parametrize(
    ("ours", "base"),
    [
        (package.LanceSessionService, BaseSessionService),
        (package.LanceMemoryService, BaseMemoryService),
        (package.LanceArtifactService, BaseArtifactService),
    ],
)
def test_each_optional_method_is_there(ours, base):
    public = [name for name in vars(base) if not name.startswith("_")]
    # `flush` is for services that keep events back.
    assert [name for name in public if name not in vars(ours)] in ([], ["flush"])


@pytest.mark.parametrize("page", ["adapters/google_adk/README.md", "docs/google_adk.md"])
def test_every_public_name_is_in_the_documentation(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}" not in text] == []


@pytest.mark.one_release
def test_the_versions_are_in_lockstep():
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == package.__version__ == lance_context_core.__version__
    assert [one.partition(">")[0] for one in project["dependencies"]] == [
        *("lance-context-core", "google-adk", "google-genai", "pydantic", "pydantic-core")
    ]
    assert version("google-adk").startswith("2.")


def test_types_are_shipped():
    assert (Path(package.__file__).parent / "py.typed").is_file()

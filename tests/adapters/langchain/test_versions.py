"""The versions that are allowed are those that are tested."""

import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[3]
OURS = "lance-context-core"


def allowed():
    """What the distribution asks for of others, with each of its extras."""
    text = (ROOT / "adapters" / "langchain" / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"].values()
    asked = [Requirement(one) for some in (project["dependencies"], *extras) for one in some]
    return [one for one in asked if one.name != OURS]


def pinned(environment):
    """The versions in an environment by name."""
    lines = (ROOT / "tests" / "pins" / f"{environment}.txt").read_text(encoding="utf-8").split("\n")
    pins = [line.partition(";")[0].strip().split("==") for line in lines if "==" in line]
    return {name: Version(version) for name, version in pins}


def test_the_oldest_versions_that_are_allowed_are_tested():
    oldest = pinned("langchain-oldest")
    for one in allowed():
        floors = [part.version for part in one.specifier if part.operator == ">="]
        if not floors:
            # The framework, which brings it, says from which version on.
            assert one.name in {Requirement(its).name for its in requires("langchain-core")}
            continue
        assert [oldest[one.name]] == [Version(floor) for floor in floors], one


def test_the_newest_versions_that_are_tested_are_allowed():
    newest = pinned("langchain-newest")
    assert [str(one) for one in allowed() if newest[one.name] not in one.specifier] == []

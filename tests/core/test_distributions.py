"""What every distribution tells those who look for it, and those who install it."""

import re
import tomllib
from pathlib import Path

import install_wheel
import pytest

ROOT = Path(__file__).parents[2]
HOMES = [
    ROOT,
    *sorted(
        one.parent
        for folder in ("adapters", "apps", "packages")
        for one in (ROOT / folder).glob("*/pyproject.toml")
    ),
]

BEFORE = {"crewai-lance-context": 14}
"""The minor release of Python before which a framework ends; the others have no end."""


def told(home):
    return tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("home", HOMES, ids=lambda home: told(home)["name"])
def test_it_names_its_pages_its_pythons_its_license_and_its_version(home):
    project, core = told(home), told(ROOT)
    assert re.fullmatch("[a-z-]+", project["name"])
    assert project["version"] == core["version"]
    end = BEFORE.get(project["name"])
    pythons = core["requires-python"] + (f",<3.{end}" if end else "")
    assert project["requires-python"] == pythons
    assert project["urls"] == core["urls"] | {
        "Homepage": f"https://pypi.org/project/{project['name']}/"
    }
    assert [one for one in project["classifiers"] if "Python ::" in one] == [
        f"Programming Language :: Python :: 3.{minor}" for minor in range(11, end or 15)
    ]
    assert (home / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (home / project["readme"]).is_file()


def test_the_wheel_of_every_distribution_is_tried():
    assert {(ROOT / one).resolve() for one in install_wheel.SOURCES} == set(HOMES)

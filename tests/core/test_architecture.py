"""The map of the packages is that of the folders."""

import re
from pathlib import Path

import lance_context_core

CORE = Path(lance_context_core.__file__).parent
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def named(heading):
    """What stands in the first cells of the table below a heading, or of the page's first table."""
    text = PAGE.split(heading, 1)[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(.+?)`", cell)]


def test_every_room_is_on_the_map_and_every_place_of_the_map_is_there():
    rooms = {one.name + "/" for one in CORE.iterdir() if (one / "__init__.py").is_file()}
    rooms |= {one.name for one in CORE.glob("*.py")} - {"__init__.py"}
    on_the_map = named("# Architecture")
    assert sorted(rooms - set(on_the_map)) == [], (
        "give it a row of docs/architecture.md, or another place"
    )
    assert sorted(set(on_the_map) - rooms) == [], "docs/architecture.md names what is not there"
    assert len(on_the_map) == len(rooms)


def test_what_stands_beside_the_core_is_there():
    places = named("## Outside the core")
    assert places
    assert [place for place in places if not (ROOT / place).is_dir()] == []


def test_the_map_goes_from_the_top_down_as_the_rule_does():
    rule = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.search(r"^layers = \[(.*?)^\]", rule, re.MULTILINE | re.DOTALL)[1]
    ranks = {
        name: rank
        for rank, line in enumerate(re.findall(r'"(.+?)"', layers))
        for name in line.split(" | ")
    }
    seen = [ranks[name.removesuffix(".py").strip("/")] for name in named("# Architecture")]
    assert seen == sorted(seen)

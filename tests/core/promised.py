"""By which tests promises are held: their names, as they stand in the files."""

import re
from pathlib import Path

CORE = Path(__file__).parent
CONTRACTS = CORE.parents[1] / "packages" / "lance-context-testing"


def guarantees(title):
    """The section of the page of guarantees that has this title."""
    page = (CORE.parents[1] / "docs" / "evidence" / "guarantees.md").read_text("utf-8")
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def names_of_tests(*places):
    """The names of all tests in these files and folders, without `test_`."""
    files = [file for place in places for file in ([place], place.rglob("*.py"))[place.is_dir()]]
    texts = [file.read_text("utf-8") for file in files]
    return {
        name
        for text in texts
        for name in re.findall(r"^ *(?:async )?def test_(\w+)", text, re.MULTILINE)
    }

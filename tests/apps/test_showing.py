"""The page of evidence names the tests that hold what looking at a store promises."""

import re
from pathlib import Path

from core.promised import CORE, guarantees, names_of_tests

PAGE = guarantees("Command line, inspector, SQL and MCP")
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| M?\d", line)
]


def test_each_case_is_on_the_page_once():
    numbers = [number for number, *_ in LINES]
    assert numbers == [*map(str, range(1, 29)), *(f"M{n}" for n in range(1, 10))]


def test_each_case_names_tests_that_are_there_or_says_that_none_is():
    there = names_of_tests(Path(__file__).parent, CORE)
    for number, _, proof in LINES:
        named = set(re.findall(r"`test_(\w+)`", proof))
        assert named <= there, number
        assert named or proof.startswith("no test:"), number

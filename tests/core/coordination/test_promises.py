"""The page of evidence names the tests that hold what working together promises."""

import re

from core.promised import CONTRACTS, CORE, guarantees, names_of_tests

PAGE = guarantees("Coordination of agents")

NUMBERS = [
    *(f"B{number}" for number in range(45, 58)),
    *("R7", "R8", "R9", "R32", "W7", "W8", "W13", "V10", "V12", "D12", "D13", "D15"),
]


def test_each_line_of_the_lists_is_on_the_page():
    told = {
        one
        for line in PAGE.splitlines()
        if line.startswith("|")
        for one in line.split("|")[1].strip().split(", ")
    }
    assert [one for one in NUMBERS if one not in told] == []


def test_each_test_that_the_page_names_is_there():
    named = re.findall(r"`test_(\w+)`", PAGE)
    assert len(named) > len(NUMBERS)
    assert set(named) <= names_of_tests(CONTRACTS, CORE)

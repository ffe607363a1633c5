"""A test case is called what it is, in words."""

import re
from pathlib import Path

import naming
import pytest
import slowest


class Given:
    """What has no words of its own."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "limit=3"),
        (None, "limit=None"),
        ("tea", "tea"),
        ("5", "'5'"),
        ("", "''"),
        ("a ", "'a '"),
        ("é\0", "'\\xe9\\x00'"),
        (b"a", "b'a'"),
        (["a", {"b": {"c"}}], "['a', {'b': {'c'}}]"),
        ([[[[["a"]]]]], "[[[[...]]]]"),
        (Given, "Given"),
        ([Given(), 1], "[Given, 1]"),
        (Path(__file__), "tests/core/test_naming.py"),
        (Path("/nowhere/tea.txt"), "tea.txt"),
        (lambda: Path("tea").stem + "!", 'Path("tea").stem + "!"'),
    ],
)
def test_a_value_is_told_in_words(value, words):
    assert naming.words(value, "limit") == words


def test_a_long_value_is_told_by_its_ends():
    told = naming.words("tea " * 1_000 + "pot", "text")
    assert (told[:7], told[-3:]) == ("tea tea", "pot")
    assert len(told) <= naming.MAX_CHARACTERS


def nameless(*names):
    """Those of the names of one test's cases that say nothing."""
    return [
        one[len("test_it[") : -1]
        for one in naming.nameless(("test_it", ["value"], name) for name in names)
    ]


def test_a_lambda_an_address_and_a_bare_number_say_nothing():
    names = ["<lambda>", "<X at 0x7f>", "3", "-3", "value0", "0-tea", "tea-value0"]
    assert nameless(*names) == names


def test_words_and_values_with_their_arguments_say_something():
    names = ["limit=-1", "limit=0", "limit=1", "s3-async", "2026-01-02", "utf-8", "level 0", "a-b"]
    assert nameless(*names) == []


def test_names_that_a_number_alone_tells_apart_say_nothing():
    assert nameless("tea0", "tea1", "pot-0", "pot-1", "s3") == ["tea0", "tea1", "pot-0", "pot-1"]


def test_what_is_listed_as_slow_is_there():
    top = Path(__file__).parents[2]
    gone = []
    for listed in slowest.listed():
        path, name, *_ = listed.split("::")  # Of a class, whose tests may stand in a shipped suite.
        text = (top / path).read_text(encoding="utf-8") if (top / path).is_file() else ""
        gone += [listed] if not re.search(rf"(def|class) {name}\b", text) else []
    assert not gone, "make slow"


def test_the_dearest_tests_give_way_until_the_rest_has_room(tmp_path):
    notes = tmp_path / "notes.jsonl"
    took = {
        "a.py::quick": [1] * 100,
        "a.py::many": [2] * 25,
        "a.py::dear": [9, 0],
        "b.py::more": [3],
    }
    lines = [
        f'[{one}, "", "{name}[{n}]", 0, 0]'
        for name, all_ in took.items()
        for n, one in enumerate(all_)
    ]
    notes.write_text("\n".join(lines), encoding="utf-8")
    assert slowest.QUICK == 150
    assert slowest.slow(notes) == "a.py::dear\nb.py::more\n"

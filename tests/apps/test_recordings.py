"""The recordings on the page of the command line say what a terminal says now."""

import re
from pathlib import Path

import pytest

from apps import recordings
from apps.inspector import stores

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return stores.used(tmp_path_factory.mktemp("recorded") / "memory")


@pytest.mark.parametrize("name", recordings.RECORDED)
def test_a_recording_says_what_the_commands_say(place, name):
    kept = (recordings.IMAGES / f"{name}.svg").read_text(encoding="utf-8")
    now = recordings.recorded(place, recordings.RECORDED[name])
    assert recordings.words(kept) == recordings.words(now)


def test_the_page_shows_every_recording_and_each_needs_nothing_else():
    shown = re.findall(r"images/(cli-[\w-]+)\.svg", PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(recordings.RECORDED)
    assert sorted(one.stem for one in recordings.IMAGES.glob("cli-*.svg")) == sorted(shown)
    for name in shown:
        svg = (recordings.IMAGES / f"{name}.svg").read_text(encoding="utf-8")
        assert re.findall(r'(?:href=|src=|url\()["\']?(?!#)[a-z]', svg) == []

"""The page about the command line shows what the commands print."""

import re
import shlex
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SHOWN = [
    shown
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for shown in re.split(r"^\$ lance-ctx ", block, flags=re.MULTILINE)[1:]
]
"""Commands, each with what it prints below it; `…` stands for what differs from run to run."""


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.split("\n")[0])
def test_a_command_prints_what_the_page_says(ctx, shown):
    command, expected = shown.split("\n", 1)
    pattern = ".*".join(map(re.escape, expected.split("…")))
    printed = ctx(*shlex.split(command)).out
    assert re.fullmatch(pattern, printed), printed


def test_the_page_has_every_command(ctx):
    commands = re.findall(r"^  (\w+)  ", ctx("--help").out.split("Commands:")[1], re.MULTILINE)
    assert commands
    assert [one for one in commands if f"`{one}" not in PAGE] == []

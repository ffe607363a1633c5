"""Long answers go through a pager on a terminal, and never elsewhere."""

import os
import pty
import re
import subprocess
import sys

import pytest
from lance_context_cli.pager import pager


def screen(place, *command, pager_command):
    """What a terminal shows whose pager is this one, and how the command ended."""
    ours, theirs = pty.openpty()
    environ = os.environ | {"COLUMNS": "100", "TERM": "xterm", "PAGER": pager_command}
    words = [sys.executable, "-m", "lance_context_cli", "-C", str(place), *command]
    with subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=environ
    ) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:
                break
            printed += piece
        code = process.wait(60)
    os.close(ours)
    return code, re.sub(r"\x1b\[\d*m", "", printed.decode()).splitlines()


@pytest.mark.process
def test_a_terminal_has_the_pager_that_the_user_chose(place):
    code, lines = screen(place, "history", "monday", pager_command="sed 's/^/| /'")
    assert code == 0
    assert "| Ada is allergic to nuts." in lines
    code, lines = screen(place, "--no-pager", "show", "nuts", pager_command="sed 's/^/| /'")
    assert code == 0
    assert "Ada is allergic to nuts." in lines


@pytest.mark.process
def test_a_pager_that_is_left_early_is_no_error(place):
    assert screen(place, "ls", pager_command="true") == (0, [])


@pytest.mark.parametrize("chosen", ["", "cat", "no-such-pager", "'unended"])
def test_a_pager_that_cannot_be_is_none(monkeypatch, chosen):
    for stream in (sys.stdout, sys.stdin):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("PAGER", f"{sys.executable} -q")
    assert pager() == [sys.executable, "-q"]
    monkeypatch.setenv("PAGER", chosen)
    assert pager() is None


def test_a_pipe_has_no_pager(ctx, monkeypatch):
    monkeypatch.setenv("PAGER", "sed 's/^/| /'")
    assert "|" not in ctx("history", "monday").out

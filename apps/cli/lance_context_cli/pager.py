"""Output on a terminal goes through a pager, as in git: `$PAGER`, or else less."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_USUAL = "less -FRX"
"""Ends at once if all fits the screen, shows colours, and does not clear the screen."""


def pager() -> list[str] | None:
    """The command line of the pager; None on no terminal, where `PAGER` is empty or `cat`, or without one."""
    if not (sys.stdout.isatty() and sys.stdin.isatty()) or os.environ.get("TERM") == "dumb":
        return None
    try:
        words = shlex.split(os.environ.get("PAGER", _USUAL))
    except ValueError:  # A quote that does not end: nothing can be started by it.
        return None
    if not words or words == ["cat"] or shutil.which(words[0]) is None:
        return None
    return words


@contextmanager
def paged(command: list[str]) -> Iterator[None]:
    """A block that prints to the pager, messages for a person included; it ends when the pager does.

    Raises BrokenPipeError in the block if the person leaves the pager before all is printed.
    """
    environ = {"LESS": "FRX", **os.environ}
    process = subprocess.Popen(  # noqa: S603 - the words are the user's own
        command, stdin=subprocess.PIPE, env=environ, encoding="utf-8", errors="replace"
    )
    assert process.stdin is not None
    streams = sys.stdout, sys.stderr
    sys.stdout = process.stdin
    if sys.stderr.isatty():
        sys.stderr = process.stdin
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        with suppress(BrokenPipeError):
            process.stdin.close()
        _ended(process)


def _ended(process: subprocess.Popen[str]) -> None:
    """Wait for the pager, to which Ctrl-C belongs."""
    while True:
        with suppress(KeyboardInterrupt):
            process.wait()
            return

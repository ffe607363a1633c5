"""Records in a terminal what docs/cli.md shows, as SVG:

PYTHONPATH=tests .venv/bin/python -m apps.recordings
"""

import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import unescape
from pathlib import Path

from rich.console import Console
from rich.text import Text

from apps.inspector import stores

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDTH = 108
RECORDED = {
    "cli-known": (
        "--user tilda facts",
        "--user tilda search is the oven broken -n 2",
        "--user tilda diff before-the-fair",
    ),
    "cli-versions": ("log --stat", "branch", "merge what-if --dry-run", "erase rye --dry-run"),
}
"""By its name: the commands of a recording, of a store that an agent has used."""


def main() -> None:
    """Make all of them anew."""
    with tempfile.TemporaryDirectory() as scratch:
        place = stores.used(Path(scratch) / "memory")
        for name, commands in RECORDED.items():
            (IMAGES / f"{name}.svg").write_text(recorded(place, commands), encoding="utf-8")


def recorded(place: Path, commands: Sequence[str]) -> str:
    """What a terminal shows in which these commands are run, as SVG that needs nothing else."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        for command, shown in zip(commands, _shown(place, commands), strict=True):
            console.print(Text.assemble(("$ ", "bold green"), f"lance-ctx {command}"))
            console.print(Text.from_ansi(shown))
        svg = console.export_svg(title="lance-ctx", unique_id="recording")
    # The font that it names is on a server: a page shall need none.
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def words(svg: str) -> list[str]:
    """What stands in a recording, but for what differs from run to run: numbers, times, widths."""
    texts = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    line = unescape(" ".join(texts)).replace("\xa0", " ")
    return re.sub(r"\b[0-9a-f]*\d[0-9a-f.]*", "0", line).split()


_ALL = """
import shlex, sys
from lance_context_cli import main
place, *commands = sys.argv[1:]
for command in commands:
    sys.argv = ["lance-ctx", "-C", place, *shlex.split(command)]
    assert main._ended() == 0, command
    print(end="\\x1e", flush=True)
"""
"""Runs one command after the other in one terminal: to import the store for each takes the longest."""


def _shown(place: Path, commands: Sequence[str]) -> list[str]:
    ours, theirs = pty.openpty()
    sizes = {"COLUMNS": str(WIDTH), "LINES": "60"}
    with subprocess.Popen(
        [sys.executable, "-c", _ALL, place, *commands],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **sizes, "TERM": "xterm-256color"},
    ) as process:
        os.close(theirs)
        said = bytearray()
        with os.fdopen(ours, "rb", buffering=0) as screen:
            while piece := _read(screen.fileno()):
                said += piece
    if process.returncode:
        raise RuntimeError(said.decode())
    text = said.decode().replace("\r\n", "\n").replace(str(place), "~/memory")
    return text.split("\x1e")[:-1]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Whoever wrote there has ended.
        return b""


if __name__ == "__main__":
    main()

"""Who may do what in a directory, and programs that are run as somebody else."""

import subprocess
import sys
from pathlib import Path

AS_SOMEBODY = """
import asyncio, os, sys
from lance_context_core import AsyncContextStore, ContextStoreError, Message

if os.geteuid() == 0:
    # Whom no right that was taken away keeps from writing.
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

async def told(work):
    try:
        return await work
    except ContextStoreError as error:
        return f"{type(error).__name__}: {error}".replace("\\n", " ")
"""
"""How a program begins that is run as a user without rights, and tells what it is refused."""


def run(program: str, *arguments: object, before: tuple[str, ...] = ()) -> list[str]:
    """What the program prints, run in a process of its own."""
    done = subprocess.run(
        [*before, sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


class rights:  # noqa: N801 - reads as what it is
    """What others, and the owner, may do with a directory inside the block."""

    def __init__(self, directory: Path, *, folders: int, files: int) -> None:
        paths = [directory, *directory.rglob("*")]
        self._modes = [(path, folders if path.is_dir() else files) for path in paths]
        self._former = [(path, path.stat().st_mode) for path in paths]

    def __enter__(self):
        for path, mode in reversed(self._modes):
            path.chmod(mode)

    def __exit__(self, *_):
        for path, mode in self._former:
            path.chmod(mode)

"""Who may do what in a directory, and programs that are run as somebody else."""

import subprocess
import sys
from pathlib import Path


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

"""The examples, run as a user runs them: each in a process of its own, that finds what it imports."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def folder_of(package):
    """Where a process finds it."""
    return Path(package.__file__).parents[1]


def printed(name, *arguments, cwd, folders):
    """What an example prints that goes well, with its lines joined and single spaces."""
    path = os.pathsep.join(filter(None, [*map(str, folders), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return " ".join(done.stdout.split())

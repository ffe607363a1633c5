"""How many files a warm call enters: held to what `benchmarks.ways` says that it may."""

import subprocess
import sys
from pathlib import Path

from benchmarks.ways import FILES, N_CALLS

ROOT = Path(__file__).parents[1]
BESIDE = 32
"""So many calls more may be of what others of the process do meanwhile, such as the thread that folds."""
SLACK = 3
"""When a number is less than what is allowed by so many, what is allowed is to be less, too."""


def hold(*calls):
    """Count these calls, and fail with the line of one that is longer or shorter than is said."""
    command = [sys.executable, "-m", "benchmarks.ways", *calls]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.strip("| ").split("|") for line in done.stdout.splitlines()[1:]]
    found = {name.strip(): [cell.strip() for cell in cells] for name, *cells in lines}
    assert list(found) == list(calls), done.stdout
    for name, cells in found.items():
        n_files, n_calls, n_climbs = int(cells[0]), int(cells[4]), int(cells[7])
        most, wanted = FILES[name]
        assert n_files <= most, f"{name} enters {n_files} files, {most} at most: join what is one"
        assert n_files > most - SLACK or most <= wanted, (
            f"{name} enters {n_files} files: write that into FILES of benchmarks/ways.py, not {most}"
        )
        assert 50 < n_calls <= N_CALLS.get(name, 300) + BESIDE, name
        assert n_climbs == 0, name

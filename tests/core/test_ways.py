"""Who follows a call to the disk and back passes few rooms, and never climbs."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BESIDE = 20
"""So many calls more may be of what others of the process do meanwhile, such as the thread that folds."""

LINE = re.compile(r"(?P<call>\S.*?\S) +(\d+) \(of (\d+)\) +\d+ +(\d+)(?: \(of (\d+)\))? +(\d+)")


def test_each_call_enters_no_more_rooms_and_functions_than_is_wanted_and_none_climbs():
    calls = ["history.append", "search, hybrid", "erase of one id"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ways", *calls],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [LINE.fullmatch(line) for line in done.stdout.splitlines()[1:]]
    assert [one["call"] for one in found] == calls
    for one in found:
        n_rooms, most_rooms, n_calls, most_calls, n_climbs = (int(n or 0) for n in one.groups()[1:])
        assert 5 < n_rooms <= most_rooms, one[0]
        assert 50 < n_calls <= (most_calls or 300) + BESIDE, one[0]
        assert n_climbs == 0, one[0]

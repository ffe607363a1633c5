"""The example, run as a user runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import lance_context_core

ROOT = Path(__file__).parents[3]
PACKAGE = Path(lance_context_core.__file__).parents[1]


def test_a_plan_is_done_though_a_worker_is_killed_and_the_history_tells_who_did_what(tmp_path):
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "workers.py"), str(tmp_path / "store")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1", "COLUMNS": "100"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    tree = "\n".join(f"● {title}" for title in ("Gather the sources", "Read the first"))
    assert tree in done.stdout
    victim = re.search(r"(\w+) was killed at 'read 2'", done.stdout)[1]
    told = re.search(
        r"  read 2: (\w+) began, given back, (.*), (\w+) began, (\w+) completed", done.stdout
    )
    first, why, *heirs = told.groups()
    assert (first, why) == (victim, f"{victim!r} is gone")
    assert victim not in heirs
    assert len(set(heirs)) == 1
    assert "The plan, completed" in done.stdout
    assert "- [x] Write the report" in done.stdout
    assert "The report has 6 lines." in done.stdout

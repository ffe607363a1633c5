"""Whole-store verbs beside each other; the long form is `PYTHONPATH=tests python -m proofs.crash.verbs`."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_verbs_of_several_processes_are_in_nobodys_way():
    done = subprocess.run(
        [sys.executable, "-m", "proofs.crash.verbs", "--rounds", "2", "--verbs", "6"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=1_800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rounds" in done.stdout
    assert "Lost, back, or not whole: 0." in done.stdout

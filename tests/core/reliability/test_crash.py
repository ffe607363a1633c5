"""Processes killed at random moments; the long form is `PYTHONPATH=tests python -m proofs.crash`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("often", [[], ["tag", "untag", "fork", "drop"]], ids=["all", "branches"])
def test_no_kill_costs_an_acknowledged_step_or_leaves_half_of_one(often):
    command = [sys.executable, "-m", "proofs.crash", "--rounds", "12", "--journal", "both"]
    command += ["--often", *often] if often else []
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=1_800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 processes killed with SIGKILL" in done.stdout
    assert "Lost, doubled or half done: 0." in done.stdout

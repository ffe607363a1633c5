"""The example runs, and says what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "knowledge.py"


@pytest.mark.process
def test_the_example_shows_what_is_known_what_changed_and_an_undo(tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    before, after = done.stdout.split("Undone:")
    assert "+ We moved to Bergen yesterday!" in before
    assert "I moved to Rome.  (fact" in before
    assert "I moved to Rome.  (fact" not in after
    assert "We moved to Bergen yesterday!  (fact, said on 30 March)" in after

"""The example runs, and says what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "knowledge.py"


@pytest.mark.process
@pytest.mark.slow
def test_the_example_shows_what_is_known_what_changed_an_undo_and_a_forgotten_person(tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    rules, rest = done.stdout.split("== A model reads")
    model, rest = rest.split("== Undone:")
    undone, forgotten = rest.split("== Forgotten:")
    assert "Oslo → Bergen   “We moved to Bergen yesterday.”, 21 April" in rules
    assert "- I live in Oslo." in rules
    assert "not known: choir_day" in rules
    assert "castle" not in done.stdout
    assert "of 16 turns 8 new facts; 2 earlier are true no more" in rules
    assert "5 new facts; 1 earlier is true no more" in model
    assert "1 x instruction: refused" in model
    assert "1 x not_said: refused" in model
    assert "Thursday → Monday   “rehearses on Mondays”, 22 April" in model
    assert "Ingrid sings" not in undone
    assert "nothing is known" in forgotten

"""The example of the window, run as a user runs it."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.process
@pytest.mark.slow
def test_the_example_answers_from_512_tokens_and_draws_its_windows(tmp_path):
    drawing = tmp_path / "windows.svg"
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "window.py"), str(drawing)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert "She's allergic to hazelnuts" in done.stdout
    assert done.stdout.count("left out, []") == 5
    bars = [one for one in ET.parse(drawing).iter() if one.tag.endswith("rect")]  # noqa: S314
    assert len(bars) == 5 * 5 + 4

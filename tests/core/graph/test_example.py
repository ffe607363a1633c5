"""The example of the graph, run as a user runs it."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.process
@pytest.mark.slow
def test_the_example_shows_a_contradiction_settles_it_and_draws_the_graph(tmp_path):
    drawing = tmp_path / "graph.svg"
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "graph.py"), str(drawing)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert "If Fuji fails, it reaches Apollo, Ada Lovelace." in done.stdout
    held = [line for line in done.stdout.splitlines() if line.startswith("deadline of Apollo")]
    assert "? open, since" in held[0]
    assert held[1].endswith("? May, since the mail came after the meeting.")
    names = [one.text for one in ET.parse(drawing).iter() if one.get("class") == "name"]  # noqa: S314
    assert {"Ada Lovelace", "Apollo", "Fuji"} <= set(names)
    assert "Ada" not in names

"""What the documentation of the adapter says of the installed line is run."""

import re
from pathlib import Path

import pytest
from adapters.agentscope.conftest import AGENTSCOPE_1, AGENTSCOPE_2, LINE, RUNTIME_0, RUNTIME_1
from core.test_docs import blocks, run

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "adapters" / "agentscope" / "README.md", ROOT / "docs" / "agentscope.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = page.read_text(encoding="utf-8").splitlines()
    code = [block for block in blocks(page) if block.info == "python"]
    # The line above the fence says which line of releases the code is for.
    marks = [re.fullmatch(r"<!-- with (.+) -->", lines[block.line - 3]) for block in code]
    of_lines = [mark and mark[1] for mark in marks]
    assert LINE in of_lines
    assert set(of_lines) <= {RUNTIME_0, RUNTIME_1, AGENTSCOPE_1, AGENTSCOPE_2}
    run(page, (block for block, line in zip(code, of_lines, strict=True) if line == LINE))

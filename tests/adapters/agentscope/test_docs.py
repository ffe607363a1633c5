"""What the documentation of the adapter says of the installed line is run."""

import re
from pathlib import Path

import pytest
from adapters.agentscope.conftest import AGENTSCOPE_1, AGENTSCOPE_2, LINE, RUNTIME_0, RUNTIME_1
from core.test_docs import blocks, checked, gives, raises

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "adapters" / "agentscope" / "README.md", ROOT / "docs" / "agentscope.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = page.read_text(encoding="utf-8").splitlines()
    namespace = {"__name__": "page", "_gives": gives, "_raises": raises}
    of_lines = []
    for block in blocks(page):
        if block.info != "python":
            continue
        # The line above the fence says which line of releases the code is for.
        mark = re.fullmatch(r"<!-- with (.+) -->", lines[block.line - 3])
        of_lines.append(mark and mark[1])
        if of_lines[-1] == LINE:
            # Empty lines before it, so that a failure names the line of the page.
            code = "\n" * (block.line - 1) + checked(block.code)
            exec(compile(code, str(page), "exec"), namespace)  # noqa: S102 - our own pages
    assert LINE in of_lines
    assert set(of_lines) <= {RUNTIME_0, RUNTIME_1, AGENTSCOPE_1, AGENTSCOPE_2}

"""What the documentation of the adapter says is run."""

from pathlib import Path

import pytest
from core.test_docs import blocks, checked, gives, raises

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "adapters" / "llama_index" / "README.md", ROOT / "docs" / "llama_index.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page", "_gives": gives, "_raises": raises}
    found = blocks(page)
    assert {block.info for block in found} == {"python", "bash"}
    for block in found:
        if block.info == "python":
            # Empty lines before it, so that a failure names the line of the page.
            code = "\n" * (block.line - 1) + checked(block.code)
            exec(compile(code, str(page), "exec"), namespace)  # noqa: S102 - our own pages

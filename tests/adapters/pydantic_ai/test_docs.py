"""What the documentation of the adapter says is run."""

from pathlib import Path

import pytest
from core.test_docs import blocks, run

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "adapters" / "pydantic_ai" / "README.md", ROOT / "docs" / "pydantic_ai.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks(page)
    assert {block.info for block in found} == {"python", "bash"}
    run(page, (block for block in found if block.info == "python"))

"""What the page on Cypher says is run where its engine is."""

from pathlib import Path

from core.test_docs import blocks, run

PAGE = Path(__file__).parents[2] / "docs" / "cypher.md"


def test_the_code_of_the_page_runs_from_top_to_bottom():
    run(PAGE, (block for block in blocks(PAGE) if block.info == "python"))

"""What the documentation of the adapter says is run."""

from pathlib import Path

import crewai.agent.core
import crewai.memory.unified_memory
import pytest
from adapters.crewai.samples import ScriptedLLM, embedded
from core.test_docs import blocks, run

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "adapters" / "crewai" / "README.md", ROOT / "docs" / "crewai.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "own"))
    llm = ScriptedLLM(memories=["Ada likes lakes."])
    monkeypatch.setattr(crewai.agent.core, "create_llm", lambda _: llm)
    monkeypatch.setattr(crewai.memory.unified_memory, "_default_embedder", lambda: embedded)
    found = blocks(page)
    assert {block.info for block in found} == {"python", "bash"}
    run(page, (block for block in found if block.info == "python"))

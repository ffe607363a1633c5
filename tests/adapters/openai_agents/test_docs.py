"""What the documentation of the adapter says is run."""

from pathlib import Path

import pytest
from agents.models.multi_provider import MultiProvider
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from core.test_docs import blocks, run

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "adapters" / "openai_agents" / "README.md", ROOT / "docs" / "openai_agents.md"]


def answer(call):
    """What the model of the page says, which knows what it is told."""
    last = call.input[-1]
    if last.get("type") == "function_call_output":
        assert "allergic to nuts" in last["output"]
        return [assistant_message("You may not eat nuts.")]
    if last["content"].endswith("?"):
        return [function_call("recall", {"query": "allergic"}, call_id="call_1")]
    return [assistant_message("I will remember that.")]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = ScriptedModel([ModelStep.respond(answer)] * 3)
    monkeypatch.setattr(MultiProvider, "get_model", lambda *_: model)
    found = blocks(page)
    assert {block.info for block in found} == {"python", "bash"}
    run(page, (block for block in found if block.info == "python"))

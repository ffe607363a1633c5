"""What the documentation of the adapter says is run."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from adapters.agent_framework.samples import ScriptedClient
from core.test_docs import blocks, run

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "adapters" / "agent_framework" / "README.md", ROOT / "docs" / "agent_framework.md"]


class Tutor(ScriptedClient):
    """The model of the page, which knows what it is told."""

    def _inner_get_response(self, *, messages, **rest):
        *before, last = [one.text for one in messages]
        knows = any("allergic to nuts" in text for text in before)
        asked = last.startswith("What may I not eat?")
        self._script = ["You may not eat nuts." if asked and knows else "I will remember that."]
        return super()._inner_get_response(messages=messages, **rest)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "my_app", SimpleNamespace(client=Tutor()))
    found = blocks(page)
    assert {block.info for block in found} == {"python", "bash"}
    run(page, (block for block in found if block.info == "python"))

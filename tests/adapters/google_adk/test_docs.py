"""What the documentation of the adapter says is run."""

from pathlib import Path

import pytest
from adapters.google_adk.samples import ScriptedModel, call
from core.test_docs import blocks, run
from google.adk.cli import service_registry
from google.adk.models import LLMRegistry
from google.genai import types

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "adapters" / "google_adk" / "README.md", ROOT / "docs" / "google_adk.md"]


class Tutor(ScriptedModel):
    """The model of the page, which knows what it is told."""

    async def generate_content_async(self, llm_request, **_):
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is not None:
            assert "I am allergic to nuts." in str(last.function_response.response)
            answer = "You may not eat nuts."
        elif last.text.endswith("?"):
            answer = call("load_memory", query="allergic")
        else:
            answer = "I will remember that."
        parts = [types.Part(text=answer)] if isinstance(answer, str) else answer
        self.answers.append(parts)
        async for one in super().generate_content_async(llm_request):
            yield one


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(service_registry, "_service_registry_instance", None)
    model = Tutor()
    monkeypatch.setattr(LLMRegistry, "new_llm", lambda *_: model)
    found = blocks(page)
    assert {block.info for block in found} <= {"python", "bash", "text"}
    run(page, (block for block in found if block.info == "python"))

"""The examples, run as a user runs them where AgentScope's runtime is installed."""

import json
import re

import agentscope_lance_context
import pytest

import lance_context_core
from examples import ROOT, folder_of, printed
from lance_context_core import ContextStore

PACKAGES = [folder_of(one) for one in (lance_context_core, agentscope_lance_context)]
OTHERS = [ROOT / "adapters" / one for one in ("langchain", "llama_index")]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("guide") / "memory"


@pytest.fixture(scope="module")
def guide(home):
    return printed(
        "agentscope_context_manager.py", "--store", home, cwd=home.parent, folders=PACKAGES
    )


def test_the_guide_is_killed_before_it_answers_and_answers_in_another_process(guide):
    before, after = re.split(r"Process \d+ was killed", guide)
    assert before.endswith("leafs through the guidebook … ")
    assert "The last word of tuesday is ada's: 'Where do I see the whole city?'" in after
    assert "guide The ferry across the river" in after
    assert len(set(re.findall(r"in process (\d+)", guide))) == 3


def test_it_knows_in_one_session_what_it_was_told_in_another_and_of_nobody_else(guide):
    assert "ada What am I afraid of? guide Of heights." in guide
    assert "ben What am I afraid of? guide You have never told me." in guide
    assert "guide The castle tower" in guide.partition("ben Where do I see")[2]


def test_what_it_leaves_is_what_it_says(guide, home):
    with ContextStore.open(home) as store:
        ada = store.scope(user_id="ada")
        tuesday = ada.history.get_messages("", session_id="tuesday")
        assert [one.role for one in tuesday] == ["user", "assistant"]
        assert "The ferry across the river" in tuesday[1].text
        # The question that was composed twice is remembered once.
        remembered = [one.text for one in ada.memory.list(page_size=100).items]
        assert remembered.count("Where do I see the whole city?") == 1
        assert f"{len(remembered)} messages remembered" in guide
        assert store.scope(user_id="ben").history.count("", session_id="wednesday") == 2


def test_the_quickstart_shows_the_same_memory_in_every_framework(tmp_path):
    output = printed("quickstart.py", "--store", "kept", cwd=tmp_path, folders=[*PACKAGES, *OTHERS])
    _, _, rest = output.partition("9 The same memory in LangChain")
    _, _, rest = rest.partition("10 And in LlamaIndex")
    llama_index, _, agentscope = rest.partition("11 And in AgentScope")
    sample = json.loads((ROOT / "examples" / "data" / "conversation.json").read_text("utf-8"))
    asked = next(one for one in sample["questions"] if one.get("featured"))
    [evidence] = [turn for turn in sample["turns"] if turn["id"] in asked["evidence"]]
    assert f"asked {asked['question']!r}, and finds the node" in llama_index
    assert f"{evidence['speaker']}: {evidence['text'][:40]}" in llama_index
    assert (
        "in the notes of LangChain: The flood in the cellar was only the old boiler" in llama_index
    )
    assert "Tilda, a-note: Note for tomorrow: the oven man comes at seven." in agentscope
    assert "Other frameworks" not in agentscope

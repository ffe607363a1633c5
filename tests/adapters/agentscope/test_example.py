"""The example, run as a user runs it where AgentScope's runtime is installed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import agentscope_lance_context
import pytest

import lance_context_core
from lance_context_core import ContextStore

ROOT = Path(__file__).parents[3]
PACKAGES = [Path(one.__file__).parents[1] for one in (lance_context_core, agentscope_lance_context)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("guide") / "memory"


@pytest.fixture(scope="module")
def guide(home):
    """What it prints, with its lines joined and single spaces."""
    path = os.pathsep.join(filter(None, [*map(str, PACKAGES), os.environ.get("PYTHONPATH")]))
    example = ROOT / "examples" / "agentscope_context_manager.py"
    done = subprocess.run(
        [sys.executable, str(example), "--store", str(home)],
        cwd=home.parent,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return " ".join(done.stdout.split())


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

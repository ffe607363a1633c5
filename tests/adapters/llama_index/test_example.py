"""The example, run as a user runs it where LlamaIndex is installed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import llama_index_lance_context
import pytest
from llama_index_lance_context import LanceContextMemory, LanceContextVectorStore

import lance_context_core
from lance_context_core import ContextStore

ROOT = Path(__file__).parents[3]
PACKAGES = [
    Path(one.__file__).parents[1] for one in (lance_context_core, llama_index_lance_context)
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("agent") / "memory"


@pytest.fixture(scope="module")
def printed(home):
    """What the example prints, with its lines joined and single spaces."""
    path = os.pathsep.join(filter(None, [*map(str, PACKAGES), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "llama_index_agent.py"), "--store", str(home)],
        cwd=home.parent,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return " ".join(done.stdout.split())


def test_the_agent_is_killed_while_it_works_and_goes_on_in_another_process(printed):
    before, killed, after = re.split(r"Process (\d+) was killed", printed)
    assert f"in process {killed}" in before
    assert f"in process {killed}" not in after
    assert "unanswered: 'Sound the horn, there is fog!'" in after
    # What was done before is not done again; what was not is.
    assert [re.findall(r"BOO+M \((\d)", part) for part in (before, after)] == [["1"], ["2", "3"]]
    assert "The horn has sounded 3 times." in after


def test_it_answers_from_the_documents_of_the_folder(printed):
    assert "looks into lamp.txt agent The manual says: Trim the wick before dusk." in printed
    assert "looks into cat.txt agent The manual says: The cat is called Fresnel." in printed
    assert "the index finds boat.txt" in printed


def test_it_knows_in_one_night_what_it_was_told_in_another(printed):
    assert "Do you know my name? agent Your name is Ada." in printed


@pytest.mark.usefixtures("printed")
def test_what_it_leaves_is_in_the_directory(home):
    with ContextStore.open(home) as store:
        nodes = LanceContextVectorStore(store, collection="manual").get_nodes()
        assert sorted(one.ref_doc_id for one in nodes) == [
            *("boat.txt", "cat.txt", "horn.txt", "lamp.txt")
        ]
        said = LanceContextMemory(store, session_id="first night").get_all()
        assert [one.content for one in said if one.role == "user"][-2:] == [
            *("Sound the horn, there is fog!", "Go on.")
        ]
        assert said[0].content == "My name is Ada, and I am the new keeper."

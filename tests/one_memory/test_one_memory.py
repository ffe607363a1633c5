"""The example over all frameworks, run as a user runs it where they are installed together."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lance_context_core import ContextStore

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT, *(ROOT / "adapters" / one for one in ("agentscope", "langchain", "llama_index"))]
PHONE = b"555-0144"


def run(*arguments, cwd):
    path = os.pathsep.join(filter(None, [*map(str, PACKAGES), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "one_memory.py"), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("boat") / "memory"


@pytest.fixture(scope="module")
def chapters(home):
    """What it prints, by the numbers of its headings, with lines joined and single spaces."""
    done = run("--store", home, cwd=home.parent)
    assert (done.returncode, done.stderr) == (0, "")
    headed = re.split(r"^(\d)  .*, in process (\d+)$", done.stdout, flags=re.MULTILINE)
    texts = [" ".join(text.split()) for text in headed[3::3]]
    assert len(set(headed[2::3])) == 6
    return dict(zip(map(int, headed[1::3]), texts, strict=True))


def test_each_framework_knows_what_the_others_have_learnt(chapters):
    assert "Its memory has 4 messages of Ida's" in chapters[2]
    assert "user My boat is called Petrel" in chapters[2]
    assert "The session 'boat' has 6 messages already." in chapters[3]
    # The page is LlamaIndex's, the allergy LangChain's, the answer AgentScope's.
    assert "agent Casein glue holds planks together" in chapters[3]
    assert "And there is no epoxy in it." in chapters[3]


def test_what_was_known_on_each_day_is_known_again(chapters):
    monday, tuesday, wednesday = re.split("tuesday|wednesday", chapters[4])
    assert "4 messages with Ida, and 0 pages." in monday
    assert "I have not read of any glue." in monday
    assert "6 messages with Ida, and 3 pages." in tuesday
    assert "8 messages with Ida, and 3 pages." in wednesday
    for later in (tuesday, wednesday):
        assert "Casein glue holds planks together" in later


def test_each_has_added_what_it_wrote(chapters):
    assert chapters[5] == (
        "monday LangChain: 6 messages tuesday LlamaIndex: 2 messages and 3 pages "
        "wednesday AgentScope: 4 messages and 4 memories"
    )


def test_a_branch_knows_what_main_does_not_until_it_is_merged(chapters):
    _, on_branch, on_main, merged = re.split("On branch:|On main:|Merged:", chapters[6], maxsplit=3)
    assert on_branch.endswith("agent You have said 5 metres and 7 metres. ")
    assert on_main.endswith("agent You have said 5 metres. ")
    assert merged.endswith("agent You have said 5 metres and 7 metres.")


def test_who_is_erased_is_in_no_file_and_nobody_else_is_missing(chapters, home):
    assert "AgentScope and LangChain have heard of him, and keep 6 records." in chapters[7]
    assert re.search(r"in [1-9] files of the store; now it stands in 0 files", chapters[7])
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if PHONE in path.read_bytes()] == []
    with ContextStore.open(home) as store:
        assert store.scope(user_id="otto").context().entries() == 0
        ida = store.scope(user_id="ida").history
        assert ida.get_messages("", session_id="boat", limit=1)[0].text.endswith("5 metres long.")
        assert ida.count("", session_id="boat") == 10


def test_a_directory_that_is_there_is_left_alone(tmp_path):
    done = run("--store", tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "already exists" in done.stderr
    assert list(tmp_path.iterdir()) == []

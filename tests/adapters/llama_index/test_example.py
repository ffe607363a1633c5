"""The example, run as a user runs it where LlamaIndex is installed."""

import re

import llama_index_lance_context
import pytest
from llama_index_lance_context import LanceContextMemory, LanceContextVectorStore

import lance_context_core
from examples import folder_of, printed
from lance_context_core import ContextStore

PACKAGES = [folder_of(one) for one in (lance_context_core, llama_index_lance_context)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("agent") / "memory"


@pytest.fixture(scope="module")
def agent(home):
    return printed("llama_index_agent.py", "--store", home, cwd=home.parent, folders=PACKAGES)


def test_the_agent_is_killed_while_it_works_and_goes_on_in_another_process(agent):
    before, killed, after = re.split(r"Process (\d+) was killed", agent)
    assert f"in process {killed}" in before
    assert f"in process {killed}" not in after
    assert "unanswered: 'Sound the horn, there is fog!'" in after
    # What was done before is not done again; what was not is.
    assert [re.findall(r"BOO+M \((\d)", part) for part in (before, after)] == [["1"], ["2", "3"]]
    assert "The horn has sounded 3 times." in after


def test_it_answers_from_the_documents_of_the_folder(agent):
    assert "looks into lamp.txt agent The manual says: Trim the wick before dusk." in agent
    assert "looks into cat.txt agent The manual says: The cat is called Fresnel." in agent
    assert "the index finds boat.txt" in agent


def test_it_knows_in_one_night_what_it_was_told_in_another(agent):
    assert "Do you know my name? agent Your name is Ada." in agent


@pytest.mark.usefixtures("agent")
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

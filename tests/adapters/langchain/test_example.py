"""The examples, run as a user runs them where LangChain is installed."""

import json
import re

import langchain_lance_context
import pytest
from langchain_lance_context import LanceContextSaver, LanceContextStore

import lance_context_core
from examples import ROOT, folder_of, printed
from lance_context_core import ContextStore

PACKAGES = [folder_of(one) for one in (lance_context_core, langchain_lance_context)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("agent") / "memory"


@pytest.fixture(scope="module")
def agent(home):
    return printed("langchain_agent.py", "--store", home, cwd=home.parent, folders=PACKAGES)


def test_the_agent_is_killed_half_way_and_goes_on_in_another_process(agent):
    before, after = re.split(r"Process \d+ was killed", agent)
    assert "found a cake without nuts: carrot cake" in before
    assert "the shop does not answer yet" in before
    assert "next: tools" in after
    # What was done before is not done again; what was not finished is.
    assert agent.count("looked through the cookbook") == 1
    assert agent.count("orders carrots and eggs") == 2
    assert "Done: carrots and eggs are ordered for a carrot cake without nuts." in after


def test_each_part_is_a_process_of_its_own(agent):
    assert len(set(re.findall(r"in process (\d+)", agent))) == 4


def test_it_knows_in_one_thread_what_it_was_told_in_another_and_of_nobody_else(agent):
    assert "ben What am I allergic to? agent I do not know that." in agent
    assert "ada What am I allergic to? agent You are allergic to nuts." in agent


def test_what_it_leaves_is_what_it_says(agent, home):
    with ContextStore.open(home) as store:
        ada = store.scope(user_id="ada").history
        tuesday = [one.text for one in ada.get_messages("", session_id="tuesday")]
        assert tuesday == [
            "It is my birthday. Find me a cake, and order what it needs!",
            "Done: carrots and eggs are ordered for a carrot cake without nuts.",
        ]
        assert store.scope(user_id="ben").history.count("", session_id="wednesday") == 2
        [order] = LanceContextStore(store).search(("orders",))
        assert order.namespace == ("orders", "ada")
        saver = LanceContextSaver(store)
        for thread in ("monday", "tuesday", "wednesday", "thursday"):
            n = len(list(saver.list({"configurable": {"thread_id": thread}})))
            assert f"{thread} {n} checkpoints" in agent
            assert n > 2


def test_the_quickstart_shows_the_same_memory_in_langchain(tmp_path):
    output = printed("quickstart.py", "--store", "kept", cwd=tmp_path, folders=PACKAGES)
    part = output.partition("9 The same memory in LangChain")[2]
    sample = json.loads((ROOT / "examples" / "data" / "conversation.json").read_text("utf-8"))
    asked = next(one for one in sample["questions"] if one.get("featured"))
    [evidence] = [turn for turn in sample["turns"] if turn["id"] in asked["evidence"]]
    assert f"asked {asked['question']!r}, and finds the document" in part
    assert f"{evidence['speaker']}: {evidence['text'][:40]}" in part
    assert sample["speakers"] == ["Tilda", "Wren"]
    kinds = {"Tilda": "HumanMessage", "Wren": "AIMessage"}
    for turn in sample["turns"][-2:]:
        assert f"{kinds[turn['speaker']]}: {turn['text'][:40]}" in part

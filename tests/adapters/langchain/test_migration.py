"""What other stores of LangChain and LangGraph hold, moved here."""

from operator import add
from pathlib import Path
from typing import Annotated, TypedDict

import lancedb
import pytest
from core.test_docs import blocks, checked, gives, raises
from langchain_lance_context import LanceContextSaver, LanceContextVectorStore, copy_checkpoints
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from lance_context_core import ContextStore

README = Path(__file__).parents[3] / "adapters" / "langchain" / "README.md"


class State(TypedDict):
    log: Annotated[list, add]
    last: str


def ask(state):
    return {"log": ["asked"], "last": interrupt("sugar?")}


def graph(saver):
    """Two steps, of which the second waits for an answer."""
    made = StateGraph(State)
    made.add_node("boil", lambda state: {"log": ["boiled"], "last": "boiled"})
    made.add_node("ask", ask)
    made.add_edge(START, "boil")
    made.add_edge("boil", "ask")
    return made.compile(checkpointer=saver)


def thread(name):
    return {"configurable": {"thread_id": name}}


def run(saver):
    """A thread that has ended, with two turns, and one that waits."""
    made = graph(saver)
    for turn in range(2):
        made.invoke({"log": [f"turn {turn}"]}, thread("ended"))
        made.invoke(Command(resume="yes"), thread("ended"))
    made.invoke({"log": ["begun"]}, thread("waiting"))


def known(saver):
    """All that a saver tells, in an order that says nothing of the saver."""
    return {
        (
            one.config["configurable"]["thread_id"],
            one.checkpoint["id"],
        ): (
            one.checkpoint["channel_values"],
            one.checkpoint["channel_versions"],
            one.checkpoint["versions_seen"],
            dict(one.metadata),
            one.parent_config and one.parent_config["configurable"]["checkpoint_id"],
            sorted(one.pending_writes, key=str),
        )
        for one in saver.list(None)
    }


@pytest.fixture
def old(tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
        run(saver)
        yield saver


def test_every_checkpoint_is_moved_as_it_is(old, store):
    saver = LanceContextSaver(store)
    expected = known(old)
    for _ in range(2):
        assert copy_checkpoints(old, saver) == len(expected) > 8
        assert known(saver) == expected


def test_a_thread_goes_on_where_it_waited(old, store):
    saver = LanceContextSaver(store)
    copy_checkpoints(old, saver)
    ended = graph(saver).invoke(Command(resume="no"), thread("waiting"))
    assert ended == graph(old).invoke(Command(resume="no"), thread("waiting"))
    assert ended == {"log": ["begun", "boiled", "asked"], "last": "no"}


def test_a_thread_of_another_checkpointer_is_forked_where_it_could_be(store):
    source, saver = InMemorySaver(), LanceContextSaver(store)
    run(source)
    copy_checkpoints(source, saver)
    [first, *_] = [
        one for one in graph(saver).get_state_history(thread("ended")) if one.next == ("boil",)
    ]
    forked = graph(saver).invoke(None, first.config)
    assert forked["log"] == ["turn 0", "boiled", "asked", "turn 1", "boiled"]


def test_an_empty_checkpointer_has_nothing_to_move(store):
    assert copy_checkpoints(InMemorySaver(), LanceContextSaver(store)) == 0


def test_the_readme_moves_what_is_there(tmp_path, monkeypatch):
    """The blocks about moving, run where there is something to move."""
    monkeypatch.chdir(tmp_path)
    with SqliteSaver.from_conn_string("checkpoints.db") as saver:
        run(saver)
        expected = known(saver)
    rows = [
        {"vector": [0.1, 0.2], "id": "a", "text": "Ginger tea", "metadata": {"n": 1, "hot": None}},
        {
            "vector": [0.3, 0.2],
            "id": "b",
            "text": "It's cake",
            "metadata": {"n": None, "hot": "no"},
        },
    ]
    lancedb.connect("lancedb").create_table("vectorstore", rows)
    moving = [
        block for block in blocks(README) if '"lancedb"' in block.code or "Sqlite" in block.code
    ]
    assert len(moving) == 2
    with ContextStore.open("memory", embedder="local") as store:
        namespace = {"store": store, "_gives": gives, "_raises": raises}
        namespace |= {
            "LanceContextSaver": LanceContextSaver,
            "LanceContextVectorStore": LanceContextVectorStore,
        }
        for block in moving:
            exec(checked(block.code), namespace)  # noqa: S102 - our own page
        assert known(LanceContextSaver(store)) == expected
        moved = LanceContextVectorStore(store, collection="vectorstore")
        assert {
            (one.id, one.page_content, str(one.metadata)) for one in moved.get_by_ids(["a", "b"])
        } == {
            ("a", "Ginger tea", "{'n': 1}"),
            ("b", "It's cake", "{'hot': 'no'}"),
        }
        assert moved.similarity_search("something hot to drink", k=1)[0].id == "a"

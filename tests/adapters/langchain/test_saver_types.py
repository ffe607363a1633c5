"""What types the values of a state come back in: as with LangGraph's own savers, in both of its modes."""

import enum
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from langchain_core.agents import AgentAction
from langchain_core.messages import HumanMessage
from langchain_core.outputs import Generation
from langchain_lance_context import LanceContextSaver
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

HERE = Path(__file__).parent
STRICT = "LANGGRAPH_STRICT_MSGPACK"


class Mood(enum.Enum):
    CALM = 1


class Guest(BaseModel):
    name: str
    mood: Mood = Mood.CALM


@dataclass
class Table:
    seats: int
    guests: list[Guest] = field(default_factory=list)


@dataclass
class Evening:
    table: Table
    mood: Mood
    turns: int = 0


def seat(evening):
    guests = [*evening.table.guests, Guest(name=str(evening.turns))]
    table = Table(evening.table.seats - 1, guests)
    return {"table": table, "mood": evening.mood, "turns": evening.turns + 1}


def after_turns(saver, n_turns):
    """The state of a graph that was called so many times in one thread."""
    graph = StateGraph(Evening)
    graph.add_node("seat", seat)
    graph.add_edge(START, "seat")
    graph.add_edge("seat", END)
    app = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    app.invoke(Evening(Table(4), Mood.CALM), config)
    for _ in range(n_turns - 1):
        app.invoke({"mood": Mood.CALM}, config)
    return app.get_state(config).values


def test_the_types_of_a_graphs_schema_come_back_in_the_next_turns(store):
    found = after_turns(LanceContextSaver(store), 3)
    guests = [Guest(name="0"), Guest(name="1"), Guest(name="2")]
    assert found == {"table": Table(1, guests), "mood": Mood.CALM, "turns": 3}
    assert found == after_turns(InMemorySaver(), 3)


def put(saver, value):
    checkpoint = {**empty_checkpoint(), "channel_values": {"a": value}}
    checkpoint["channel_versions"] = {"a": saver.get_next_version(None, None)}
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    return saver.put(config, checkpoint, {}, checkpoint["channel_versions"])


VALUES = {
    "dataclass": Table(2, [Guest(name="Ada")]),
    "enum": [Mood.CALM],
    "action": AgentAction("brew", {"cups": 2}, "log"),
    "generation": Generation(text="tea"),
    "message": HumanMessage("hi", id="1"),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_any_value_comes_back_as_from_langgraphs_own_saver(store, value):
    savers = [LanceContextSaver(store), LanceContextSaver(store), InMemorySaver()]
    made = [put(one, value) for one in savers[1:]]
    mine, theirs = (
        saver.get_tuple(config).checkpoint["channel_values"]["a"]
        for saver, config in zip(savers[::2], made, strict=True)
    )
    assert type(mine) is type(theirs)
    assert mine == theirs
    if STRICT not in os.environ:
        assert mine == value


def test_a_saver_may_be_strict_by_itself(store):
    strict = LanceContextSaver(store, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    config = put(strict, {"mood": Mood.CALM, "message": HumanMessage("hi", id="1")})

    def read(saver):
        return saver.get_tuple(config).checkpoint["channel_values"]["a"]

    assert read(strict) == {"mood": 1, "message": HumanMessage("hi", id="1")}
    allowed = strict.with_allowlist([(Mood.__module__, Mood.__qualname__)])
    assert read(allowed)["mood"] is Mood.CALM
    put(allowed, "new")
    assert read(strict)["mood"] == 1
    assert allowed._memory is strict._memory
    own = JsonPlusSerializer(allowed_msgpack_modules=[Mood])
    assert read(LanceContextSaver(store, serde=own))["mood"] is Mood.CALM


class Secret:
    def __init__(self, name):
        self.name = name


def test_a_serializer_of_ones_own_is_used(store):
    saver = LanceContextSaver(store, serde=JsonPlusSerializer(pickle_fallback=True))
    config = put(saver, Secret("x"))
    assert saver.get_tuple(config).checkpoint["channel_values"]["a"].name == "x"
    assert isinstance(saver.serde, SerializerProtocol)


@pytest.mark.skipif(STRICT in os.environ, reason="it is strict already")
def test_all_of_it_holds_in_langgraphs_strict_mode_too():
    suite = "test_saver.py::test_langgraph_finds_every_capability_and_each_passes"
    delta = "test_saver_delta.py::test_every_past_state_is_that_of_the_saver_in_memory"
    tests = [__file__, HERE / suite, HERE / delta]
    off = ["-p", "no:cacheprovider", "-p", "no:asyncio"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *off, *map(str, tests)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, STRICT: "true"},
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout

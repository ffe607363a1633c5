"""The state of a flow, and the feedback that it waits for."""

import math
from dataclasses import dataclass
from datetime import date

import pytest
from adapters.crewai.flows import Booking
from adapters.crewai.samples import on
from crewai.flow.async_feedback.types import HumanFeedbackPending, PendingFeedbackContext
from crewai.flow.flow import Flow, start
from crewai.flow.persistence import SQLiteFlowPersistence, persist
from crewai_lance_context import LanceFlowPersistence
from pydantic import BaseModel


class Trip(BaseModel):
    id: str = "trip"
    stops: list[str] = []
    on: date = date(2026, 1, 2)


@dataclass
class Place:
    name: str


STATES = {
    "a dictionary": {"id": "1", "n": 1, "deep": {"a": [None, True, 1.5, "ä"]}},
    "a model": Trip(stops=["Oslo"]),
    "what JSON lacks": {
        "times": [on(2, 3), date(2026, 1, 2)],
        "tuple": (1, 2),
        "set": {"one"},
        "model": Trip(),
        "other": Place("Oslo"),
        3: "a number as a key",
    },
    "infinite": {"n": math.inf},
    "surrogates": {"text": "half \ud83d", "\0": "NUL"},
    "large": {"text": "x" * 300_000},
    "empty": {},
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_state_comes_back_as_from_the_frameworks_own_persistence(flows, tmp_path, state):
    own = SQLiteFlowPersistence(str(tmp_path / "flows.db"))
    for one in (own, flows):
        one.save_state("1", "first", {"before": 1})
        one.save_state("1", "second", state)
        one.save_state("2", "first", {"other": 1})
    assert flows.load_state("1") == own.load_state("1")
    assert flows.load_state("3") is own.load_state("3") is None


def test_what_is_no_state_is_refused(flows):
    with pytest.raises(ValueError, match="state_data"):
        flows.save_state("1", "m", ["no state"])
    assert flows.load_state("1") is None


def context(**fields):
    return PendingFeedbackContext(
        **{
            "flow_id": "1",
            "flow_class": "trips.Booking",
            "method_name": "ask",
            "method_output": {"price": 90},
            "message": "Book it?",
            "emit": ["yes", "no"],
            "trace_context": (1, 2),
            **fields,
        }
    )


def test_pending_feedback_is_saved_with_its_state_and_can_be_cleared(flows, store):
    assert flows.load_pending_feedback("1") is None
    flows.save_state("1", "m", {"n": 1})
    before = store.version()
    flows.save_pending_feedback("1", context(), Trip(stops=["Oslo"]))
    state, found = flows.load_pending_feedback("1")
    assert state == flows.load_state("1") == Trip(stops=["Oslo"]).model_dump(mode="json")
    assert found == context(requested_at=found.requested_at)
    # Later states of the flow do not change what it waits with.
    flows.save_state("1", "m", {"n": 2})
    assert flows.load_pending_feedback("1")[0] == state
    flows.clear_pending_feedback("1")
    flows.clear_pending_feedback("unknown")
    assert flows.load_pending_feedback("1") is None
    assert flows.load_state("1") == {"n": 2}
    assert store.version() >= before


def test_a_flow_waits_and_goes_on_over_another_persistence_of_the_place(place):
    with LanceFlowPersistence(place) as first:
        waiting = Booking(persistence=first).kickoff(inputs={"id": "trip"})
        assert isinstance(waiting, HumanFeedbackPending)
    with LanceFlowPersistence(place) as second:
        flow = Booking.from_pending("trip", second)
        assert flow.state["train"] == "night train"
        assert flow.resume("a window seat") == "night train for 90: a window seat"
        assert second.load_pending_feedback("trip") is None


def test_a_persisted_flow_restores_its_state(flows):
    @persist(flows)
    class Counting(Flow[dict]):
        @start()
        def count(self):
            self.state["n"] = self.state.get("n", 0) + 1
            return self.state["n"]

    assert Counting().kickoff(inputs={"id": "c"}) == 1
    assert Counting().kickoff(inputs={"id": "c"}) == 2
    assert Counting().kickoff(inputs={"id": "d"}) == 1


def test_it_is_restored_from_its_fields(place, store):
    with LanceFlowPersistence(place, user_id="ada") as saved:
        saved.save_state("1", "m", {"n": 1})
        fields = saved.model_dump(mode="json")
    assert fields == {
        "persistence_type": "LanceFlowPersistence",
        "place": str(place),
        "user_id": "ada",
    }
    with LanceFlowPersistence.model_validate(fields) as restored:
        assert restored.load_state("1") == {"n": 1}
    with pytest.raises(ValueError, match="store"):
        LanceFlowPersistence.model_validate(LanceFlowPersistence(store).model_dump())


def test_earlier_states_are_in_earlier_versions(flows, store):
    flows.save_state("1", "m", {"n": 1})
    store.tag("first")
    flows.save_state("1", "m", {"n": 2})
    assert LanceFlowPersistence(store.checkout("first")).load_state("1") == {"n": 1}

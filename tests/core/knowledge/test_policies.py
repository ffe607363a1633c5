"""A model says what becomes of a fact beside the known ones; the code does it, or says why not."""

import pytest
from core.knowledge.living import day, facts, said
from lance_context_testing import FaultModel, ScriptedModel

from lance_context_core.knowledge import Consolidation, Decision, ModelConsolidator, ModelExtractor

TEA = said("I drink green tea every morning.", day(2024))
COFFEE = said("I drink coffee every morning now.", day(2025))


def noted(text, quote):
    return {"facts": [{"text": text, "turn": 1, "quote": quote}]}


KNOWN = noted("Ada drinks green tea every morning.", "I drink green tea")
NEW = noted("Ada drinks coffee every morning.", "I drink coffee")


def decided(**one):
    return {"decisions": [{"new": 1, **one}]}


def told(memory, *decisions, first=(TEA, KNOWN), second=(COFFEE, NEW), consolidating=None):
    """What the second turn came to, after the first one; and who decided."""
    extracting = ScriptedModel(first[1], second[1])
    model = consolidating or ScriptedModel(*decisions, name="decider")
    remembering = memory.using(
        extractor=ModelExtractor(extracting), consolidator=ModelConsolidator(model)
    )
    for n, (turn, _) in enumerate((first, second)):
        added = remembering.add(turn, user_id="ada", session_id=f"s{n}")
    return added, model


def current(store):
    return facts(store, user_id="ada")


def test_what_takes_the_place_of_another_supersedes_it_and_an_undo_brings_it_back(store, memory):
    added, _ = told(memory, decided(op="supersede", known=1))
    assert current(store) == ["Ada drinks coffee every morning."]
    then = memory.search("drinks morning", user_id="ada", valid_at=day(2024, 6))
    assert [one.record.text for one in then] == ["Ada drinks green tea every morning."]
    memory.undo(added.job_id)
    assert current(store) == ["Ada drinks green tea every morning."]


def test_an_update_says_what_is_to_be_known_and_a_merge_adds_evidence(store, memory):
    told(memory, decided(op="update", known=1, text="Ada drinks coffee, no longer tea."))
    assert current(store) == ["Ada drinks coffee, no longer tea."]


def test_a_merge_is_more_evidence_for_the_known_one(store, memory):
    told(memory, decided(op="merge", known=1))
    (one,) = store.context("knowledge").list(filters={"kind": "fact"})
    assert one["text"] == "Ada drinks green tea every morning."
    assert len(one["metadata"]["evidence"]) == 2


def test_what_is_not_worth_keeping_is_not_kept(store, memory):
    added, _ = told(memory, decided(op="noop"))
    assert current(store) == ["Ada drinks green tea every morning."]
    assert added.decisions == {"noop": 1}


def test_a_deletion_supersedes_and_is_counted(store, memory):
    added, _ = told(memory, decided(op="delete", known=1))
    assert current(store) == ["Ada drinks coffee every morning."]
    assert added.faults == {"mended_delete": 1}
    hidden = store.context("knowledge").list(include_retired=True, filters={"kind": "fact"})
    assert len(hidden) == 2


def test_what_was_said_earlier_never_takes_the_place_of_what_was_said_later(store, memory):
    told(
        memory,
        decided(op="supersede", known=1),
        first=(COFFEE, NEW),
        second=(TEA, KNOWN),
    )
    assert current(store) == ["Ada drinks coffee every morning."]


def test_what_a_person_has_pinned_stays_and_is_contradicted(store, memory):
    extracting = ScriptedModel(KNOWN, NEW)
    deciding = ScriptedModel(decided(op="supersede", known=1))
    remembering = memory.using(
        extractor=ModelExtractor(extracting), consolidator=ModelConsolidator(deciding)
    )
    remembering.add(TEA, user_id="ada")
    (hit, *_) = memory.search("tea", user_id="ada", search_type="facts")
    memory.pin(hit.record.id)
    added = remembering.add(COFFEE, user_id="ada")
    assert "Ada drinks green tea every morning." in current(store)
    assert added.decisions["conflict"] == 1


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        pytest.param(decided(op="supersede", known=7), "unknown_fact", id="an unknown fact"),
        pytest.param(decided(op="supersede"), "unknown_fact", id="no fact"),
        pytest.param(
            {"decisions": [{"new": 4, "op": "add"}]}, "unknown_fact", id="an unknown new fact"
        ),
        pytest.param(decided(op="forget", known=1), "wrong_schema", id="an unknown operation"),
        pytest.param(decided(op="update", known=1, text="{}"), "leaked_json", id="JSON"),
        pytest.param(decided(op="update", known=1), "empty", id="an update without words"),
        pytest.param(
            {"decisions": [{"new": 1, "op": "add"}, {"new": 1, "op": "supersede", "known": 1}]},
            "decided_twice",
            id="two decisions on one fact",
        ),
    ],
)
def test_a_decision_that_cannot_be_done_is_refused_and_the_fact_added(store, memory, answer, named):
    added, _ = told(memory, answer)
    assert added.faults == {named: 1}
    assert sorted(current(store)) == [
        "Ada drinks coffee every morning.",
        "Ada drinks green tea every morning.",
    ]


class Reaching:
    """Puts every new fact in the place of one that it was not asked about."""

    name = "reaching/1"

    def __init__(self, id):
        self.id = id

    def decide(self, new, known):
        decisions = [
            Decision(new_id=one.id, op="supersede", target_id=self.id, reason="so") for one in new
        ]
        return Consolidation(decisions=decisions)


def test_a_decision_about_another_users_fact_is_refused_and_that_fact_stays(store, memory):
    memory.add(said("I love green tea.", day(2024)), user_id="bob")
    (theirs,) = store.context("knowledge").list(filters={"kind": "fact"})
    memory.add(said("I love green tea in the morning.", day(2024)), user_id="ada")
    added = memory.using(consolidator=Reaching(theirs["id"])).add(
        said("I love green tea in the evening.", day(2025)), user_id="ada"
    )
    assert added.faults == {"unknown_fact": 1}
    assert facts(store, user_id="bob") == ["I love green tea."]
    assert len(current(store)) == 2


def test_two_facts_that_touch_one_known_fact_touch_it_once(store, memory):
    second = {"facts": [*NEW["facts"], *noted("Ada is up early.", "every morning")["facts"]]}
    both = {"decisions": [{"new": n, "op": "supersede", "known": 1} for n in (1, 2)]}
    added, model = told(memory, both, second=(COFFEE, second))
    assert added.faults == {"decided_twice": 1}
    assert len(model.requests) == 1


def test_a_model_is_asked_once_for_a_neighbourhood_and_not_where_nothing_is_near(memory):
    added, model = told(memory, decided(op="add"))
    assert [one.purpose for one in model.requests] == ["consolidate"]
    assert memory.jobs.get(added.job_id).usage["calls"] == 2


def test_a_slot_needs_no_model(memory):
    extracting = ScriptedModel(
        {"facts": [{**KNOWN["facts"][0], "slot": "drink", "value": "tea"}]},
        {"facts": [{**NEW["facts"][0], "slot": "drink", "value": "coffee"}]},
    )
    remembering = memory.using(model=extracting)
    for turn in (TEA, COFFEE):
        added = remembering.add(turn, user_id="ada")
    assert added.decisions == {"add": 1, "supersede": 1}


def test_a_decider_that_is_away_leaves_the_job_scheduled_with_no_fact(store, memory):
    away = FaultModel(ScriptedModel(), "rate_limit")
    added, _ = told(memory, consolidating=away)
    assert memory.jobs.get(added.job_id).state == "scheduled"
    assert current(store) == ["Ada drinks green tea every morning."]

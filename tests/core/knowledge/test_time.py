"""What is true, and when: dates decide, and nobody loses what was believed before."""

from itertools import permutations

import pytest
from core.knowledge.living import BERGEN, OSLO, day, everything, facts, said

from lance_context_core import InvalidRequestError, NotFoundError

TROMSO = said("I live in Tromsø now.", day(2026))


def best(memory, **more):
    return memory.search("where live Oslo Bergen moved Tromsø", user_id="ada", **more)[0].record


def true_then(memory, moment):
    hits = memory.search("live Oslo Bergen moved Tromsø", user_id="ada", valid_at=moment)
    return [hit.record.metadata["fact"]["value"] for hit in hits]


def test_what_was_said_later_is_current_and_the_earlier_was_true_then(memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    memory.add([BERGEN], session_id="s2", user_id="ada")
    now = best(memory)
    then = best(memory, valid_at=day(2024, 6))
    assert now.metadata["fact"]["value"] == "Bergen"
    assert then.metadata["fact"]["value"] == "Oslo"
    assert now.source_ids
    assert then.source_ids


def test_an_older_statement_that_arrives_later_does_not_take_the_newer_ones_place(store, memory):
    memory.add([BERGEN], session_id="s2", user_id="ada")
    memory.add([OSLO], session_id="s1", user_id="ada")
    assert facts(store) == ["We moved to Bergen last week."]
    assert best(memory, valid_at=day(2024, 6)).metadata["fact"]["value"] == "Oslo"


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_the_order_in_which_they_arrive_makes_no_difference(store, memory, order):
    told = [OSLO, BERGEN, TROMSO]
    for n in order:
        memory.add([told[n]], session_id=f"s{n}", user_id="ada")
    assert facts(store) == ["I live in Tromsø now."]
    values = [true_then(memory, day(year, 6)) for year in (2024, 2025, 2026)]
    assert values == [["Oslo"], ["Bergen"], ["Tromsø"]]


def test_of_the_same_moment_in_two_sessions_both_stay_and_the_conflict_is_listed(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    added = memory.add([said("I live in Rome.", day(2024))], session_id="s2", user_id="ada")
    assert sorted(facts(store)) == ["I live in Oslo.", "I live in Rome."]
    assert added.decisions["conflict"] == 1
    (pair,) = memory.jobs.get(added.job_id).result["conflicts"]
    explained = memory.explain(pair[1])
    assert [link.target_id for link in explained.links if link.relation == "conflicts"] == [pair[0]]


def test_in_one_session_the_later_turn_is_later_whatever_the_clock_says(store, memory):
    memory.add([said("I live in Oslo."), said("Sorry, I live in Rome.")], session_id="s")
    assert facts(store) == ["Sorry, I live in Rome."]


def test_what_is_said_again_is_one_fact_with_the_evidence_of_both(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    added = memory.add([said("I live in Oslo!", day(2025))], session_id="s2", user_id="ada")
    assert facts(store) == ["I live in Oslo."]
    assert added.decisions == {"merge": 1}
    (hit,) = memory.search("live Oslo", user_id="ada", search_type="facts", evidence=True)[:1]
    found = memory.explain(facts_ids(store)[0])
    assert len(found.quotes) == 2
    assert found.is_verified
    assert hit.evidence


def facts_ids(store):
    return [one["id"] for one in store.context("knowledge").list(filters={"kind": "fact"})]


def test_nobody_known_in_two_sessions_may_be_two_people(store, memory):
    memory.add([OSLO], session_id="s1")
    memory.add([BERGEN], session_id="s2")
    assert sorted(facts(store)) == ["I live in Oslo.", "We moved to Bergen last week."]


def test_people_who_are_told_by_their_names_have_facts_of_their_own(store, memory):
    memory.add(
        [
            said("I live in Oslo.", day(2024), name="Ann"),
            said("I live in Rome.", day(2025), name="Ben"),
        ],
        session_id="s",
    )
    assert sorted(facts(store)) == ["I live in Oslo.", "I live in Rome."]


@pytest.mark.parametrize("how", ["pinned", "corrected"])
def test_what_a_person_has_taken_up_is_not_changed_by_a_job_and_the_conflict_is_reported(
    store, memory, how
):
    memory.add([OSLO], session_id="s1", user_id="ada")
    (id,) = facts_ids(store)
    kept = memory.pin(id) if how == "pinned" else memory.correct(id, "Ada lives in Oslo.")
    added = memory.add([BERGEN], session_id="s2", user_id="ada")
    assert kept.text in facts(store)
    assert everything(store)[id][:4] == (kept.text, "active", None, True)
    assert added.decisions["conflict"] == 1


def test_what_was_invalidated_is_hidden_and_says_why(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    (id,) = facts_ids(store)
    gone = memory.invalidate(id, reason="a joke")
    assert (gone.retired_reason, facts(store)) == ("a joke", [])
    memory.add([OSLO], session_id="s1", user_id="ada")
    memory.distill(apply="merge")
    assert facts(store) == []


def test_a_correction_keeps_what_was_said_before(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    (id,) = facts_ids(store)
    record = memory.correct(id, "Ada lives in Oslo.")
    assert record.text == "Ada lives in Oslo."
    assert [one["text"] for one in record.metadata["revisions"]] == ["I live in Oslo."]
    assert memory.explain(id).is_verified


def test_the_history_of_a_fact_says_what_became_of_it_by_whom_and_what_it_said(
    store, memory, clock
):
    first = memory.add([OSLO], session_id="s1", user_id="ada")
    (id,) = facts_ids(store)
    clock.advance(days=1)
    again = memory.add([said("I live in Oslo!", day(2024, 2))], session_id="s2", user_id="ada")
    clock.advance(days=1)
    moved = memory.add([BERGEN], session_id="s3", user_id="ada")
    (new,) = facts_ids(store)
    clock.advance(days=1)
    undone = memory.undo(moved.job_id)
    clock.advance(days=1)
    memory.correct(id, "Ada lives in Oslo.")
    clock.advance(days=1)
    memory.invalidate(id, reason="she moved on")
    found = memory.history(id)
    assert [(one.kind, one.job_id, one.other_id) for one in found] == [
        ("add", first.job_id, None),
        ("merge", again.job_id, None),
        ("supersede", moved.job_id, new),
        ("undo", undone.job_id, None),
        ("correct", None, None),
        ("invalidate", None, None),
    ]
    assert [one.text for one in found] == ["I live in Oslo."] * 4 + ["Ada lives in Oslo."] * 2
    assert [one.at for one in found] == sorted({one.at for one in found})


def test_what_is_no_fact_has_no_history(memory):
    with pytest.raises(NotFoundError, match="not a fact"):
        memory.history("nothing")


@pytest.mark.parametrize(
    ("said_before", "text", "given", "value"),
    [
        ("I live in Oslo.", "I live in Bergen.", None, "Bergen"),
        ("I live in Oslo.", "Ada lives in New York.", None, "New York"),
        ("I live in Oslo.", "Ada lives in Oslo, Norway.", None, "Oslo"),
        ("I live in Oslo.", "She is a Roman now.", None, "She is a Roman now."),
        ("I live in Oslo.", "She is a Roman now.", "Rome", "Rome"),
    ],
    ids=["replaced", "other words", "explained", "told otherwise", "given"],
)
def test_a_correction_has_the_value_that_its_text_states(
    store, memory, said_before, text, given, value
):
    memory.add([said(said_before)])
    (fact,) = memory.list()
    memory.correct(fact.id, text, value=given)
    schema = {"type": "object", "properties": {"residence": {"type": "string"}}}
    assert memory.profile(schema).values == {"residence": value}
    memory.correct(fact.id, said_before)
    assert memory.profile(schema).values == {"residence": "Oslo"}


def test_a_value_is_refused_for_a_fact_that_is_none_of_a_slot(memory):
    memory.add([said("I love hiking.")])
    (fact,) = memory.list()
    with pytest.raises(
        InvalidRequestError, match=r"value='swimming': fact .* is no value of a slot"
    ):
        memory.correct(fact.id, "Ada loves swimming.", value="swimming")

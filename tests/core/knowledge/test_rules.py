"""The rules note little, and what they note is right: by turns and changes of mind of two halves."""

from collections import Counter
from pathlib import Path

import pytest
from core.knowledge.living import day, facts, said

from lance_context_core.knowledge import RuleExtractor, SpokenTurn

DATA = Path(__file__).parent / "data"
HALVES = ["a", "b", "c", "d"]
"""The rules were made by `a` and `c`; two and three of their forms were mended by what they did with `b` and `d`."""


def read(name, n):
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [tuple(one.split(" | ", n)) for one in lines if not one.startswith("#")]


TURNS = read("turns.txt", 2)
CHANGES = read("changes.txt", 3)


def noted(text):
    turn = SpokenTurn(id="t", session_id="s", role="user", text=text, said_at=day(2024), place=0)
    return RuleExtractor().extract([turn])


def judged(half):
    """How many of what was noted of a half are right, by what was to be noted."""
    found, wrong = Counter(), []
    for of, expected, written in TURNS:
        if of != half:
            continue
        text = written.replace("\\n", "\n")
        answer = noted(text)
        slots = [one for one in answer.candidates if one.slot is not None]
        said_so = [
            f"{one.slot}={one.value}" if one.polarity == "states" else f"ends {one.slot}"
            for one in slots
        ]
        is_worth = expected not in ("-", "language")
        found["worth"] += is_worth
        found["worth, noted"] += is_worth and bool(answer.candidates)
        found["noted"] += bool(answer.candidates)
        found["slots to note"] += is_worth and expected != "fact"
        found["slots"] += len(said_so)
        found["slots, right"] += said_so.count(expected)
        found["unread"] += expected == "language" and answer.faults == {"language": 1}
        found["unreadable"] += expected == "language"
        found["wrongly unread"] += expected != "language" and bool(answer.faults)
        is_right = (said_so == [expected]) if "=" in expected or "ends" in expected else not said_so
        if not is_right or bool(answer.candidates) != is_worth:
            wrong.append((expected, text, said_so, len(answer.candidates)))
    return found, wrong


def settled(turns):
    """What holds of each slot in the end."""
    holds = {}
    for text in turns:
        for one in noted(text).candidates:
            if one.slot is None:
                continue
            if one.polarity == "states":
                holds[one.slot] = one.value
            elif one.value is None or holds.get(one.slot) == one.value:
                holds.pop(one.slot, None)
    return holds


@pytest.mark.parametrize("half", HALVES)
def test_of_what_the_rules_note_nearly_all_is_right_and_worth_keeping(half):
    found, wrong = judged(half)
    assert found["slots, right"] >= 0.95 * found["slots"], wrong
    assert found["worth, noted"] >= 0.85 * found["noted"], wrong


@pytest.mark.parametrize("half", HALVES)
def test_of_what_is_worth_keeping_the_rules_note_most(half):
    found, wrong = judged(half)
    assert found["worth, noted"] >= 0.85 * found["worth"], wrong
    assert found["slots, right"] >= 0.8 * found["slots to note"], wrong


@pytest.mark.parametrize("half", HALVES)
def test_a_turn_in_another_language_is_counted_and_nothing_is_noted_of_it(half):
    found, wrong = judged(half)
    assert found["unread"] == found["unreadable"] > 0, wrong
    assert found["wrongly unread"] == 0, wrong


@pytest.mark.parametrize("half", HALVES)
def test_no_change_of_mind_is_taken_for_another(half):
    wrong = []
    for of, slot, expected, turns in CHANGES:
        holds = settled(turns.split(" / ")).get(slot, "none")
        if of == half and holds != expected:
            wrong.append((turns, holds))
    assert wrong == []


@pytest.mark.parametrize("value", ["Bergen", "Rome", "Lyon", "Ghent", "Turin", "Cork"])
def test_of_two_statements_of_one_turn_the_second_is_current(store, memory, value):
    memory.add([said(f"I live in Oslo. Last month we moved to {value}.")])
    (known,) = store.context("knowledge").list(filters={"kind": "fact"})
    assert known["metadata"]["fact"]["value"] == value


def test_what_a_turn_takes_back_is_not_noted_and_the_rest_is_quoted_without_the_words_for_it(
    store, memory
):
    memory.add([said("I live in Oslo. Scratch that. My dog is called Rex.")])
    memory.add([said("Oops, my cat is called Miso.")])
    assert facts(store) == ["My dog is called Rex.", "my cat is called Miso."]


def test_what_no_rule_can_read_is_told_to_whoever_adds_it(store, memory):
    added = memory.add([said("Ich wohne seit drei Jahren in Hamburg und habe einen Hund.")])
    assert (added.faults, added.decisions, facts(store)) == ({"language": 1}, {}, [])

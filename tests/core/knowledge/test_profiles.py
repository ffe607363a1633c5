"""A profile has what is known of somebody by a schema: each field proved, and with what it was before."""

from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import Literal

import pytest
from core.knowledge.living import BERGEN, OSLO, day, said
from lance_context_testing import ScriptedModel

from lance_context_core import InvalidRequestError
from lance_context_core.knowledge import ModelExtractor, RuleExtractor


@dataclass
class Person:
    residence: str
    works_at: str | None = field(default=None, metadata={"slot": "employer"})
    shoe_size: int | None = None
    likes: list[str] = field(default_factory=list)
    mood: Literal["Good", "Bad"] = "Good"


SHOES = RuleExtractor(
    fields={
        "shoe_size": r"shoe size is (?P<value>\S+?)\.?$",
        "likes": r"I like (?P<value>[^.]+)",
        "mood": r"mood is (?P<value>\w+)",
    }
)


@pytest.fixture
def known(memory):
    """A memory that knows something of Ada."""
    memory = memory.using(extractor=SHOES)
    memory.add([OSLO, said("I work at Nordlys.", day(2024, 2))], session_id="a", user_id="ada")
    memory.add([BERGEN], session_id="b", user_id="ada")
    memory.add([said("My shoe size is 41.", day(2025, 2))], session_id="c", user_id="ada")
    memory.add([said("I like tea, bees and snow.", day(2025, 3))], session_id="c", user_id="ada")
    memory.add([said("My mood is bad.", day(2025, 4))], session_id="c", user_id="ada")
    memory.add([said("I live in Rome.", day(2026))], session_id="d", user_id="bob")
    return memory


def test_a_field_is_the_newest_value_in_its_type_with_the_turns_that_say_so(known):
    profile = known.profile(Person, user_id="ada")
    assert profile.instance == Person("Bergen", "Nordlys", 41, ["tea", "bees", "snow"], "Bad")
    assert profile.values["shoe_size"] == 41
    (quote,) = profile.fields["residence"].evidence
    assert (quote.text, quote.is_verified) == ("We moved to Bergen last week.", True)
    assert profile.fields["residence"].valid_from == day(2025)


def test_a_field_has_all_that_it_was_and_a_profile_of_then(known):
    profile = known.profile(Person, user_id="ada")
    was = [(one.text, one.valid_from, one.valid_to) for one in profile.fields["residence"].history]
    assert was == [("Oslo", day(2024), day(2025)), ("Bergen", day(2025), None)]
    then = known.profile(Person, user_id="ada", valid_at=day(2024, 6))
    assert then.values == {"residence": "Oslo", "works_at": "Nordlys"}
    assert then.missing == ("shoe_size", "likes", "mood")


def test_nobody_has_what_is_known_of_another(known):
    assert known.profile(Person, user_id="bob").values == {"residence": "Rome"}
    nobody = known.profile(Person, user_id="eve")
    assert not nobody
    assert nobody.instance is None


def test_a_value_of_another_type_is_named_and_not_taken(known):
    known.add([said("My shoe size is forty.", day(2026))], session_id="c", user_id="ada")
    profile = known.profile(Person, user_id="ada")
    assert "shoe_size" not in profile.values
    assert "'forty', not integer" in profile.unfit["shoe_size"]
    assert "shoe_size" not in profile.missing


def test_a_schema_that_changes_keeps_the_old_fields_readable(known):
    schema = {"properties": {"city": {"type": "string", "slot": "residence"}}}
    profile = known.profile(schema, user_id="ada")
    assert profile.values == {"city": "Bergen"}
    assert profile.others["shoe size"].value == "41"
    assert profile.others["employer"].evidence[0].text == "I work at Nordlys."


def test_a_field_that_a_person_pinned_stays_and_has_the_contradiction_beside_it(known):
    fact = known.profile(Person, user_id="ada").fields["residence"].fact
    known.pin(fact.id)
    known.add([said("I live in Rome.", day(2027))], session_id="e", user_id="ada")
    pinned = known.profile(Person, user_id="ada").fields["residence"]
    assert pinned.value == "Bergen"
    assert len(pinned.conflicts) == 1


def test_an_undo_takes_the_value_back(known):
    job = known.add([said("I live in Rome.", day(2027))], session_id="e", user_id="ada")
    assert known.profile(Person, user_id="ada").values["residence"] == "Rome"
    known.undo(job.job_id)
    assert known.profile(Person, user_id="ada").values["residence"] == "Bergen"


def test_several_who_speak_have_a_profile_each(memory):
    memory.add([said("I live in Oslo.", day(2024), name="Ada")], session_id="s")
    memory.add([said("I live in Rome.", day(2024), name="Bo")], session_id="s")
    schema = {"properties": {"residence": {"type": "string"}}}
    assert memory.profile(schema, speaker="ada").values == {"residence": "Oslo"}
    assert memory.profile(schema, speaker="Bo").values == {"residence": "Rome"}


def test_a_model_is_told_of_the_fields_and_fills_them(memory):
    found = {"text": "Ada wears 41.", "turn": 1, "quote": "41", "slot": "shoe_size", "value": 41}
    model = ScriptedModel({"facts": [{**found, "quote": "size 41"}]})
    extractor = ModelExtractor(model, profile=Person)
    memory.using(extractor=extractor).add([said("I need size 41.", day(2024))], user_id="ada")
    assert "shoe size" in model.requests[0].messages[0].text
    assert memory.profile(Person, user_id="ada").values == {"shoe_size": 41}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(int, id="no dataclass"),
        pytest.param({"type": "object"}, id="no properties"),
        pytest.param("Person", id="a name"),
        pytest.param({"properties": []}, id="a list"),
        pytest.param({"properties": {"x": "string"}}, id="a field that is a text"),
    ],
)
def test_what_is_no_schema_is_refused(memory, schema):
    with pytest.raises(InvalidRequestError, match="schema"):
        memory.profile(schema)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({"x": "("}, "unterminated|missing", id="no expression"),
        pytest.param({"x": "a"}, "needs a group", id="no value"),
    ],
)
def test_a_rule_that_cannot_say_a_value_is_refused(fields, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        RuleExtractor(fields=fields)


# Episodes


def test_an_episode_has_the_sessions_of_one_stretch_and_what_is_known_by_it(known):
    found = known.episodes(user_id="ada")
    assert [one.session_ids for one in found] == [("a",), ("b",), ("c",)]
    first = found[0]
    assert (first.start, first.end, first.n_turns) == (day(2024), day(2024, 2), 2)
    # What holds no more is not known by it.
    assert [one.text for one in first.facts] == ["I work at Nordlys."]
    assert first.title == "I work at Nordlys."
    assert first.speakers == ("user",)
    assert all(one.is_verified for one in first.evidence)


def test_sessions_that_follow_each_other_closely_are_one_episode(memory):
    for hour, session in ((0, "a"), (5, "b"), (20, "c")):
        moment = day(2024) + timedelta(hours=hour)
        memory.add([said(f"I saw {session.upper()}nna.", moment)], session_id=session, user_id="u")
    assert [one.session_ids for one in memory.episodes()] == [("a", "b"), ("c",)]
    assert memory.episodes()[0].start.tzinfo is UTC
    assert len(memory.episodes(gap=timedelta(days=1))) == 1
    assert [one.session_ids for one in memory.episodes(limit=1)] == [("c",)]
    assert [one.session_ids for one in memory.episodes(until=day(2024, 1, 2), limit=9)] == [
        ("a", "b"),
        ("c",),
    ]
    assert memory.episodes(since=day(2025)) == []


def test_an_episode_lasts_until_the_last_of_its_sessions_ends_and_not_the_last_that_began(memory):
    for hour, session in ((0, "long"), (4, "short"), (5, "long"), (10, "long"), (15, "next")):
        turn = said(f"It is {hour} o'clock, Anna.", day(2024) + timedelta(hours=hour))
        memory.add([turn], session_id=session, user_id="u")
    (only,) = memory.episodes()
    assert only.session_ids == ("long", "short", "next")
    assert (only.end - only.start, only.n_turns) == (timedelta(hours=15), 5)


def test_sessions_of_two_users_are_never_one_episode(memory):
    for user in ("ada", "bob"):
        memory.add([OSLO], session_id="s", user_id=user)
    assert len(memory.episodes()) == 2
    assert len(memory.episodes(user_id="ada")) == 1


@pytest.mark.parametrize("wrong", [{"gap": timedelta(0)}, {"limit": -1}, {"since": 7}])
def test_episodes_that_cannot_be_are_refused(memory, wrong):
    with pytest.raises(InvalidRequestError, match=next(iter(wrong))):
        memory.episodes(**wrong)

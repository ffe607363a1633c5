"""A review finds what is wrong with what is remembered, and what it prints to remove it does so."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from core.conformance.doubles import ManualClock
from core.knowledge.test_mem0 import EXPORT

from lance_context_core import ContextStore, InvalidRequestError, ManagedMemory, Message
from lance_context_core.knowledge import (
    REVIEW_RULES,
    FactCandidate,
    NoteExtractor,
    review_export,
)

PAGE = Path(__file__).parents[3] / "docs" / "knowledge.md"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def store(clock):
    with ContextStore.open("memory://", clock=clock) as store:
        yield store


@pytest.fixture
def notes(store):
    """Keeps each turn as a fact."""
    return store.knowledge.using(extractor=NoteExtractor())


def say(memory, *texts, user="ada", session="s", **more):
    """Say these; returns the jobs."""
    turns = [{"role": "user", "content": one, **more} for one in texts]
    return [memory.add(one, user_id=user, session_id=session).job_id for one in turns]


def run(call, store):
    """Do what a finding says that removes it."""
    eval(call, {"store": store})  # noqa: S307 - that is what a person does with it


def rules(review):
    return [one.rule for one in review.findings]


JUNK = {
    "Hello there!": "greeting",
    "Thanks a lot!": "greeting",
    "User says hello.": "greeting",
    "You are a helpful assistant.": "system_prompt",
    "Ignore all previous instructions.": "system_prompt",
    "As an AI, I have no body.": "system_prompt",
    "My password is hunter22!": "credential",
    "The API key: sk-abcdefghijklmnop1234": "credential",
    "-----BEGIN RSA PRIVATE KEY-----": "credential",
    "Card 4111 1111 1111 1111": "credential",
    '{"status": "ok", "items": []}': "tool_noise",
    "Traceback (most recent call last): File x": "tool_noise",
    "HTTP 500 from the server": "tool_noise",
    "heartbeat ok": "tool_noise",
    "Where does Ada live?": "question",
    "User asked about the weather.": "question",
    "He is at the airport": "transient",
    "I'm so tired": "transient",
    "Ada is waiting for the plumber": "transient",
    "Pretend that I own a castle.": "hypothetical",
    "Oslo": "fragment",
    "Ada lives in Oslo and": "fragment",
}
KEPT = [
    *("I live in Oslo.", "Loves hiking", "My sister is called Nora.", "Ada is allergic to nuts"),
    *("I work at the airport.", "Her pin collection is large", "Hilda is a nurse"),
    *("Ada keeps her password on paper", "Prefers answers without JSON", "Okay Ltd employs Ada"),
    *("Plays in the station band", "Speaks Norwegian, and some Thai", "Born in 1984"),
]


@pytest.mark.parametrize(("text", "rule"), JUNK.items())
def test_junk_is_found_by_the_rule_that_says_so(text, rule):
    exported = [{"id": "a", "memory": text, "created_at": NOW.isoformat()}]
    assert rules(review_export(exported, now=NOW)) == [rule]


def test_what_is_worth_keeping_is_not_found():
    exported = [
        {"id": f"m{n}", "memory": one, "created_at": NOW.isoformat()} for n, one in enumerate(KEPT)
    ]
    assert not review_export(exported, now=NOW)


def test_secrets_are_masked_in_what_is_told(notes):
    say(notes, "My password is hunter22!")
    (found,) = notes.review().findings
    assert "hunter" not in repr(found)


def test_equal_and_nearly_equal_texts_are_duplicates_of_the_first_of_one_user(store, notes, clock):
    for text in ("I live in Oslo.", "The user lives in Oslo now"):
        say(notes, text)
        clock.advance(seconds=1)
    say(notes, "I live in Oslo.", user="bob")
    store.memory.add(["i LIVE in  oslo"], user_id="ada")
    found = [one for one in notes.review().findings if one.user_id == "ada"]
    assert {one.rule: one.texts for one in found} == {
        "same_words": ("i LIVE in  oslo", "I live in Oslo."),
        "nearly_same_words": ("The user lives in Oslo now", "I live in Oslo."),
    }
    assert rules(notes.review(user_id="bob")) == []


@pytest.mark.parametrize(
    ("first", "second", "is_opposite"),
    [
        ("I like black tea", "I don't like black tea", True),
        ("I love black tea", "I hate black tea", True),
        ("I eat meat at home", "I no longer eat meat at home", True),
        ("I like black tea", "I like green tea", False),
        ("I moved from Oslo", "I moved to Oslo", False),
        ("I can't stand black tea", "I dislike black tea", False),
    ],
    ids=["denied", "hated", "ended", "another", "the way", "twice"],
)
def test_what_says_the_opposite_is_a_contradiction(notes, first, second, is_opposite):
    say(notes, first, second)
    assert ("says_the_opposite" in rules(notes.review())) == is_opposite


class Homes:
    """Takes each turn for where somebody lives."""

    name = "homes/1"

    def extract(self, turns):
        return [self._fact(one) for one in turns]

    def _fact(self, turn):
        place = {"source_id": turn.id, "start": 0, "end": len(turn.text)}
        return FactCandidate(text=turn.text, slot="home", value=turn.text, **place)


def test_two_values_of_a_slot_are_a_contradiction_that_one_of_them_less_ends(store):
    memory = store.knowledge.using(extractor=Homes())
    say(memory, "Oslo city", created_at=NOW - timedelta(days=1), session="a")
    say(memory, "Bergen city", created_at=NOW - timedelta(days=1), session="b")
    (found,) = memory.review().findings
    assert (found.rule, {*found.texts}) == ("two_values", {"Oslo city", "Bergen city"})
    run(found.call, store)
    assert not memory.review()


def test_what_we_have_recalled_and_is_said_again_is_a_loop(store, notes, clock):
    say(notes, "Ada plays chess", metadata={"recalled_ids": ["x"]})
    say(notes, "Ada owns a boat")
    clock.advance(seconds=1)
    store.memory.add([Message.assistant("Ada owns a boat.")], user_id="ada")
    store.memory.add(["[m1] Ada has two sisters"], user_id="ada")
    loops = {one.texts[0]: one.rule for one in notes.review().findings if one.kind == "loop"}
    assert loops == {
        "Ada plays chess": "recalled_and_said_again",
        "Ada owns a boat.": "agent_repeats_memory",
        "[m1] Ada has two sisters": "injected_block",
    }


def test_facts_without_live_proof_are_found(store, notes):
    say(notes, "Ada plays chess")
    (fact,) = notes.list()
    (proof,) = fact.metadata["evidence"]
    changes = {"bare": [], "gone": [proof | {"source_id": "x"}], "other": [proof | {"sha256": "0"}]}
    for id, evidence in changes.items():
        metadata = {**fact.metadata, "evidence": evidence}
        store.context("knowledge").add(
            "user",
            f"Ada owns boat {id}",
            kind="fact",
            id=id,
            user_id="ada",
            session_id="s",
            created_at=NOW,
            metadata={name: one for name, one in metadata.items() if name != "observed"},
        )
    found = {one.ids[0]: one.rule for one in notes.review().findings if one.kind == "unproven"}
    assert found == {"bare": "no_evidence", "gone": "turn_gone", "other": "turn_says_otherwise"}


@pytest.mark.parametrize(
    ("text", "days", "rule"),
    [
        ("Ada flies to Rome tomorrow", 8, "day_has_passed"),
        ("Ada flies to Rome tomorrow", 2, None),
        ("Ada is flying to Rome on 2026-05-01", 40, "planned_date_has_passed"),
        ("Ada is flying to Rome on 2026-07-01", 40, None),
        ("Ada was born on 2026-05-01", 20, None),
        ("Ada plays chess", 400, "not_said_for_long"),
        ("Ada plays chess", 300, None),
    ],
    ids=["tomorrow", "still", "planned", "to come", "no plan", "long ago", "lately"],
)
def test_what_time_has_outdated_is_stale(notes, text, days, rule):
    say(notes, text, created_at=NOW - timedelta(days=days))
    assert rules(notes.review()) == ([] if rule is None else [rule])


def test_what_is_true_again_by_the_clock_alone_is_reviewed_as_any_read_shows_it(store, clock):
    memory = store.knowledge.using(extractor=Homes())
    say(memory, "Oslo city", created_at=NOW - timedelta(days=2), session="a")
    say(memory, "Bergen city", created_at=NOW - timedelta(days=1), session="b")
    store.scope(user_id="ada").history.touch(
        "", session_id="b", expires_at=NOW + timedelta(hours=1)
    )
    assert not memory.review()
    clock.advance(hours=2)
    found = memory.review(stale_after=timedelta(days=1))
    assert [one.texts for one in found.findings] == [("Oslo city",)]
    assert [one.text for one in memory.list()] == ["Oslo city"]


def test_each_call_removes_its_finding_and_no_other(store, notes):
    say(
        notes,
        "Hello there!",
        "I like tea a lot",
        "I don't like tea a lot",
        "My password is hunter22!",
    )
    store.memory.add(["Where is Ada?", "Thanks!"], user_id="ada")
    left = len(notes.review().findings)
    assert left == 5
    while found := notes.review().findings:
        run(found[-1].call, store)
        left -= 1
        assert len(notes.review().findings) == left


def test_a_night_is_undone_by_the_job_that_it_names(store, notes):
    say(notes, "I have a dog")
    for text in ("Hello!", "Oslo", "ok"):
        notes.add(text, user_id="ada", session_id="night", infer="never")
    night = notes.distill(apply="merge").job_id
    review = notes.review()
    assert {one.job_id for one in review.findings} == {night}
    (job,) = review.jobs
    assert (job.job_id, job.n_findings, job.n_made) == (night, 3, 3)
    assert job.command == f"lance-ctx undo {night}"
    notes.undo(job.job_id)
    assert not notes.review()
    assert [one.text for one in notes.list()] == ["I have a dog"]


def test_a_review_writes_nothing_and_sees_what_its_scope_sees(store, notes):
    say(notes, "Hello!")
    say(notes, "Hello!", user="bob")
    before = store.version()
    assert len(notes.review().findings) == 2
    assert len(store.scope(user_id="bob").knowledge.review().findings) == 1
    assert store.version() == before
    assert notes.review().not_known.keys() == {"unused"}


@pytest.mark.parametrize("form", ["list", "results", "file"])
def test_an_export_is_reviewed_as_it_is_imported(tmp_path, form):
    exported = [*EXPORT, {"id": "d", "memory": "lives in BERGEN", "user_id": "ada"}]
    file = tmp_path / "memory.json"
    file.write_text(json.dumps(exported), encoding="utf-8")
    source = {"list": exported, "results": {"results": exported}, "file": str(file)}[form]
    review = review_export(source, now=NOW, stale_after=timedelta(days=3650))
    (found,) = review.findings
    assert (found.rule, found.call) == ("same_words", "memory.delete(memory_id='d')")
    assert (review.n_facts, review.n_memories) == (0, 4)
    assert [*tmp_path.iterdir()] == [file]
    with ContextStore.open("memory://") as store:
        ManagedMemory(store).import_mem0(source)
        # There the same words are one fact.
        assert not store.knowledge.review(stale_after=timedelta(days=3650))


def test_bad_input_is_refused(notes):
    with pytest.raises(InvalidRequestError, match="stale_after"):
        notes.review(stale_after=timedelta(0))
    with pytest.raises(InvalidRequestError, match=r"memories\[0\]"):
        review_export([{"id": "a"}])


def test_the_page_has_the_rules_as_they_are_in_code():
    page = PAGE.read_text(encoding="utf-8")
    start, end = "<!-- rules -->\n", "<!-- end of rules -->"
    assert page.split(start)[1].split(end)[0] == listed()


def listed():
    """What the page says of the rules."""
    lines = ["", "| rule | kind | finds |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {one.kind} | {one.finds} |" for one in REVIEW_RULES]
    for one in REVIEW_RULES:
        if one.pattern is not None:
            lines += ["", f"The pattern of `{one.name}`:", "", "```text", one.pattern, "```"]
    return "\n".join([*lines, "", ""])

"""An erased turn goes with all that nothing else supports: the rest is as if it had never been said."""

import pytest
from core.knowledge.living import BERGEN, OSLO, Scripted, aloud, day, facts, opened, said
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lance_context_core import ContextStore, InvalidRequestError, NotFoundError

AGAIN = said("Nowadays I live in Oslo.", day(2026))
KEEN = said("I love skiing.", day(2024))


def known(store):
    """All that was made, without what counts the turns that were said before in a session."""

    def told(record):
        fact = {**record["metadata"].get("fact", {})}
        fact.pop("place", None)
        proofs = [
            (one["session_id"], one["source_id"], one["start"], one["end"], one["sha256"])
            for one in record["metadata"]["evidence"]
        ]
        names = ("text", "lifecycle_status", "superseded_by_id", "source_ids", "session_id")
        conflicts = record["metadata"].get("conflicts") or []
        return (*(record[name] for name in names), fact, sorted(proofs), conflicts)

    found = store.context("knowledge").list(include_retired=True, filters={"kind": {"$ne": "job"}})
    return {one["id"]: told(one) for one in found}


def test_what_only_the_erased_turn_supports_goes_and_all_else_stays(store, memory):
    gone = memory.add([said("I live in Rome.", day(2020))], session_id="s", user_id="ada")
    kept = memory.add([KEEN], session_id="s", user_id="ada")
    store.erase(ids=gone.ids, derived="rebuild")
    assert facts(store) == ["I love skiing."]
    assert "Rome" not in str(known(store))
    assert [job.id for job in memory.jobs.list()] == [kept.job_id]


def test_a_fact_that_other_turns_state_stays_in_their_words(store, memory):
    gone = memory.add([OSLO], session_id="s1", user_id="ada")
    memory.add([AGAIN], session_id="s2", user_id="ada")
    assert facts(store) == ["I live in Oslo."]
    store.erase(ids=gone.ids, derived="rebuild")
    assert facts(store) == ["Nowadays I live in Oslo."]
    (hit,) = memory.search("Oslo", user_id="ada", search_type="facts", evidence=True)
    assert hit.evidence[0].is_verified
    explained = memory.explain(hit.record.id)
    assert explained.is_verified
    made_by = [link.target_id for link in explained.links if link.relation == "made_by"]
    assert [memory.jobs.get(id).state for id in made_by] == ["succeeded"]


def test_what_the_erased_turn_had_superseded_is_current_again(store, memory):
    memory.add([OSLO], session_id="s1", user_id="ada")
    gone = memory.add([BERGEN], session_id="s2", user_id="ada")
    store.erase(ids=gone.ids, derived="rebuild")
    assert facts(store) == ["I live in Oslo."]


def test_what_was_true_until_the_erased_turn_is_true_until_another_one_says_so(store, memory):
    memory.add([said("I live in Oslo.", day(2023))], session_id="s1", user_id="ada")
    gone = memory.add([said("We moved to Rome.", day(2024, 1))], session_id="s2", user_id="ada")
    memory.add([said("We moved to Rome.", day(2024, 6))], session_id="s3", user_id="ada")
    then = {"user_id": "ada", "valid_at": day(2024, 3), "filter": {"kind": "fact"}}
    assert [one.record.text for one in memory.search("Oslo Rome", **then)] == ["We moved to Rome."]
    store.erase(ids=gone.ids, derived="rebuild")
    assert [one.record.text for one in memory.search("Oslo Rome", **then)] == ["I live in Oslo."]
    assert facts(store) == ["We moved to Rome."]


def test_the_other_turns_of_a_job_stay_known_and_it_can_still_be_undone(store, memory):
    added = memory.add([OSLO, KEEN], session_id="s", user_id="ada")
    store.erase(ids=added.ids[:1], derived="rebuild")
    assert facts(store) == ["I love skiing."]
    assert memory.jobs.get(added.job_id).input_ids == added.ids[1:]
    assert not memory.distill()
    memory.undo(added.job_id)
    assert facts(store) == []


def test_a_job_that_waits_reads_what_is_left(store, memory):
    added = memory.add([OSLO, KEEN], session_id="s", infer="later")
    alone = memory.add([BERGEN], session_id="t", infer="later")
    store.erase(ids=[added.ids[0], *alone.ids], derived="rebuild")
    with pytest.raises(NotFoundError):
        memory.jobs.get(alone.job_id)
    memory.jobs.run_due()
    assert facts(store) == ["I love skiing."]


def test_a_worker_that_has_read_the_erased_turn_writes_nothing(store, memory, clock):
    added = memory.add([OSLO, KEEN], session_id="s", infer="later")

    def erasing(sentences):
        store.erase(ids=added.ids[:1], derived="rebuild")
        return aloud(sentences)

    memory.using(model=erasing).jobs.run_due()
    assert facts(store) == []
    assert memory.jobs.get(added.job_id).state == "scheduled"
    memory.jobs.run_due()
    assert facts(store) == ["I love skiing."]


def test_a_proposal_that_saw_it_is_dropped_with_its_branch(store, memory):
    gone = memory.add([OSLO], session_id="s1", infer="never")
    memory.add([KEEN], session_id="s2", infer="never")
    proposal = memory.distill()
    store.erase(ids=gone.ids, derived="rebuild")
    assert store.branches() == []
    with pytest.raises(NotFoundError):
        memory.merge(proposal.job_id)
    memory.distill(apply="merge")
    assert facts(store) == ["I love skiing."]


def test_a_branch_of_ones_own_keeps_what_other_turns_state_there(store, memory):
    gone = memory.add([OSLO], session_id="s1", user_id="ada")
    branch = store.create_branch("draft")
    branch.knowledge.add([AGAIN], session_id="s2", user_id="ada")
    store.erase(ids=gone.ids, derived="rebuild")
    assert facts(store) == []
    assert facts(store.branch("draft")) == ["Nowadays I live in Oslo."]


def test_an_archived_session_comes_back_without_it(store, memory):
    added = memory.add([OSLO, KEEN], session_id="s", user_id="ada")
    memory.archive("s")
    store.erase(ids=added.ids[:1], derived="rebuild")
    memory.unarchive("s")
    assert facts(store) == ["I love skiing."]
    assert store.history.count("", session_id="s") == 1


def test_what_a_person_has_made_of_a_fact_stays_if_other_turns_state_it(store, memory):
    gone = memory.add([OSLO], session_id="s1", user_id="ada")
    memory.add([AGAIN], session_id="s2", user_id="ada")
    (hit,) = memory.search("Oslo", user_id="ada", search_type="facts")
    memory.correct(hit.record.id, "Ada lives in Oslo, Norway.")
    store.erase(ids=gone.ids, derived="rebuild")
    assert facts(store) == ["Ada lives in Oslo, Norway."]


def test_the_words_of_a_model_go_with_the_turn_that_they_were_for(store, memory):
    memory = memory.using(model=Scripted(aloud, aloud))
    gone = memory.add([OSLO], session_id="s1", user_id="ada")
    memory.add([AGAIN], session_id="s2", user_id="ada")
    store.erase(ids=gone.ids, derived="rebuild")
    assert facts(store) == ["The user says: Nowadays I live in Oslo."]


def test_a_dry_run_tells_what_goes_and_changes_nothing(store, memory):
    gone = memory.add([OSLO], session_id="s1", user_id="ada")
    memory.add([BERGEN, AGAIN], session_id="s2", user_id="ada")
    before = known(store)
    planned = store.erase(ids=gone.ids, derived="rebuild", dry_run=True)
    assert known(store) == before
    erased = store.erase(ids=gone.ids, derived="rebuild")
    assert (erased.records, erased.derived) == (planned.records, planned.derived) == (1, 4)


def test_erasing_a_whole_session_leaves_what_others_say(store, memory):
    memory.add([OSLO, KEEN], session_id="s1", user_id="ada")
    memory.add([AGAIN], session_id="s2", user_id="ada")
    store.erase(filter={"session_id": "s1"}, derived="rebuild")
    assert facts(store) == ["Nowadays I live in Oslo."]
    assert {job.session_id for job in memory.jobs.list()} == {"s2"}


@pytest.mark.parametrize("derived", [True, "rebuild"])
def test_turns_that_a_filter_means_take_along_what_was_made_of_them(store, memory, derived):
    gone = memory.add([OSLO, KEEN], session_id="s1", user_id="ada")
    memory.add([BERGEN], session_id="s2", user_id="ada")
    store.tiers.add("Ada lives in Oslo.", source_ids=gone.ids[:1])
    chosen = {"session_id": "s1", "kind": "message"}
    planned = store.erase(filter=chosen, derived=derived, dry_run=True)
    erased = store.erase(filter=chosen, derived=derived)
    assert facts(store) == ["We moved to Bergen last week."]
    assert not any({*gone.ids} & {*sources} for _, _, _, sources, *_ in known(store).values())
    assert {job.session_id for job in memory.jobs.list()} == {"s2"}
    assert store.tiers.list() == []
    assert (erased.records, erased.derived, erased.mentions) == (
        *(planned.records, planned.derived, planned.mentions),
    )
    assert erased.records == 2


def test_no_byte_of_it_is_left_in_any_file(tmp_path, clock):
    secret = said("I live in Xanaduvia.", day(2024))
    with opened(tmp_path, clock) as store:
        memory = store.knowledge
        gone = memory.add([secret, KEEN], session_id="s1", user_id="ada")
        memory.add([said("I love skiing.", day(2025))], session_id="s2", user_id="ada")
        memory.add([said("My dog is called Rex.", day(2025))], session_id="s3", infer="never")
        memory.distill()
        store.erase(ids=gone.ids[:1], derived="rebuild", sole_writer=True)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if b"xanaduvia" in path.read_bytes().lower()] == []


def test_another_way_to_treat_what_was_made_is_refused(store):
    with pytest.raises(InvalidRequestError, match="derived='keep'"):
        store.erase(ids=["a"], derived="keep")


TOWNS = ["Oslo", "Bergen", "Rome"]


@pytest.mark.slow
@settings(max_examples=max(1, settings.default.max_examples // 6))
@given(
    told=st.lists(
        st.tuples(st.sampled_from(TOWNS), st.integers(2020, 2023), st.integers(0, 2)), max_size=5
    ),
    which=st.integers(0, 4),
)
@example(told=[("Oslo", 2020, 0), ("Oslo", 2021, 1), ("Bergen", 2022, 1)], which=0)
@example(told=[("Oslo", 2020, 0), ("Bergen", 2021, 0), ("Oslo", 2022, 0)], which=1)
@example(told=[("Oslo", 2020, 0), ("Bergen", 2020, 1), ("Rome", 2022, 1)], which=0)
def test_what_is_current_is_as_if_the_turn_had_never_been_said(told, which):
    """The oracle is a memory that was never told it."""
    turns = [
        (said(f"I live in {town}, number {n}.", day(year, n + 1), id=f"t{n}"), f"s{session}")
        for n, (town, year, session) in enumerate(told)
    ]
    with ContextStore.open("memory://") as store, ContextStore.open("memory://") as other:
        for n, (turn, session) in enumerate(turns):
            store.knowledge.add([turn], session_id=session, user_id="ada")
            if n != which:
                other.knowledge.add([turn], session_id=session, user_id="ada")
        store.erase(ids=[f"t{which}"], derived="rebuild")
        assert current(store) == current(other)


def current(store):
    found = store.context("knowledge").list(filters={"kind": {"$in": ["fact", "summary"]}})
    return {(one["metadata"].get("fact", {}).get("value"), one["kind"]) for one in found} | {
        one["text"] for one in found if one["kind"] == "summary"
    }

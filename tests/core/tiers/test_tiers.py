"""Entries go colder and come back: found by what stands in for them, kept whole, in one commit."""

from datetime import timedelta

import pytest

from lance_context_core import (
    AlreadyExistsError,
    ContextStore,
    InvalidRequestError,
    Message,
    NotFoundError,
)
from lance_context_core.tiers import Authority, Tier, TierConfig, TierStats

FULL = "The nightly build breaks when the disk is full."
SHORT = "Full disks break the build."


def found(tiers, query, **more):
    return [(str(hit.tier), hit.text) for hit in tiers.search(query, **more)]


def rows(store):
    """All rows of the tiers, by kind and tier, and whether they are shown."""
    listed = store.context("tiers").list(include_retired=True, include_expired=True)
    return sorted((one["kind"], one["layer"], one["retired_at"] is None) for one in listed)


def test_tiers_step_one_up_and_one_down():
    assert [one.demote() for one in Tier] == [Tier.WARM, Tier.COLD, None]
    assert [one.promote() for one in Tier] == [None, Tier.HOT, Tier.WARM]


def test_a_new_entry_is_hot_and_nobody_has_found_it(tiers, clock):
    added = tiers.add(Message.user(FULL), session_id="s", metadata={"area": "ci"})
    assert (added.tier, added.access_count, added.authority) == ("hot", 0, "session")
    assert (added.text, added.role, added.session_id) == (FULL, "user", "s")
    assert added.last_accessed_at == clock.now()
    assert dict(added.metadata) == {"area": "ci"}
    assert tiers.get(added.id) == added
    assert tiers.list() == [added]


def test_what_is_warm_is_found_by_its_summary_and_not_by_its_own_words(tiers):
    added = tiers.add(FULL)
    assert found(tiers, "nightly") == [("hot", FULL)]
    assert tiers.demote(added.id, SHORT).tier == "warm"
    assert found(tiers, "nightly") == []
    assert found(tiers, "build") == [("warm", SHORT)]
    assert tiers.get(added.id).text == FULL


def test_what_is_cold_is_found_by_its_fact_alone(tiers, store):
    added = tiers.add(FULL)
    tiers.demote(added.id, SHORT)
    assert tiers.demote(added.id, "Builds need disks.").tier == "cold"
    assert found(tiers, "build") == [("cold", "Builds need disks.")]
    assert rows(store) == [
        ("fact", "cold", True),
        ("memory", "cold", True),
        ("summary", "warm", False),
    ]
    with pytest.raises(InvalidRequestError, match="cold"):
        tiers.demote(added.id)


def test_what_is_promoted_comes_back_in_its_own_words_and_counts_as_accessed(tiers, store, clock):
    added = tiers.add(FULL)
    tiers.demote(added.id, SHORT)
    tiers.demote(added.id)
    later = clock.advance(hours=1)
    back = tiers.promote(added.id)
    assert (back.tier, back.text) == ("hot", FULL)
    assert (back.access_count, back.last_accessed_at) == (1, later)
    assert found(tiers, "nightly disk") == [("hot", FULL)]
    assert [one for one in rows(store) if one[2]] == [("memory", "hot", True)]


def test_one_may_come_up_a_single_tier(tiers):
    added = tiers.add(FULL)
    tiers.demote(added.id, SHORT)
    tiers.demote(added.id, "A fact.")
    assert tiers.promote(added.id, to="warm").tier == "warm"
    assert found(tiers, "nightly") == [("warm", FULL)]
    with pytest.raises(InvalidRequestError, match="demote"):
        tiers.promote(added.id, to=Tier.COLD)


def test_without_anybody_who_summarises_75_words_stand_in(tiers, store):
    many = " ".join(f"word{n}" for n in range(80))
    added = tiers.add(many)
    tiers.demote(added.id)
    (hit,) = tiers.search("word3")
    assert hit.text == " ".join(f"word{n}" for n in range(75)) + "..."
    tiers.demote(added.id)
    (hit,) = tiers.search("word3")
    assert hit.text.endswith("word74...")


def test_functions_may_say_what_stands_in(tiers):
    async def fact(text):
        return f"Fact: {text}"

    worded = tiers.using(summarise=str.upper, state=fact)
    added = worded.add("Build.")
    worded.demote(added.id)
    assert found(tiers, "build") == [("warm", "BUILD.")]
    worded.demote(added.id)
    assert found(tiers, "build") == [("cold", "Fact: BUILD.")]


def test_a_function_that_says_nothing_leaves_the_entry_where_it_is(tiers):
    added = tiers.add("Build.")
    with pytest.raises(InvalidRequestError, match="summarise"):
        tiers.using(summarise=lambda _: " ").demote(added.id)
    assert found(tiers, "build") == [("hot", "Build.")]


def test_moving_an_entry_is_one_commit(opened):
    store = opened(journal=None)
    added = store.tiers.add(FULL)
    for move in (store.tiers.demote, store.tiers.demote, store.tiers.promote):
        before = store.version()
        move(added.id)
        assert store.version() == before + 1


def test_the_same_again_is_one_entry_and_something_else_takes_its_place(tiers, clock):
    first = tiers.add(FULL, id="a")
    clock.advance(hours=1)
    assert tiers.add(FULL, id="a") == first
    tiers.demote("a")
    other = tiers.add("Something else.", id="a")
    assert (other.tier, other.created_at) == ("hot", first.created_at)
    assert found(tiers, "nightly") == []
    assert tiers.stats() == TierStats(hot=1)


def test_less_authority_never_takes_the_place_of_more(tiers):
    grant = tiers.grant()
    tiers.add("Never on Fridays.", id="rule", authority="canonical", grant=grant)
    with pytest.raises(AlreadyExistsError, match="canonical"):
        tiers.add("On Fridays.", id="rule")
    tiers.add("Never at night.", id="rule", authority=Authority.CANONICAL, grant=grant)
    assert tiers.get("rule").text == "Never at night."
    tiers.add("Perhaps.", id="maybe", authority="ephemeral")
    assert tiers.add("Surely.", id="maybe").authority == "session"
    with pytest.raises(AlreadyExistsError, match="session"):
        tiers.add("Perhaps.", id="maybe", authority="ephemeral")


def test_what_is_canonical_needs_a_grant_of_its_scope(store):
    tiers = store.tiers
    for act in (
        lambda: tiers.add("A rule.", authority="canonical"),
        lambda: tiers.add("A rule.", authority="canonical", grant="yes"),
        lambda: tiers.add(
            "A rule.", authority="canonical", grant=store.scope(user_id="ada").tiers.grant()
        ),
    ):
        with pytest.raises(InvalidRequestError, match="grant"):
            act()
    tiers.add("A rule.", id="rule", authority="canonical", grant=tiers.grant())
    for act in (tiers.demote, tiers.delete):
        with pytest.raises(InvalidRequestError, match="canonical"):
            act("rule")
    assert tiers.demote("rule", grant=tiers.grant()).tier == "warm"
    assert tiers.delete("rule", grant=tiers.grant()) == 1


def test_counts_say_how_many_are_in_each_tier(tiers, clock):
    for n in range(6):
        tiers.add(f"Note {n}.", id=str(n), expires_at=clock.now() + timedelta(hours=n + 1))
    for id in ("1", "2", "3", "3"):
        tiers.demote(id)
    assert (tiers.stats(), tiers.stats().total) == (TierStats(hot=3, warm=2, cold=1), 6)
    tiers.promote("3")
    tiers.delete("1")
    clock.advance(hours=1)
    assert (tiers.stats(), tiers.stats().total) == (TierStats(hot=3, warm=1), 4)


def test_what_is_deleted_goes_with_what_stands_in_for_it(tiers, store):
    kept = tiers.add("The build is green.")
    gone = tiers.add(FULL)
    tiers.demote(gone.id, SHORT)
    assert tiers.delete(gone.id, "nobody") == 1
    assert found(tiers, "build") == [("hot", "The build is green.")]
    assert rows(store) == [("memory", "hot", True)]
    assert tiers.list() == [tiers.get(kept.id)]
    with pytest.raises(NotFoundError, match="tiers"):
        tiers.get(gone.id)


def test_who_erases_a_source_erases_entry_and_summary(tiers, store):
    store.history.append("a", Message.user(FULL, id="turn-1"), session_id="s")
    added = tiers.add(FULL, source_ids=["turn-1"])
    tiers.demote(added.id, SHORT)
    store.erase(ids=["turn-1"])
    assert rows(store) == []


def test_one_user_sees_nothing_of_another(store):
    ada, bob = (store.scope(user_id=name).tiers for name in ("ada", "bob"))
    ada.add("Ada builds ships.", id="x")
    bob.add("Bob builds bridges.", id="x")
    ada.demote("x", "Ada builds.")
    assert found(ada, "builds") == [("warm", "Ada builds.")]
    assert found(bob, "builds") == [("hot", "Bob builds bridges.")]
    assert sorted(found(store.tiers, "builds")) == found(bob, "builds") + found(ada, "builds")
    with pytest.raises(InvalidRequestError, match="scope"):
        store.tiers.demote("x")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"content": " "}, id="nothing"),
        pytest.param({"content": 3}, id="no text"),
        pytest.param({"importance": 1.5}, id="more than all"),
        pytest.param({"authority": "king"}, id="another authority"),
        pytest.param({"metadata": {"importance": 1}}, id="a name of ours"),
    ],
)
def test_what_cannot_be_kept_is_refused(tiers, wrong):
    with pytest.raises((InvalidRequestError, TypeError)):
        tiers.add(**{"content": "Build.", **wrong})
    assert tiers.list() == []


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"hot_retention": 24}, id="a number of what"),
        pytest.param({"half_life": 0}, id="no time"),
        pytest.param({"max_hot": -1}, id="less than none"),
        pytest.param({"keep_recent": None}, id="no count"),
        pytest.param({"least_similar": {"hot": 0.5}}, id="one tier alone"),
        pytest.param({"enough": 2}, id="more than all"),
        pytest.param({"weights": 1}, id="no weights"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(wrong):
    with pytest.raises(InvalidRequestError, match=next(iter(wrong))):
        TierConfig(**wrong)


@pytest.mark.parametrize("hostile", ["it's", 'a"b', "%_\\", "x' OR '1'='1", "ключ", "🦊"])
def test_any_id_is_an_id(tiers, hostile):
    tiers.add(FULL, id=hostile, session_id=hostile)
    tiers.add("Another one.", id="other")
    tiers.demote(hostile, SHORT)
    assert [one.id for one in tiers.list(session_id=hostile)] == [hostile]
    assert tiers.promote(hostile).text == FULL
    assert tiers.delete(hostile) == 1
    assert tiers.stats().total == 1


def test_tiers_are_read_at_a_version_and_on_a_branch(store):
    added = store.tiers.add(FULL)
    version = store.version()
    store.tiers.demote(added.id, SHORT)
    then = store.checkout(version)
    assert found(then.tiers, "nightly build") == [("hot", FULL)]
    assert isinstance(then, ContextStore)
    there = store.create_branch("b")
    there.tiers.promote(added.id)
    assert found(there.tiers, "nightly") == [("hot", FULL)]
    assert found(store.tiers, "build") == [("warm", SHORT)]
    store.merge("b")
    assert found(store.tiers, "nightly") == [("hot", FULL)]

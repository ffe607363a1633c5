"""The policy is applied: each of its fields moves what it says, and nothing else."""

import math
from datetime import timedelta

import pytest
from core.conformance.doubles import START, ManualClock
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_context_core import ContextStore
from lance_context_core.tiers import Authority, Tier, TierConfig, TierReport

HOUR = timedelta(hours=1)


def of(tiers, tier):
    return [one.id for one in tiers.list(tier=tier)]


def test_what_is_old_and_slight_goes_warm_and_then_cold(tiers, clock):
    tiers.add("Slight.", id="slight", importance=0.2)
    tiers.add("Slighter.", id="slighter", importance=0.05)
    tiers.add("Weighty.", id="weighty", importance=0.3)
    clock.advance(hours=24)
    assert tiers.maintain() == TierReport()
    clock.advance(hours=1)
    assert tiers.maintain() == TierReport(warm=("slighter", "slight"))
    clock.advance(hours=168)
    assert tiers.maintain() == TierReport(cold=("slighter",))
    assert (of(tiers, "hot"), of(tiers, "warm")) == (["weighty"], ["slight"])


def test_what_is_due_for_both_tiers_goes_cold_at_once(tiers, clock):
    tiers.add("Slight.", id="a", importance=0.05)
    clock.advance(days=30)
    assert tiers.maintain() == TierReport(cold=("a",))
    assert tiers.maintain() == TierReport()
    assert [hit.tier for hit in tiers.search("slight")] == [Tier.COLD]


def test_over_its_capacity_the_least_worth_keeping_goes_whatever_its_importance(tiers, clock):
    for n in range(6):
        tiers.add(f"Note {n}.", id=str(n), importance=0.9 - n / 10)
    small = tiers.using(config=TierConfig(max_hot=3, max_warm=2))
    assert small.maintain() == TierReport(warm=("4", "3"), cold=("5",))
    assert of(small, "hot") == ["0", "1", "2"]


def test_over_its_budget_of_tokens_as_many_go_as_make_room(tiers):
    for n in range(5):
        tiers.add("x" * 40, id=str(n), importance=n / 10)
    assert tiers.using(config=TierConfig(max_hot_tokens=30)).maintain().warm == ("0", "1")


def test_the_last_of_each_session_stay_hot_whatever_the_policy_says(tiers, clock):
    for n in range(3):
        for session in ("s1", "s2"):
            tiers.add("Slight.", id=f"{session}-{n}", session_id=session, importance=0)
    clock.advance(days=2)
    strict = tiers.using(config=TierConfig(keep_recent=2, max_hot=0))
    assert sorted(strict.maintain().warm) == ["s1-0", "s2-0"]


def test_sessions_of_two_users_that_are_called_alike_keep_the_last_of_each(store, tiers, clock):
    for n in range(2):
        for user in ("ada", "bob"):
            own = store.scope(user_id=user).tiers
            own.add("Slight.", id=f"{user}-{n}", session_id="s", importance=0)
    clock.advance(days=2)
    strict = tiers.using(config=TierConfig(keep_recent=1, max_hot=0))
    assert sorted(strict.maintain().warm) == ["ada-0", "bob-0"]


def test_what_is_canonical_is_never_moved_and_given_no_end(tiers, clock):
    short = tiers.using(config=TierConfig(session_ttl=HOUR, max_hot=0))
    grant = tiers.grant()
    rule = short.add("Rule.", id="rule", importance=0, authority="canonical", grant=grant)
    note = short.add("Note.", id="note", importance=0)
    assert (rule.expires_at, note.expires_at) == (None, START + HOUR)
    clock.advance(days=400)
    assert short.maintain() == TierReport(expired=("note",))
    assert of(short, "hot") == ["rule"]
    assert short.candidates() == []


def test_what_is_ephemeral_goes_by_its_age_alone(tiers, clock):
    tiers.add("Loud.", id="a", importance=1.0, authority=Authority.EPHEMERAL)
    clock.advance(hours=25)
    assert tiers.maintain().warm == ("a",)


def test_what_has_ended_is_found_in_no_tier_and_goes_with_all_that_stands_in_for_it(
    tiers, store, clock
):
    for n, tier in enumerate(Tier):
        tiers.add("Red apples.", id=tier, expires_at=clock.now() + HOUR)
        for _ in range(n):
            tiers.demote(tier)
    assert len(tiers.search("red apples")) == 3
    clock.advance(hours=1)
    assert tiers.search("red apples") == tiers.list() == []
    assert tiers.maintain(dry_run=True).expired == ("hot", "warm", "cold")
    assert len(store.context("tiers").list(include_expired=True, include_retired=True)) == 6
    assert tiers.maintain().expired == ("hot", "warm", "cold")
    assert store.context("tiers").list(include_expired=True, include_retired=True) == []
    assert tiers.stats().total == 0


def test_what_had_ended_may_be_added_anew(tiers, clock):
    tiers.add("Red apples.", id="a", expires_at=clock.now() + HOUR)
    tiers.demote("a", "Apples.")
    clock.advance(hours=2)
    again = tiers.add("Red apples.", id="a")
    assert (again.tier, again.created_at, again.expires_at) == ("hot", clock.now(), None)
    assert [hit.text for hit in tiers.search("apples")] == ["Red apples."]


def test_candidates_are_ordered_by_what_they_are_worth(tiers, clock):
    def worth(one):
        hours = (clock.now() - one.last_accessed_at) / HOUR
        used = 0.2 * 0.1 * math.log1p(one.access_count)
        return 0.5 * one.importance + 0.3 * math.exp(-math.log(2) / 69.3 * hours) + used

    for n in range(5):
        tiers.add(f"Note {n}.", id=str(n), importance=(n * 2 % 5) / 10)
        clock.advance(hours=40)
    for _ in range(9):
        tiers.record_access("0")
    tiers.flush()
    found = tiers.candidates("hot")
    assert found == sorted(found, key=worth)
    assert [one.id for one in found] != ["0", "3", "1", "4", "2"]
    assert tiers.candidates(limit=2) == found[:2]
    assert tiers.candidates("warm") == []


def test_a_dry_run_tells_what_the_round_then_does(tiers, clock):
    for n in range(8):
        tiers.add(f"Note {n}.", id=str(n), importance=n / 20)
    clock.advance(days=9)
    told = tiers.maintain(dry_run=True)
    assert of(tiers, "hot") == [str(n) for n in range(8)]
    done = tiers.maintain()
    assert (told.warm, told.cold) == (done.warm, done.cold)
    assert (told.is_dry_run, done.is_dry_run) == (True, False)


def test_a_round_is_one_commit_however_many_move(opened, clock):
    store = opened(journal=None)
    for n in range(12):
        store.tiers.add(f"Note {n}.", importance=0)
    clock.advance(days=30)
    before = store.version()
    assert len(store.tiers.maintain().cold) == 12
    assert store.version() == before + 1


def test_a_round_in_a_scope_leaves_others_alone(store, clock):
    for name in ("ada", "bob"):
        store.scope(user_id=name).tiers.add("Slight.", id="x", importance=0)
    clock.advance(days=2)
    assert store.scope(user_id="ada").tiers.maintain().warm == ("x",)
    assert of(store.scope(user_id="bob").tiers, "hot") == ["x"]


ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.05, 0.2, 0.3, 0.9]),
        st.sampled_from(list(Authority)),
        st.sampled_from([None, "s1", "s2"]),
        st.sampled_from([0, 10, 30, 200]),
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 3)
@given(ENTRIES, st.sampled_from([None, 0, 2, 5]), st.sampled_from([0, 1, 4]))
def test_the_policy_holds_after_a_round_and_the_next_does_nothing(told, most, recent):
    clock = ManualClock()
    config = TierConfig(max_hot=most, max_warm=2, keep_recent=recent)
    with ContextStore.open("memory://", clock=clock) as store:
        tiers = store.tiers.using(config=config)
        for n, (importance, authority, session, hours) in enumerate(told):
            clock.advance(hours=hours)
            tiers.add(
                f"Note {n}.",
                id=str(n),
                importance=importance,
                authority=authority,
                session_id=session,
                grant=tiers.grant(),
            )
        before = {one.id: one for one in tiers.list()}
        tiers.maintain()
        after = {one.id: one for one in tiers.list()}
        assert before.keys() == after.keys()
        assert {id: one.text for id, one in before.items()} == {
            id: one.text for id, one in after.items()
        }
        # An oracle of its own: what may stay, by the words of the policy.
        protected = {
            id
            for session in ("s1", "s2")
            for id in [one.id for one in before.values() if one.session_id == session][
                -recent or len(before) :
            ]
        }
        hot = [one for one in after.values() if one.tier is Tier.HOT]
        free = [one for one in hot if one.authority != "canonical" and one.id not in protected]
        for one in free:
            age = clock.now() - one.created_at
            due = one.authority == "ephemeral" or one.importance < 0.3
            assert not (age > config.hot_retention and due)
        assert most is None or len(hot) <= most or not free
        assert sum(one.tier is Tier.WARM for one in after.values()) <= 2
        assert all(one.tier is Tier.HOT for one in after.values() if one.authority == "canonical")
        assert {id for id in protected if after[id].tier is not Tier.HOT} == set()
        assert tiers.maintain() == TierReport()

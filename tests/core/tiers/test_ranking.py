"""What is ranked by, and when an access is counted."""

import math
from datetime import timedelta

import pytest
from core.conformance.doubles import WordVectors

from lance_context_core import InvalidRequestError
from lance_context_core.tiers import Tier, TierConfig, Weights


def names(hits):
    return [hit.entry.id for hit in hits]


def test_a_score_is_the_mean_of_similarity_recency_and_importance(tiers, clock):
    tiers.add("Red apples grow here.", id="a", importance=0.6)
    clock.advance(hours=69.3)
    (hit,) = tiers.search("red apples grow")
    assert hit.similarity == 1.0
    assert hit.recency == pytest.approx(0.5)
    assert hit.score == pytest.approx(0.5 * 1 + 0.3 * 0.5 + 0.2 * 0.6)


def test_similarity_is_a_cosine_where_there_are_vectors(opened):
    embedder = WordVectors()
    config = TierConfig(least_similar=dict.fromkeys(Tier, 0))
    tiers = opened(embedder=embedder).tiers.using(config=config)
    tiers.add("red apples", id="a")
    (hit,) = tiers.search("red pears")
    one, other = embedder.embed_query("red apples"), embedder.embed_query("red pears")
    cosine = float(one @ other / math.sqrt((one @ one) * (other @ other)))
    assert hit.similarity == pytest.approx(max(cosine, 0.5), abs=1e-5)


def test_ranking_comes_before_counting(tiers, clock):
    tiers.add("Red apples grow here.", id="old", importance=0.5)
    clock.advance(hours=100)
    tiers.add("Red apples grow there.", id="new", importance=0.5)
    first = tiers.search("red apples")
    assert names(first) == ["new", "old"]
    assert first[1].recency == pytest.approx(0.5 ** (100 / 69.3))
    assert [hit.entry.access_count for hit in first] == [0, 0]
    again = tiers.search("red apples")
    assert [hit.recency for hit in again] == [1.0, 1.0]
    assert [hit.entry.access_count for hit in again] == [1, 1]


def test_decay_changes_the_order_and_never_what_is_found(tiers, clock):
    tiers.add("Red apples.", id="old", importance=1.0)
    fresh = names(tiers.search("red apples"))
    clock.advance(days=3650)
    tiers.add("Red apples!", id="new", importance=0.1)
    later = tiers.using(config=TierConfig(weights=Weights(similarity=1, recency=1, importance=0)))
    assert fresh == ["old"]
    assert names(later.search("red apples")) == ["new", "old"]
    steady = tiers.using(config=TierConfig(weights=Weights(similarity=1, recency=0, importance=1)))
    assert names(steady.search("red apples")) == ["old", "new"]


@pytest.fixture
def commits(opened):
    store = opened(journal=None)
    for n in range(3):
        store.tiers.add(f"Red apples {n}.", id=str(n))
    return store


def test_all_accesses_of_an_interval_are_one_commit(commits, clock):
    before = commits.version()
    for _ in range(5):
        commits.tiers.search("red apples")
    assert commits.version() == before
    clock.advance(seconds=60)
    commits.tiers.search("red apples")
    assert commits.version() == before + 1
    commits.tiers.search("red apples")
    assert commits.version() == before + 1
    commits.tiers.flush()
    assert commits.tiers.flush() == 0
    found = commits.context("tiers").list()
    assert [one["metadata"]["access_count"] for one in found] == [7, 7, 7]


def test_accesses_of_several_handles_are_all_counted(opened):
    one, other = opened(), opened()
    one.tiers.add("Red apples.", id="a")
    for store in (one, other):
        for _ in range(3):
            store.tiers.search("red apples")
    assert one.tiers.flush() == other.tiers.flush() == 1
    assert one.tiers.get("a").access_count == other.tiers.get("a").access_count == 6


def test_a_view_of_an_earlier_version_counts_nothing(store, clock):
    store.tiers.add("Red apples.", id="a")
    then = store.checkout(store.version())
    then.tiers.search("red apples")
    clock.advance(hours=1)
    then.tiers.search("red apples")
    assert store.tiers.get("a").access_count == 0


def test_an_adaptive_search_goes_colder_only_where_it_has_to(tiers):
    tiers.add("Red apples grow here.", id="hot")
    tiers.add("x", id="warm")
    tiers.add("y", id="cold")
    tiers.demote("warm", "Red apples grow cheap.")
    tiers.demote("cold")
    tiers.demote("cold", "Red apples grow old.")
    assert names(tiers.search("red apples grow", ranking="adaptive")) == ["hot"]
    assert names(tiers.search("red apples grow cheap", ranking="adaptive")) == ["warm", "hot"]
    two = tiers.search("red apples tasting cheap", ranking="adaptive")
    assert names(two) == ["warm", "cold"]
    assert [hit.score for hit in two] == [0.75, 0.5]
    assert sorted(names(tiers.search("red apples grow"))) == ["cold", "hot", "warm"]


def test_an_entry_is_a_hit_once_and_where_it_is_at_hand(tiers):
    for _ in range(2):
        tiers.add("Red apples.", id="a")
        tiers.demote("a", "Red apples.")
        tiers.promote("a")
    assert [(hit.entry.id, hit.tier) for hit in tiers.search("red apples")] == [("a", "hot")]


def test_only_the_tiers_that_are_asked_are_looked_in(tiers):
    tiers.add("Red apples.", id="a")
    tiers.add("Red apples!", id="b")
    tiers.demote("b")
    assert names(tiers.search("red apples", tiers=["warm"])) == ["b"]
    assert names(tiers.search("red apples", tiers=["hot"], ranking="adaptive")) == ["a"]
    assert tiers.search("red apples", tiers=[]) == []


def test_a_session_and_a_filter_narrow_all_tiers(tiers):
    for n in range(4):
        tiers.add("Red apples.", id=str(n), session_id=f"s{n % 2}", metadata={"n": n})
    tiers.demote("3")
    assert sorted(names(tiers.search("red", session_id="s1"))) == ["1", "3"]
    assert names(tiers.search("red", session_id="s1", filter={"n": 3})) == ["3"]


def test_who_asks_for_the_latest_gets_what_is_recent(tiers, clock):
    tiers.add("The red apples report, in full.", id="old", importance=1.0)
    clock.advance(days=30)
    tiers.add("The red apples report.", id="new", importance=0.0)
    config = TierConfig(weights=Weights(similarity=0.5, recency=0.1, importance=0.4))
    assert names(tiers.using(config=config).search("red apples report")) == ["old", "new"]
    clock.advance(days=60)
    tiers.record_access("new")
    eager = TierConfig(
        weights=config.weights, temporal_boost=0.9, least_similar={"hot": 0, "warm": 0, "cold": 0}
    )
    assert names(tiers.using(config=eager).search("latest news of red apples"))[0] == "new"


def test_what_is_hardly_similar_is_no_hit(tiers):
    tiers.add("Red apples grow here in autumn.", id="a")
    assert tiers.search("red wine from old southern hills") == []


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"ranking": "best"}, id="another ranking"),
        pytest.param({"tiers": ["lukewarm"]}, id="another tier"),
        pytest.param({"top_k": -1}, id="less than none"),
    ],
)
def test_what_cannot_be_asked_is_refused(tiers, wrong):
    with pytest.raises(InvalidRequestError):
        tiers.search("red", **wrong)


def test_a_month_has_no_end_of_counting(tiers, clock):
    tiers.add("Red apples.", id="a")
    for _ in range(30):
        clock.advance(days=1)
        tiers.search("red apples")
    assert tiers.get("a").access_count == 30
    assert tiers.get("a").last_accessed_at == clock.now()
    assert clock.now() - tiers.get("a").created_at == timedelta(days=30)

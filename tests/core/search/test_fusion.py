import math
from fractions import Fraction
from functools import partial

import pytest
from core.search.ranked import by_text, by_vector, fuse
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.errors import InvalidRequestError
from lance_context_core.search.boosts import Neighbours
from lance_context_core.search.fusion import Convex, ReciprocalRank, min_max
from lance_context_core.search.ranking import text_score, vector_score

# Few keys, so that channels overlap and links meet; scores on a coarse grid, so that ties happen.
KEYS = st.sampled_from(["a", "b", "c", "d", "e", "'; --", "\ud800", "\x00"])
COSINES = st.integers(-8, 8).map(lambda n: n / 8) | st.floats(-1, 1)
BM25 = st.integers(1, 24).map(lambda n: n / 2) | st.floats(0.01, 60)
VECTOR = st.dictionaries(KEYS, COSINES)
TEXT = st.dictionaries(KEYS, BM25)
LINKS = st.dictionaries(KEYS, KEYS)
UNIT = st.sampled_from([0, 0.25, 0.3, 0.5, 1]) | st.floats(0, 1)


def shares(raw):
    """Min-max in exact fractions, 0 for what is missing."""
    values = [Fraction(value) for value in raw.values()]
    spread = max(values, default=0) - min(values, default=0)
    found = {k: (Fraction(v) - min(values)) / spread if spread else 1 for k, v in raw.items()}
    return lambda key: Fraction(found.get(key, 0))


def bonus(hit):
    return hit.why.get("neighbours", 0)


def order(hits):
    return [hit.key for hit in hits]


def hits_of(hits):
    return {hit.key: hit for hit in hits}


def same(score, expected):
    return math.isclose(score, expected, abs_tol=1e-9)


@given(VECTOR, TEXT, LINKS, UNIT, UNIT)
def test_a_convex_score_is_the_formula_worked_out_in_exact_fractions(
    vector, text, previous, weight, neighbours
):
    v, t, w, n = shares(vector), shares(text), Fraction(weight), Fraction(neighbours)
    hits = fuse(
        vector,
        text,
        previous=previous,
        fusion=Convex(vector_weight=weight),
        boosts=[Neighbours((neighbours,))],
    )
    fused = {key: w * v(key) + (1 - w) * t(key) for key in {*vector, *text}}
    for hit in hits:
        links = [(k, p) for k, p in previous.items() if k != p and {k, p} <= set(fused)]
        earlier = [fused[p] for k, p in links if k == hit.key]
        later = [fused[k] for k, p in links if p == hit.key]
        gain = n * (max(earlier, default=0) + max(later, default=0))
        assert same(hit.score, (fused[hit.key] + gain) / (1 + 2 * n))
        assert same(bonus(hit), gain / (1 + 2 * n))
    assert set(order(hits)) == set(fused)


@given(VECTOR, TEXT, LINKS, UNIT, st.sampled_from([None, 1, 3]))
def test_a_fusion_and_a_boost_of_the_caller_s_own_of_the_same_formula_rank_the_same(
    vector, text, previous, weight, limit
):
    class Lending:
        name, largest = "neighbours", 2 * weight

        def __call__(self, question, candidates):
            return Neighbours((weight,))(question, candidates)

    for fusion in (Convex(vector_weight=weight), ReciprocalRank(k=7)):
        usual, own = (
            fuse(vector, text, previous=previous, fusion=one, boosts=[boost], limit=limit)
            for one, boost in (
                (fusion, Neighbours((weight,))),
                (fusion.__call__, Lending()),
            )
        )
        assert order(own) == order(usual)
        for one, other in zip(own, usual, strict=True):
            assert one.why == pytest.approx(other.why)
            assert (one.score, one.channels) == (pytest.approx(other.score), other.channels)


@given(VECTOR, TEXT, LINKS, UNIT, st.randoms(use_true_random=False))
def test_the_order_in_which_candidates_arrive_does_not_show(vector, text, previous, n, rng):
    def shuffled(mapping):
        items = list(mapping.items())
        rng.shuffle(items)
        return dict(items)

    for fusion in (Convex(), ReciprocalRank()):
        given_order = fuse(
            vector, text, previous=previous, fusion=fusion, boosts=[Neighbours((n,))]
        )
        another = fuse(
            shuffled(vector),
            shuffled(text),
            previous=shuffled(previous),
            fusion=fusion,
            boosts=[Neighbours((n,))],
        )
        assert another == given_order


@given(VECTOR, TEXT, LINKS, UNIT)
def test_scores_fall_from_hit_to_hit_and_stay_in_the_unit_interval(vector, text, previous, n):
    for fusion in (Convex(), ReciprocalRank()):
        hits = fuse(vector, text, previous=previous, fusion=fusion, boosts=[Neighbours((n,))])
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= bonus(hit) <= hit.score <= 1 for hit in hits)


@given(VECTOR, TEXT)
def test_a_hit_explains_itself_by_what_each_channel_said_of_it(vector, text):
    hits = hits_of(fuse(vector, text))
    for key, hit in hits.items():
        for channel, raw in ((hit.vector, vector), (hit.text, text)):
            if key not in raw:
                assert channel is None
                continue
            assert channel.raw == raw[key]
            assert same(channel.normalised, shares(raw)(key))
            better = [other for other in raw.values() if other > raw[key]]
            assert channel.rank == 1 + len(better)
        assert tuple(hit.channels) == tuple(
            name for name, raw in (("vector", vector), ("text", text)) if key in raw
        )


@given(VECTOR, TEXT)
def test_the_extreme_weights_rank_by_one_channel_alone(vector, text):
    both = {*vector, *text}
    for weight, raw in ((1, vector), (0, text)):
        hits = fuse(vector, text, fusion=Convex(vector_weight=weight), boosts=[Neighbours((0,))])
        ranked = [raw.get(hit.key, min(raw.values(), default=0)) for hit in hits]
        assert ranked == sorted(ranked, reverse=True)
        assert len(ranked) == len(both)


@given(st.dictionaries(KEYS, st.integers(-64, 64), min_size=1), st.integers(-9, 9))
def test_min_max_sees_neither_the_unit_nor_the_origin_of_a_score(raw, origin):
    moved = {key: 4.0 * value + origin for key, value in raw.items()}
    assert min_max(moved) == min_max(raw)


def test_the_only_candidate_of_a_channel_is_its_best():
    assert min_max({"a": -0.3}) == {"a": 1.0}
    assert fuse({"a": -0.3}, {"a": 0.1}, boosts=[Neighbours((0,))])[0].score == 1.0


def test_equal_candidates_are_all_the_best():
    assert min_max({"a": 7.0, "b": 7.0, "c": 7.0}) == {"a": 1.0, "b": 1.0, "c": 1.0}


def test_no_candidates_are_no_hits():
    assert fuse({}, {}) == []
    assert min_max({}) == {}


def test_missing_from_a_channel_costs_no_more_than_being_its_worst():
    # "worst" and "missing" differ by the text channel alone, where one is last and one is absent.
    hits = hits_of(
        fuse(
            {"best": 0.9, "worst": 0.5, "missing": 0.5, "low": 0.1},
            {"best": 9.0, "worst": 1.0},
            fusion=Convex(vector_weight=0.5),
            boosts=[Neighbours((0,))],
        )
    )
    assert hits["worst"].score == hits["missing"].score == pytest.approx(0.25)


def test_reciprocal_ranks_add_up_as_in_the_paper():
    hits = hits_of(
        fuse(
            {"a": 0.9, "b": 0.8, "c": 0.7},
            {"c": 5.0, "a": 4.0},
            fusion=ReciprocalRank(k=60),
            boosts=[Neighbours((0,))],
        )
    )
    largest = 2 / 61
    assert hits["a"].score == pytest.approx((1 / 61 + 1 / 62) / largest)
    assert hits["b"].score == pytest.approx((1 / 62) / largest)
    assert hits["c"].score == pytest.approx((1 / 63 + 1 / 61) / largest)
    assert order(hits.values()) == ["a", "c", "b"]


def test_reciprocal_ranks_forget_by_how_much_a_hit_leads_and_convex_does_not():
    vector = {"a": 0.51, "b": 0.50, "low": 0.0}
    text = {"b": 20.0, "a": 1.0, "low": 0.5}
    ranks = hits_of(fuse(vector, text, fusion=ReciprocalRank(), boosts=[Neighbours((0,))]))
    assert ranks["a"].score == ranks["b"].score
    assert order(fuse(vector, text, boosts=[Neighbours((0,))]))[0] == "b"


def test_being_first_in_both_channels_scores_one_whatever_the_fusion():
    for fusion in (Convex(vector_weight=0.3), ReciprocalRank(k=7)):
        (best, *_) = fuse(
            {"a": 0.5, "b": 0.1}, {"a": 3.0, "b": 1.0}, fusion=fusion, boosts=[Neighbours((0,))]
        )
        assert (best.key, best.score) == ("a", 1.0)


def test_only_a_hit_with_perfect_neighbours_on_both_sides_scores_one():
    links = {"b": "a", "c": "b"}
    equal = dict.fromkeys("abc", 1.0)
    hits = hits_of(fuse(equal, equal, previous=links, boosts=[Neighbours((0.5,))]))
    assert {key: hit.score for key, hit in hits.items()} == {"a": 0.75, "b": 1.0, "c": 0.75}
    assert bonus(hits["b"]) == 0.5


def test_an_answer_rises_with_the_question_before_it():
    # The words match the question; the answer shares none of them, and is as near as a stray turn.
    vector = {"question": 0.6, "stray": 0.41, "answer": 0.4, "far": 0.0}
    text = {"question": 9.0, "stray": 0.5}
    assert order(fuse(vector, text, boosts=[Neighbours((0,))])) == [
        "question",
        "stray",
        "answer",
        "far",
    ]
    hits = fuse(vector, text, previous={"answer": "question"})
    assert order(hits) == ["question", "answer", "stray", "far"]
    assert bonus(hits_of(hits)["answer"]) > 0
    assert bonus(hits_of(hits)["stray"]) == 0


def test_of_several_next_turns_the_best_lends_its_score():
    scores = {"root": 0.0, "weak": 0.25, "strong": 0.75, "top": 1.0}
    links = {"weak": "root", "strong": "root"}
    hits = hits_of(
        fuse(scores, {}, previous=links, fusion=Convex(vector_weight=1), boosts=[Neighbours((1,))])
    )
    assert bonus(hits["root"]) == pytest.approx(0.75 / 3)


def test_links_to_what_is_no_candidate_or_to_itself_lend_nothing():
    hits = fuse({"a": 0.5, "b": 0.1}, {}, previous={"a": "a", "b": "gone", "gone": "a"})
    assert [bonus(hit) for hit in hits] == [0, 0]


def test_equal_scores_are_ordered_by_vector_then_text_then_key():
    flat = dict.fromkeys("dcba", 0.5)

    def all_equal(vector, text):
        return dict.fromkeys({*vector, *text}, 0.5)

    assert order(fuse(flat, {}, fusion=all_equal)) == ["a", "b", "c", "d"]
    assert order(fuse({"a": 0.1, "b": 0.2}, {"a": 9.0}, fusion=all_equal)) == ["b", "a"]
    assert order(fuse({}, {"a": 1.0, "b": 2.0}, fusion=all_equal)) == ["b", "a"]
    assert order(fuse({"z": -1.0}, {"a": 9.0}, fusion=all_equal)) == ["z", "a"]


def test_any_function_can_be_the_fusion_and_drop_candidates():
    def words_first(vector, text):
        return {key: 1 / score.rank for key, score in text.items() if score.raw > 1}

    hits = fuse({"a": 0.9, "b": 0.8}, {"b": 3.0, "c": 2.0, "d": 0.5}, fusion=words_first)
    assert order(hits) == ["b", "c"]
    assert hits[0].vector.raw == 0.8


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan, math.inf])
def test_a_fusion_that_leaves_the_unit_interval_is_named_with_its_score(score):
    with pytest.raises(InvalidRequestError, match="'a'.*" + repr(score).replace(".", r"\.")):
        fuse({"a": 0.5}, {}, fusion=lambda vector, text: {"a": score})


def test_a_fusion_that_invents_a_candidate_is_refused():
    with pytest.raises(InvalidRequestError, match=r"'ghost'.*neither channel"):
        fuse({"a": 0.5}, {}, fusion=lambda vector, text: {"ghost": 0.5})


@pytest.mark.parametrize("raw", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_refused_instead_of_poisoning_the_rest(raw):
    with pytest.raises(InvalidRequestError, match="'b'"):
        fuse({"a": 0.5, "b": raw}, {})


def test_numbers_out_of_range_are_refused_by_name():
    with pytest.raises(InvalidRequestError, match=r"vector_weight=1\.5"):
        Convex(vector_weight=1.5)
    with pytest.raises(InvalidRequestError, match="k=-1"):
        ReciprocalRank(k=-1)
    for rank in (partial(fuse, {}), by_vector, by_text):
        with pytest.raises(InvalidRequestError, match="neighbours=nan"):
            rank({}, boosts=[Neighbours((math.nan,))])


@given(COSINES, COSINES)
def test_a_vector_score_is_linear_in_the_cosine(one, other):
    assert same(vector_score(one) - vector_score(other), (one - other) / 2)
    assert 0 <= vector_score(one) <= 1


def test_a_cosine_that_rounding_pushed_past_one_scores_one():
    assert vector_score(1.0000001) == 1.0
    assert vector_score(-1.0000001) == 0.0


@given(BM25, BM25)
def test_a_text_score_rises_with_bm25_and_never_reaches_one(one, other):
    low, high = sorted((one, other))
    assert 0 < text_score(low) <= text_score(high) < 1
    assert same(1 / text_score(low), 1 + 10 / low)


def lenders(key, scores, previous):
    """The keys of the turn before `key` and of the best one after it, among the candidates."""
    links = [(k, p) for k, p in previous.items() if k != p and {k, p} <= set(scores)]
    before = [p for k, p in links if k == key]
    after = sorted((k for k, p in links if p == key), key=scores.get)[-1:]
    return [*before, *after]


@given(TEXT, LINKS, UNIT)
def test_words_alone_lend_bm25_and_keep_the_scale_of_words(text, previous, neighbours):
    hits = by_text(text, previous=previous, boosts=[Neighbours((neighbours,))])
    for hit in hits:
        around = sum(text[key] for key in lenders(hit.key, text, previous))
        total = text[hit.key] + neighbours * around
        assert same(hit.score, 1 - 10 / (10 + total))
        assert same(hit.score - bonus(hit), 1 - 10 / (10 + text[hit.key]))
        assert tuple(hit.channels) == ("text",)
    assert set(order(hits)) == set(text)


@given(VECTOR, LINKS, UNIT)
def test_vectors_alone_lend_what_a_neighbour_has_above_the_lowest(vector, previous, neighbours):
    hits = by_vector(vector, previous=previous, boosts=[Neighbours((neighbours,))])
    for hit in hits:
        around = [vector[key] - min(vector.values()) for key in lenders(hit.key, vector, previous)]
        total = vector[hit.key] + neighbours * sum(around)
        assert same(hit.score, min(1.0, 0.5 + total / 2))
        assert same(hit.score - bonus(hit), 0.5 + vector[hit.key] / 2)
        assert tuple(hit.channels) == ("vector",)
    assert set(order(hits)) == set(vector)


@given(VECTOR, TEXT, LINKS, UNIT, st.randoms(use_true_random=False))
def test_one_channel_falls_from_hit_to_hit_in_whatever_order_it_arrives(
    vector, text, previous, n, rng
):
    for rank, raw in ((by_vector, vector), (by_text, text)):
        hits = rank(raw, previous=previous, boosts=[Neighbours((n,))])
        items = rng.sample(list(raw.items()), len(raw))
        assert rank(dict(items), previous=previous, boosts=[Neighbours((n,))]) == hits
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= bonus(hit) <= hit.score <= 1 for hit in hits)


@given(VECTOR, LINKS, UNIT, st.integers(-4, 0))
def test_a_model_that_finds_everything_alike_lends_no_more_than_another(vector, previous, n, shift):
    moved = {key: value / 4 + shift / 8 for key, value in vector.items()}
    lent = {
        hit.key: bonus(hit)
        for hit in by_vector(moved, previous=previous, boosts=[Neighbours((n,))])
    }
    unmoved = {key: value / 4 - 0.5 for key, value in vector.items()}
    for hit in by_vector(unmoved, previous=previous, boosts=[Neighbours((n,))]):
        assert same(bonus(hit), lent[hit.key])


def test_nobody_to_rank_is_nobody_ranked():
    assert by_vector({}) == by_text({}) == []

"""Maximal marginal relevance against its definition."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_context_core.errors import InvalidRequestError
from lance_context_core.search.mmr import mmr

UNIT = st.sampled_from([0, 0.25, 0.3, 0.5, 1]) | st.floats(0, 1)


def cosine(one, other):
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0


GRID = st.integers(-3, 3).map(float)
DIMENSION = 3
ROW = st.lists(GRID, min_size=DIMENSION, max_size=DIMENSION)


@given(ROW, st.lists(ROW, max_size=8), st.integers(0, 9), UNIT)
def test_each_pick_of_mmr_is_the_best_by_the_definition(query, vectors, k, weight):
    picks = mmr(query, np.array(vectors).reshape(-1, DIMENSION), k=k, lambda_mult=weight)
    assert len(picks) == len(set(picks)) == min(k, len(vectors))
    for place, pick in enumerate(picks):
        before = picks[:place]

        def value(index, before=before):
            nearest = max((cosine(vectors[index], vectors[b]) for b in before), default=0)
            return weight * cosine(vectors[index], query) - (1 - weight) * nearest

        best = max(value(index) for index in range(len(vectors)) if index not in before)
        assert value(pick) >= best - 1e-9


@given(st.integers(0, 2**32 - 1), UNIT)
def test_mmr_of_vectors_in_general_position_is_the_quadratic_loop(seed, weight):
    rng = random.Random(seed)
    query = [rng.gauss(0, 1) for _ in range(5)]
    vectors = [[rng.gauss(0, 1) for _ in range(5)] for _ in range(12)]
    left, picked = set(range(12)), []
    while left:

        def value(index):
            nearest = max((cosine(vectors[index], vectors[p]) for p in picked), default=0)
            marginal = weight * cosine(vectors[index], query) - (1 - weight) * nearest
            return (marginal, cosine(vectors[index], query))

        picked.append(max(left, key=value))
        left.remove(picked[-1])
    assert mmr(query, vectors, k=12, lambda_mult=weight) == picked


def test_mmr_passes_over_a_near_copy_of_what_it_has_picked():
    vectors = [[1, 0.1], [1, 0.11], [0.6, -0.8]]
    assert mmr([1, 0], vectors, k=2, lambda_mult=1) == [0, 1]
    assert mmr([1, 0], vectors, k=2, lambda_mult=0.5) == [0, 2]


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(1, 400))
def test_mmr_picks_equals_in_the_order_given_wherever_they_stand(seed, n_rows, dimension):
    rng = np.random.default_rng(seed)
    vectors, query = rng.normal(size=(n_rows, dimension)), rng.normal(size=dimension)
    vectors[n_rows // 2] = vectors[-1] = vectors[0]
    equals = sorted({0, n_rows // 2, n_rows - 1})
    picks = mmr(query, vectors, k=n_rows, lambda_mult=1)
    assert [pick for pick in picks if pick in equals] == equals


def test_the_first_pick_is_the_nearest_even_where_diversity_alone_counts():
    assert mmr([1, 0], [[0, 1], [1, 1], [1, 0]], k=1, lambda_mult=0) == [2]


def test_mmr_of_nothing_is_nothing():
    assert mmr([1, 0], [], k=3) == []
    assert mmr([1, 0], np.zeros((0, 2)), k=3) == []
    assert mmr([1, 0], [[1, 0]], k=0) == []


def test_mmr_refuses_what_it_cannot_compare():
    with pytest.raises(InvalidRequestError, match=r"\(1, 3\).*\(2,\)"):
        mmr([1, 0], [[1, 0, 0]], k=1)
    with pytest.raises(InvalidRequestError, match="finite"):
        mmr([1, 0], [[1, math.nan]], k=1)
    with pytest.raises(InvalidRequestError, match="k=-1"):
        mmr([1, 0], [[1, 0]], k=-1)
    with pytest.raises(InvalidRequestError, match="lambda_mult=2"):
        mmr([1, 0], [[1, 0]], k=1, lambda_mult=2)
